//! `scripts/need` with fake installers that only record what they should install, and the time limit of
//! tests.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use crate::common::text;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// The first folder in PATH, with programs that replace those of the machine.
struct Programs(TempDir);

impl Programs {
    fn new() -> Self {
        let programs = Self(tempfile::tempdir().unwrap());
        programs.add("id", "echo 0");
        programs.add("cargo", "echo cargo 9999.0.0");
        programs.add("apt-get", &format!("echo \"$@\" >>{}/installed", programs.0.path().display()));
        programs
    }

    fn add(&self, name: &str, script: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn need(&self, step: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/need");
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        Command::new("timeout").arg("120").arg(script).arg(step).env("PATH", path).output().unwrap()
    }

    /// Returns the contents of a file that a program wrote.
    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn a_compiler_that_cannot_link_needs_the_c_library() {
    let programs = Programs::new();
    programs.add("cc", "echo 'cannot find Scrt1.o' >&2\nexit 1");
    let run = programs.need("build");
    let installed = programs.written("installed");
    assert!(installed.lines().any(|line| line.ends_with("gcc libc6-dev")), "{installed}");
    // Nothing was really installed, which is an error that states its reason.
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot find Scrt1.o") && said.contains("libc6-dev"), "{said}");
}

#[test]
fn a_compiler_that_links_needs_nothing() {
    let programs = Programs::new();
    // Creates the file after -o, as a linker does.
    programs.add("cc", "shift\n: >\"$1\"");
    let run = programs.need("build");
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(programs.written("installed"), "");
}

#[test]
fn targets_that_rust_has_not_got_are_added() {
    let programs = Programs::new();
    programs.add("rustc", "echo /nonexistent");
    programs.add("rustup", &format!("echo \"$@\" >>{}/added", programs.0.path().display()));
    let run = programs.need("test");
    let added = programs.written("added");
    assert!(added.contains("target add aarch64-unknown-linux-gnu\n"), "{added}: {}", text(&run.stderr));
    assert!(added.contains("-unknown-linux-musl\n"), "{added}");
}

#[test]
fn a_target_that_cannot_be_added_is_named_and_stops_nothing() {
    let programs = Programs::new();
    programs.add("rustc", "exit 1");
    programs.add("rustup", "echo 'error: no way to the server' >&2\nexit 1");
    let run = programs.need("test");
    let said = text(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(said.contains("could not add aarch64-unknown-linux-gnu (error: no way to the server)"), "{said}");
}

/// Runs `deps/tests`, a shell script, as cargo runs tests, with a time limit of one second.
fn limited(script: &str, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("deps/tests");
    fs::create_dir(folder.path().join("deps")).unwrap();
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/limited");
    Command::new(runner).arg(program).args(words).env("TEST_LIMIT", "1").output().unwrap()
}

#[test]
fn a_program_that_a_test_starts_is_ended_after_its_time_with_all_below_it() {
    let run = limited("sh -c 'sleep 1000 & wait' >/dev/null; echo $?", &[]);
    let said = text(&run.stderr);
    assert_eq!((run.status.code(), text(&run.stdout).trim()), (Some(0), "137"), "{said}");
    assert!(said.contains("ended after 1 s: sh -c sleep 1000 & wait"), "{said}");
}

#[test]
fn tests_that_hang_themselves_are_ended() {
    // No process that it starts runs for long.
    let run = limited("while :; do sleep 0.2; done", &[]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&run.status), Some(9));
    assert!(text(&run.stderr).contains("the tests are not done after 6 s"), "{}", text(&run.stderr));
}

#[test]
fn benchmarks_have_no_limit() {
    let run = limited("sleep 4; echo done", &["--bench"]);
    assert_eq!((text(&run.stdout).trim(), text(&run.stderr).trim()), ("done", ""));
}
