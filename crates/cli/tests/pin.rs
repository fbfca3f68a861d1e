//! Tests of `pin` and `undo` with the real binary on real processes.

use crate::common::{
    place::{KillOnDrop, TestHome, is_on, last, soon, two_cpus},
    unprivileged,
};
use manycore_linux::tasks;
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, process::Command};

#[test]
fn a_process_is_moved_with_its_later_children_and_moved_back() {
    let Some(cpus) = two_cpus() else { return };
    let (home, mut shell) = (TestHome::new(), KillOnDrop::shell());
    let before = shell.child();
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    let pin = KillOnDrop(
        home.command(&["pin", "--pid", &pid, "--place", &place, "--workers", "1"]).spawn().unwrap(),
    );
    soon("the pin", || is_on(shell.pid(), &last(&cpus)) && is_on(before, &last(&cpus)));
    let after = shell.child();
    soon("the pin of a child", || is_on(after, &last(&cpus)));
    let listed = home.run(&["undo", "--list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("running: pin --pid"));
    // A change is not undone by another process while its owner runs.
    let left = home.run(&["undo"]);
    assert!(String::from_utf8_lossy(&left.stdout).contains("still running, left unchanged"));
    assert!(is_on(shell.pid(), &last(&cpus)));
    pin.signal(Signal::INT);
    let mut pin = pin;
    assert_eq!(pin.0.wait().unwrap().code(), Some(0));
    for pid in [shell.pid(), before, after] {
        assert!(is_on(pid, &cpus), "{pid}");
    }
    assert!(home.is_clean());
}

#[test]
fn undo_restores_what_a_killed_run_left() {
    let Some(cpus) = two_cpus() else { return };
    let (home, mut shell) = (TestHome::new(), KillOnDrop::shell());
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    for turn in 0..10 {
        let mut pin = KillOnDrop(
            home.command(&["pin", "--pid", &pid, "--place", &place, "--workers", "1"]).spawn().unwrap(),
        );
        soon("the pin", || is_on(shell.pid(), &last(&cpus)));
        pin.signal(Signal::KILL);
        pin.0.wait().unwrap();
        let orphan = shell.child();
        assert!(is_on(orphan, &last(&cpus)));
        let undo = home.run(&["undo"]);
        assert_eq!(undo.status.code(), Some(0), "{}", String::from_utf8_lossy(&undo.stderr));
        for pid in tasks::with_descendants(&[shell.pid()]) {
            assert!(is_on(pid, &cpus), "{pid} in turn {turn}: {}", String::from_utf8_lossy(&undo.stdout));
        }
        assert!(home.is_clean());
    }
}

#[test]
fn once_stays_until_undone() {
    let Some(cpus) = two_cpus() else { return };
    let (home, shell) = (TestHome::new(), KillOnDrop::shell());
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    let said = home.stderr_of(0, &["pin", "--pid", &pid, "--place", &place, "--workers", "1", "--once"]);
    let moved = format!("1 task moved to CPU {}, held by ", last(&cpus));
    assert!(said.contains(&moved) && said.contains("'manycore undo pin-"), "{said}");
    assert!(is_on(shell.pid(), &last(&cpus)));
    let listed = home.run(&["undo", "--list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("stays until undone"), "{listed}");
    let name = listed.split_whitespace().next().unwrap();
    assert!(home.stderr_of(2, &["undo", "pin-0"]).contains("no change named pin-0 is in force"));
    let undone = home.run(&["undo", name, "--format", "json"]);
    let undone: Value = serde_json::from_slice(&undone.stdout).unwrap();
    assert_eq!(undone["undone"][0]["restored"]["tasks"], 1);
    assert!(is_on(shell.pid(), &cpus) && home.is_clean());
}

#[test]
fn journals_of_other_users_are_refused() {
    use std::os::unix::fs::chown;
    let home = TestHome::new();
    fs::create_dir(home.path("journals")).unwrap();
    if chown(home.path("journals"), Some(65534), None).is_err() {
        return eprintln!("SKIPPED: needs root");
    }
    assert!(home.stderr_of(3, &["undo"]).contains("belongs to user 65534"));
}

#[test]
fn unprivileged_user_places_own_processes() {
    let home = TestHome::new();
    let Some(cpus) = two_cpus() else { return };
    let place = format!("cpus={}", last(&cpus));
    let journals = home.path("own");
    fs::create_dir(&journals).unwrap();
    let mut user = unprivileged();
    user.args(["run", "--place", &place, "--workers", "1", "--", "sleep", "0.2"])
        .env("MANYCORE_STATE", &journals);
    if std::os::unix::fs::chown(&journals, Some(65534), Some(65534)).is_err() {
        return eprintln!("SKIPPED: needs root");
    }
    fs::set_permissions(home.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = user.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    if said.contains("Permission denied") && said.contains("setpriv") {
        return eprintln!("SKIPPED: another user cannot run what was built here");
    }
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert!(said.contains("held by affinities alone: "), "{said}");
    let foreign = KillOnDrop::shell();
    let mut user = unprivileged();
    let run = user
        .args(["pin", "--pid", &foreign.pid().to_string()])
        .env("MANYCORE_STATE", &journals)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(3));
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let named = format!("sh (pid {}) cannot be moved: Operation not permitted", foreign.pid());
    assert!(said.contains(&named) && said.contains("run manycore as root"), "{said}");
    assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
}

#[test]
fn pins_of_one_process_end_in_any_order() {
    let Some(cpus) = two_cpus() else { return };
    let (home, shell) = (TestHome::new(), KillOnDrop::shell());
    let pid = shell.pid().to_string();
    for hold in ["affinity", "auto"] {
        for place in [last(&cpus).to_string(), cpus.first().unwrap().to_string()] {
            let place = format!("cpus={place}");
            let run = home.run(&[
                "pin",
                "--pid",
                &pid,
                "--place",
                &place,
                "--workers",
                "1",
                "--once",
                "--hold",
                hold,
            ]);
            // The second pin finds only the CPU of the first one in the cpuset. It fails and changes
            // nothing.
            let code = run.status.code();
            assert!(
                code == Some(0) || hold == "auto" && code == Some(3),
                "{}",
                String::from_utf8_lossy(&run.stderr)
            );
        }
        let listed = home.run(&["undo", "--list", "--format", "json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let oldest =
            listed["pending"].as_array().unwrap().last().unwrap()["name"].as_str().unwrap().to_owned();
        assert_eq!(home.run(&["undo", &oldest]).status.code(), Some(0));
        assert_eq!(home.run(&["undo"]).status.code(), Some(0));
        assert!(is_on(shell.pid(), &cpus) && home.is_clean(), "{hold}");
    }
}

#[test]
fn kernel_threads_and_zombies_are_not_pinned() {
    let home = TestHome::new();
    match tasks::all().into_iter().find(|&pid| tasks::is_kernel(pid)) {
        Some(pid) => {
            assert!(home.stderr_of(2, &["pin", "--pid", &pid.to_string()]).contains("kernel thread"));
        }
        None => eprintln!("SKIPPED: no kernel thread is seen in this process namespace"),
    }
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    soon("the end of a child", || !tasks::is_alive(pid));
    assert!(home.stderr_of(2, &["pin", "--pid", &pid.to_string(), "--once"]).contains("has ended"));
    child.wait().unwrap();
    assert!(home.is_clean());
}

#[test]
fn pin_and_undo_count_the_same_tasks() {
    let Some(cpus) = two_cpus() else { return };
    let (home, mut shell) = (TestHome::new(), KillOnDrop::shell());
    let there = shell.child();
    manycore_linux::affinity::restrict(there, &last(&cpus)).unwrap();
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    let said = home.stderr_of(0, &["pin", "--pid", &pid, "--place", &place, "--once"]);
    let moved = format!("1 of 2 tasks moved to CPU {} (the other one was there already)", last(&cpus));
    assert!(said.contains(&moved), "{said}");
    let undone = home.run(&["undo"]);
    let undone = String::from_utf8_lossy(&undone.stdout).into_owned();
    assert!(undone.contains("1 task: CPUs restored"), "{undone}");
    assert!(is_on(shell.pid(), &cpus) && is_on(there, &last(&cpus)));
    let nothing = home.run(&["undo"]);
    assert_eq!(nothing.stdout, home.run(&["undo", "--list"]).stdout);
    assert_eq!(String::from_utf8_lossy(&nothing.stdout).trim(), "no changes are in force");
}

#[test]
fn a_name_instead_of_a_process_id_is_answered_with_the_command_that_finds_it() {
    let said = TestHome::new().stderr_of(2, &["pin", "--pid", "redis-server", "--place", "close"]);
    assert!(said.contains("--pid $(pgrep -d, -x redis-server)"), "{said}");
}
