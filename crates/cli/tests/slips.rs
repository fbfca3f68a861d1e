//! Frequent slips on the command line, on the real binary: each is answered with the line to type, and nothing runs.

use crate::common::{manycore, text, write};
use std::os::unix::fs::PermissionsExt;

/// Runs a wrong command line in an empty directory, with what a shell would make of it as words.
fn said(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let run = manycore().args(words).current_dir(folder.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(2), "{words:?}: {}", text(&run.stderr));
    assert!(run.stdout.is_empty() && folder.path().read_dir().unwrap().next().is_none(), "{words:?}");
    text(&run.stderr)
}

#[test]
fn a_slip_is_answered_with_the_line_to_type() {
    for (words, line) in [
        (&["compare", "ls"][..], "manycore compare ls 'COMMAND B'"),
        (&["compare", "ls -l"], "manycore compare 'ls -l' 'COMMAND B'"),
        (&["compare", "ls", "-l"], "manycore compare 'ls -l' 'COMMAND B'"),
        (&["compare", "true", "sh -c true", "--", "false"], "manycore compare true false"),
        (&["compare"], "manycore compare 'COMMAND A' 'COMMAND B'"),
        (&["scale", "4", "./x"], "manycore scale --workers 4 -- ./x"),
        (&["run", "./x", "-p", "8"], "manycore run -- ./x -p 8"),
        (&["tune", "ls"], "manycore tune -- ls"),
        (&["pin", "812"], "manycore pin --pid 812"),
        (&["ls"], "manycore run -- ls"),
        (&["comapre", "a", "b"], "manycore compare a b"),
        (&["comprae", "a", "b"], "manycore compare a b"),
        (&["eval", "--onyl", "noise"], "manycore eval --only noise"),
        (&["eval", "noise"], "manycore eval --only noise"),
        (&["compare", "-n", "10", "ls", "true"], "manycore compare --pairs 10 ls true"),
        (&["config", "show"], "Type: manycore config\n"),
        (&["version"], "manycore --version"),
        (
            &["compare", "--", "sh", "-c", "true", "--", "sh", "-c", ":"],
            "manycore compare 'sh -c true' 'sh -c :'",
        ),
        (&["compare", "--", "ls -l"], "manycore compare -- ls -l"),
        (&["compare", "--vs", "ls | cat", "--", "ls"], "\"sh -c 'ls | cat'\""),
        (&["compare", "true", "ls > /dev/null"], "leave out '> /dev/null'"),
        (&["compare", "--service", "sleep 9 > x", "--", "true"], "\"sh -c 'sleep 9 > x'\""),
    ] {
        let said = said(words);
        assert!(said.starts_with("manycore: ") && said.contains(line), "{words:?} should say {line}: {said}");
    }
}

#[test]
fn commands_that_cannot_be_started_are_found_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "A.sh", b"true");
    let script = write(folder.path(), "B.sh", b"#!/bin/sh\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (a, b, line) in [
        ("./A.sh", "./B.sh", "sh ./A.sh"),
        ("A.sh", "B.sh", "sh A.sh"),
        ("B.sh", "A.sh", "./B.sh"),
        ("no-such-program", "true", "there is no program 'no-such-program'"),
        ("true > file", "true", "Type the command as: \"sh -c 'true > file'\""),
    ] {
        let run = manycore().args(["compare", a, b]).current_dir(folder.path()).output().unwrap();
        let said = text(&run.stderr);
        assert!(run.status.code() == Some(2) && said.contains(line), "{a}, {b}: {said}");
        assert!(!folder.path().join("manycore-results").exists());
    }
}

#[test]
fn two_quoted_commands_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let run = manycore()
        .args(["compare", "--pairs", "2", "--quiet", "--format", "json", "sh -c 'exit 0'", "true"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(found.to_string().contains("sh -c 'exit 0'"), "{found}");
}
