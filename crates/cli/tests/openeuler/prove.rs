//! Tests of `manycore qos prove` on hardware that enforces limits, and on hardware that does not.

use super::{Place, brake::Brake, kernel::Kernel};
use serde_json::Value;
use std::{thread::available_parallelism, time::Duration};

impl Place {
    /// Runs `qos prove`; returns the exit code and the results.
    fn proved(&self, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
        let root = self.root.path().to_str().unwrap();
        let run = self.manycore(
            &[&["qos", "prove", "--quiet", "--format", "json", "--resctrl", root], arguments].concat(),
        );
        let proofs: Value = serde_json::from_slice(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
        (run.status.code(), proofs["proofs"].as_array().unwrap().clone())
    }
}

#[test]
fn limits_that_limit_are_shown() {
    let Some(place) = Place::new(Kernel::default()) else { return };
    if available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return eprintln!("SKIPPED: needs a second CPU");
    }
    let brake = Brake::on(place.root.path());
    let (code, proofs) = place.proved(&["--seconds", "4"]);
    drop(brake);
    let holds = proofs.len() == 3 && proofs.iter().all(|proof| proof["answer"] == "holds");
    assert!(code == Some(0) && holds, "{code:?} {proofs:#?}");
    let limit = &proofs[0]["limits"][0];
    assert_eq!((limit["line"].as_str(), limit["written"].as_u64()), (Some("MB"), Some(10)), "{limit}");
    place.is_untouched();
}

#[test]
fn limits_that_do_not_limit_are_not_called_proven() {
    let Some(place) = Place::new(Kernel::default()) else { return };
    let (code, proofs) = place.proved(&["bandwidth", "--seconds", "4"]);
    // On a noisy machine the result is inconclusive.
    assert!(matches!(code, Some(1 | 3)) && proofs[0]["answer"] != "holds", "{code:?} {proofs:#?}");
    place.is_untouched();
}

#[test]
fn the_usual_limit_is_the_least_where_a_tenth_cannot_be_set() {
    let Some(place) = Place::new(Kernel { least: Some(13), ..Kernel::default() }) else { return };
    let (code, proofs) = place.proved(&["bandwidth", "--seconds", "1"]);
    let limit = &proofs[0]["limits"][0];
    assert_eq!(limit["written"].as_u64(), Some(13), "{code:?} {proofs:#?}");
    place.is_untouched();
}

#[test]
fn what_cannot_be_shown_is_told_and_changes_nothing() {
    let old = Kernel { old: true, ..Kernel::default() };
    let Some(place) = Place::new(old) else { return };
    let (code, proofs) = place.proved(&["priority"]);
    let why = proofs[0]["why"].as_str().unwrap();
    // If the tests have only one CPU, that is the first reason.
    let has_rivals = manycore_linux::affinity::allowed().unwrap().len() > 1;
    let reason = if has_rivals { "mbPrio" } else { "needs a second CPU" };
    assert!(code == Some(3) && why.contains(reason), "{proofs:#?}");
    place.is_untouched();
    for (arguments, said) in [
        (&["prove", "everything"][..], "expected bandwidth, min or priority"),
        (&["prove", "--node", "99"], "--node 99: no such node"),
        (&["prove", "--seconds", "0"], "expected 1 to 86400"),
        (&["prove", "--priority", "8"], "0..=7"),
    ] {
        let root = place.root.path().to_str().unwrap();
        let run = place.manycore(&[&["qos"], arguments, &["--resctrl", root]].concat());
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && error.contains(said), "{arguments:?}: {error}");
    }
    place.is_untouched();
}

#[test]
fn a_proof_that_is_killed_leaves_nothing_after_undo() {
    let Some(place) = Place::new(Kernel::default()) else { return };
    let root = place.root.path().to_str().unwrap();
    let mut prove = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(["qos", "prove", "bandwidth", "--quiet", "--seconds", "600", "--resctrl", root])
        .current_dir(place.results.path())
        .env(manycore_control::journal::FOLDER_VARIABLE, place.state.path())
        .spawn()
        .unwrap();
    let tasks = || {
        place
            .groups()
            .iter()
            .map(|group| place.text(&format!("{group}/tasks")).lines().count())
            .sum::<usize>()
    };
    while tasks() < 2 {
        assert!(prove.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    prove.kill().unwrap();
    prove.wait().unwrap();
    place.done(0, &["undo"]);
    assert!(place.groups().is_empty());
    place.is_untouched();
}
