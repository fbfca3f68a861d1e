//! Tests of `manycore qos prove` on hardware that enforces limits, and on hardware that does not.

use super::{TestMount, kernel::Kernel, limit_enforcer::LimitEnforcer};
use crate::common::schema;
use serde_json::Value;
use std::{thread::available_parallelism, time::Duration};

impl TestMount {
    /// Runs `qos prove`; returns the exit code and the results.
    fn proved(&self, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
        let root = self.root.path().to_str().unwrap();
        let run = self.manycore(
            &[&["qos", "prove", "--quiet", "--format", "json", "--resctrl", root], arguments].concat(),
        );
        let proofs = schema::parse("qos-proof", &run.stdout);
        (run.status.code(), proofs["proofs"].as_array().unwrap().clone())
    }
}

#[test]
fn enforced_limits_hold() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    if available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return eprintln!("SKIPPED: needs a second CPU");
    }
    let enforcer = LimitEnforcer::on(mount.root.path());
    let holds = |proofs: &[Value]| proofs.len() == 3 && proofs.iter().all(|proof| proof["answer"] == "holds");
    // On a noisy machine, a short measurement is inconclusive.
    let (mut code, mut proofs) = (None, Vec::new());
    for budget in ["12", "30", "90"] {
        (code, proofs) = mount.proved(&["--budget", budget]);
        if holds(&proofs) {
            break;
        }
    }
    drop(enforcer);
    if proofs.len() == 3 && proofs.iter().any(|proof| proof["answer"] == "inconclusive") {
        println!("SKIPPED: other work on this machine is too noisy: {proofs:#?}");
        return mount.is_untouched();
    }
    assert!(code == Some(0) && holds(&proofs), "{code:?} {proofs:#?}");
    let limit = &proofs[0]["limits"][0];
    assert_eq!((limit["line"].as_str(), limit["written"].as_u64()), (Some("MB"), Some(10)), "{limit}");
    mount.is_untouched();
}

#[test]
fn limits_that_are_not_enforced_do_not_hold() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let (code, proofs) = mount.proved(&["bandwidth", "--budget", "4"]);
    // On a noisy machine the result is inconclusive.
    assert!(matches!(code, Some(1 | 3)) && proofs[0]["answer"] != "holds", "{code:?} {proofs:#?}");
    mount.is_untouched();
}

#[test]
fn the_default_limit_is_the_minimum_if_that_is_above_a_tenth() {
    let Some(mount) = TestMount::new(Kernel { least: Some(13), ..Kernel::default() }) else { return };
    let (code, proofs) = mount.proved(&["bandwidth", "--budget", "1"]);
    let limit = &proofs[0]["limits"][0];
    assert_eq!(limit["written"].as_u64(), Some(13), "{code:?} {proofs:#?}");
    mount.is_untouched();
}

#[test]
fn unmeasurable_checks_are_reported_without_changes() {
    let old = Kernel { old: true, ..Kernel::default() };
    let Some(mount) = TestMount::new(old) else { return };
    let (code, proofs) = mount.proved(&["priority"]);
    let why = proofs[0]["why"].as_str().unwrap();
    // If the tests have only one CPU, that is the first reason.
    let has_competitors = manycore_linux::affinity::allowed().unwrap().len() > 1;
    let reason = if has_competitors { "mbPrio" } else { "needs a second CPU" };
    assert!(code == Some(3) && why.contains(reason), "{proofs:#?}");
    mount.is_untouched();
    for (arguments, text) in [
        (&["prove", "everything"][..], "expected bandwidth, min or priority"),
        (&["prove", "--node", "99"], "--node 99: no such node"),
        (&["prove", "--budget", "0"], "expected a duration longer than zero"),
        (&["prove", "--priority", "8"], "0..=7"),
    ] {
        let root = mount.root.path().to_str().unwrap();
        let run = mount.manycore(&[&["qos"], arguments, &["--resctrl", root]].concat());
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && error.contains(text), "{arguments:?}: {error}");
    }
    mount.is_untouched();
}

#[test]
fn undo_removes_the_groups_of_a_killed_check() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let root = mount.root.path().to_str().unwrap();
    let mut prove = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(["qos", "prove", "bandwidth", "--quiet", "--budget", "600", "--resctrl", root])
        .current_dir(mount.results.path())
        .env(manycore_control::journal::FOLDER_VARIABLE, mount.state.path())
        .spawn()
        .unwrap();
    let tasks = || {
        mount
            .groups()
            .iter()
            .map(|group| mount.text(&format!("{group}/tasks")).lines().count())
            .sum::<usize>()
    };
    while tasks() < 1 {
        assert!(prove.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    prove.kill().unwrap();
    prove.wait().unwrap();
    mount.done(0, &["undo"]);
    assert!(mount.groups().is_empty());
    mount.is_untouched();
}
