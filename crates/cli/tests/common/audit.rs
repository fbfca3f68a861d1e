//! Helpers for tests of `audit`: processes that the tests pin, and audits of them.

use super::{
    manycore, schema,
    study::{running, until},
};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuId;
use serde_json::Value;
use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// Runs the calling test in a namespace of processes of its own: an audit sees the pins of all processes, and other tests pin
/// theirs to the same CPUs. Where there is no such namespace, excludes other tests of audits while the value exists.
macro_rules! only_own_processes {
    ($name:literal) => {
        if manycore_testkit::ran_alone(module_path!(), $name).unwrap() {
            return;
        }
        let _alone = manycore_testkit::alone("pins").unwrap();
    };
}
pub(crate) use only_own_processes;

/// A process that is killed with all its descendants when the value is dropped.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn().unwrap())
    }

    pub fn shell(script: &str) -> Self {
        Self::start(Command::new("sh").args(["-c", script]))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

/// Returns two CPUs that the test may use; reports it if there is only one.
pub fn two_cpus() -> Option<[CpuId; 2]> {
    let allowed: Vec<CpuId> = affinity::allowed().unwrap().iter().collect();
    if allowed.len() < 2 {
        eprintln!("SKIPPED: there is only one CPU, which all processes share");
    }
    Some([*allowed.first()?, *allowed.get(1)?])
}

/// Audits one process and its descendants; returns the exit code and the result. Findings that also concern other
/// processes of this machine are left out, and do not count for the exit code.
pub fn audit(pid: u32) -> (Option<i32>, Value) {
    let run = manycore()
        .args(["audit", "--budget", "300ms", "--format", "json", "--pid", &pid.to_string()])
        .output()
        .unwrap();
    let mut audit = schema::parse("audit", &run.stdout);
    let own = tasks::with_descendants(&[pid]);
    let is_own = |process: &Value| own.contains(&(process["pid"].as_u64().unwrap() as u32));
    let findings = audit["findings"].as_array_mut().unwrap();
    let found = !findings.is_empty();
    assert_eq!(run.status.code(), Some(i32::from(found)));
    findings.retain(|finding| {
        let claims = finding["claims"].as_array().into_iter().flatten();
        claims.flat_map(|claim| claim["processes"].as_array().unwrap()).all(is_own)
    });
    (Some(i32::from(!findings.is_empty())), audit)
}

pub fn kinds(audit: &Value) -> Vec<&str> {
    audit["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect()
}

/// As [`kinds`] without findings that depend on the machine: a group with a small quota may be throttled at
/// the start, and devices may interrupt the only CPU that the tests may use.
pub fn kinds_of_its_own(audit: &Value) -> Vec<&str> {
    kinds(audit).into_iter().filter(|kind| !["throttled", "interrupts"].contains(kind)).collect()
}

/// Waits until `count` processes with this argument sleep; returns their ids in ascending order.
pub fn asleep(argument: &str, count: usize) -> Vec<u32> {
    let mut found = Vec::new();
    until("sleeping processes", || {
        found = running(argument);
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        found.retain(|pid| name(pid) == "sleep\n");
        found.len() == count
    });
    found.sort_unstable();
    found
}
