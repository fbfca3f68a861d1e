//! Tests on a machine whose `/proc` is mounted with `hidepid`, as a user that it hides processes from. The process that is
//! hidden is the first one of a PID namespace of the test, so no process of the machine matters.

use crate::common::{program, text};
use std::{
    os::unix::fs::chown,
    process::{Command, Output},
};

/// An ordinary user.
const USER: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";
/// Root as a container or a unit without the capability has it.
const WEAK_ROOT: &str = "setpriv --bounding-set -sys_ptrace";

/// Runs `manycore` where `/proc` is mounted with this option. Process 1 is a shell of root. `None` if it cannot be mounted
/// here, which is printed.
fn hidden_from(user: &str, option: &str, arguments: &[&str]) -> Option<Output> {
    let state = tempfile::tempdir().unwrap();
    if user == USER {
        // Otherwise the journals there would be those of another user. Fails without root, as mounting does.
        let _ = chown(state.path(), Some(65_534), Some(65_534));
    }
    // Not `exec`: the shell stays process 1.
    let script = format!(
        "mount -t proc -o {option} proc /proc && {user} test -x \"$0\" || exit 77; {user} \"$0\" \"$@\"; \
         exit $?"
    );
    let run = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", &script])
        .arg(program())
        .args(arguments)
        .env("MANYCORE_STATE", state.path())
        // No settings of another user.
        .env("HOME", state.path())
        .output();
    match run {
        Ok(run) if run.status.code() != Some(77) && !text(&run.stderr).starts_with("unshare") => Some(run),
        _ => {
            println!("SKIPPED: /proc cannot be mounted with {option}, or other users cannot run the program");
            None
        }
    }
}

/// Regression test: a process that `/proc` hides was said not to exist.
#[test]
fn a_hidden_process_is_not_said_to_be_missing() {
    for (user, option) in [
        (USER, "hidepid=invisible"),
        (USER, "hidepid=noaccess"),
        (USER, "hidepid=ptraceable"),
        // With the other options, the group root sees all processes.
        (WEAK_ROOT, "hidepid=ptraceable"),
    ] {
        for arguments in [
            &["pin", "--pid", "1", "--once"][..],
            &["audit", "--pid", "1"],
            &["top", "--once", "--pid", "1"],
            &["guard", "why", "1"],
        ] {
            let Some(run) = hidden_from(user, option, arguments) else { return };
            let said = text(&run.stderr);
            let is_named = said.contains(&format!("process 1 is hidden: /proc is mounted with {option}"));
            assert!(is_named && said.contains("CAP_SYS_PTRACE"), "{user} {option} {arguments:?}: {said}");
            assert!(run.status.code() == Some(2) && said.lines().count() == 1, "{arguments:?}: {said}");
        }
    }
}

/// Regression test: what looked for processes by name, or showed all of them, did not say that most are hidden.
#[test]
fn what_shows_all_processes_says_that_others_are_hidden() {
    let expected = "processes of other users are hidden: /proc is mounted with hidepid=invisible";
    let sched = ["sched", "run", "--with", "affinity", "--level", "core", "--name", "no-such-name"];
    for (arguments, code) in [
        (&["top", "--once"][..], 0),
        (&["vm", "list"], 0),
        (&["top", "--once", "--domain", "no-such-domain"], 2),
        (&sched, 2),
    ] {
        let Some(run) = hidden_from(USER, "hidepid=invisible", arguments) else { return };
        let said = text(&run.stderr);
        // One CPU cannot be divided.
        let is_refused = arguments[0] == "sched" && !said.contains("no process is named");
        assert!(is_refused || said.contains(expected), "{arguments:?}: {said}");
        assert!(is_refused || run.status.code() == Some(code), "{arguments:?}: {said}");
    }
}

#[test]
fn a_process_that_has_ended_is_missing_with_hidepid_too() {
    let Some(run) = hidden_from(USER, "hidepid=invisible", &["top", "--once", "--pid", "4194303"]) else {
        return;
    };
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(2) && said.contains("there is no process 4194303"), "{said}");
}
