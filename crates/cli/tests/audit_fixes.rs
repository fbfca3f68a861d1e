//! Tests that follow the fixes which `manycore audit` prints, on processes that the tests pin.

use crate::common::{
    audit::{Running, asleep, audit, kinds_of_its_own, only_own_processes, two_cpus},
    manycore,
    study::{unique, until},
};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use serde_json::Value;

/// Returns the commands that a fix names behind the first colon, without the remark in parentheses.
fn command_of(fix: &str) -> &str {
    let command = fix.split_once(": ").map_or(fix, |(_, command)| command);
    command.split(" (").next().unwrap_or_default()
}

#[test]
fn the_printed_fix_moves_all_processes_of_the_tenant() {
    only_own_processes!("the_printed_fix_moves_all_processes_of_the_tenant");
    let Some([cpu, _]) = two_cpus() else { return };
    let (time, home) = (unique(), tempfile::tempdir().unwrap());
    let busy = "(while :; do :; done) & (while :; do :; done) & wait";
    let pinned = format!("taskset -c {cpu}");
    let shell = Running::shell(&format!("{pinned} sleep {time} & {pinned} sh -c '{busy}' & wait"));
    let idle = asleep(&time, 1)[0];
    let workers = || {
        let mut found = tasks::with_descendants(&[shell.0.id()]);
        found.retain(|pid| ![shell.0.id(), idle].contains(pid));
        found
    };
    let on_cpu = |pid: u32| affinity::of_thread(pid).is_ok_and(|cpus| cpus == CpuSet::single(cpu));
    until("pinned workers", || workers().len() == 3 && workers().into_iter().all(on_cpu));
    // Where other work takes most of the CPU, the workers may do nothing while an audit lasts.
    let mut found = Value::Null;
    until("audited workers", || {
        found = audit(shell.0.id()).1;
        kinds_of_its_own(&found) == ["overlapping_pins"]
    });
    let fix = command_of(found["findings"][0]["fix"].as_str().unwrap()).to_owned();
    let Some(rest) = fix.strip_prefix("manycore ") else {
        return eprintln!("SKIPPED: other processes are pinned to all other CPUs: {fix}");
    };
    let state = home.path().join("journals");
    let run = |words: &str| {
        let run = manycore().args(words.split(' ')).env("MANYCORE_STATE", &state).output().unwrap();
        assert!(run.status.success(), "{words}: {}", String::from_utf8_lossy(&run.stderr));
    };
    run(rest);
    assert!(!workers().into_iter().any(on_cpu) && on_cpu(idle), "{fix}");
    let (_, after) = audit(shell.0.id());
    assert_eq!(kinds_of_its_own(&after), [""; 0], "{after:#}");
    run("undo");
    assert!(workers().into_iter().all(on_cpu));
}

#[test]
fn a_pin_of_manycore_is_fixed_by_undo() {
    only_own_processes!("a_pin_of_manycore_is_fixed_by_undo");
    let Some([cpu, _]) = two_cpus() else { return };
    let (time, home) = (unique(), tempfile::tempdir().unwrap());
    let state = home.path().join("journals");
    let both = Running::shell(&format!("sleep {time} & taskset -c {cpu} sleep {time} & wait"));
    let pids = asleep(&time, 2);
    until("a pinned process", || {
        pids.iter().any(|&pid| affinity::of_thread(pid).is_ok_and(|cpus| cpus.len() == 1))
    });
    let free = pids.iter().find(|&&pid| affinity::of_thread(pid).is_ok_and(|cpus| cpus.len() > 1)).unwrap();
    let tool = |words: &[&str]| manycore().args(words).env("MANYCORE_STATE", &state).output().unwrap();
    let pin = ["pin", "--pid", &free.to_string(), "--place", &format!("cpus={cpu}"), "--once"];
    assert!(tool(&pin).status.success());
    let seen = tool(&["audit", "--budget", "100ms", "--format", "json", "--pid", &both.0.id().to_string()]);
    let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
    let fix = seen["findings"][0]["fix"].as_str().unwrap();
    let undo = command_of(fix).strip_prefix("manycore ").unwrap();
    assert!(undo.starts_with("undo pin-"), "{fix}");
    assert!(tool(&undo.split(' ').collect::<Vec<_>>()).status.success());
    assert!(affinity::of_thread(*free).is_ok_and(|cpus| cpus.len() > 1));
}
