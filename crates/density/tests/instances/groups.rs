//! Processes in control groups of their own.

use super::common::{
    DAEMON, SERVER, alone, group_file, is_alive, is_paused, journals, safeguard, service, until,
};
use manycore_density::{
    Error,
    instances::{InstanceLimits, InstanceTuning, Instances, ServiceSpec},
};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use std::path::Path;

/// Returns the process that has hidden from its parent.
fn hidden(processes: &[u32]) -> Option<u32> {
    processes.iter().copied().find(|&pid| tasks::name(pid).as_deref() == Some("sleep"))
}

#[test]
fn daemons_of_an_instance_are_paused_and_ended_with_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let spec = ServiceSpec { safeguard: Some(safeguard(folder.path())), ..service(&DAEMON, 2) };
    let mut instances = Instances::new(spec);
    instances.set_active(2).unwrap();
    let second = instances.processes()[1].clone();
    if group_file(second[0], "freezer", ["cgroup.procs", "tasks"]).is_none() {
        return eprintln!("SKIPPED: no control group can be created here");
    }
    until(|| hidden(&instances.processes()[1]).is_some());
    let hidden = hidden(&instances.processes()[1]).unwrap();
    instances.set_active(1).unwrap();
    assert!(is_paused(second[0]) && is_paused(hidden));
    assert!(!is_paused(instances.processes()[0][0]));
    instances.set_active(2).unwrap();
    assert!(!is_paused(hidden));
    instances.set_active(1).unwrap();
    assert_eq!(journals(folder.path()), 1);
    assert_eq!(instances.end(), None);
    assert!(!is_alive(hidden) && !is_alive(second[0]));
    assert_eq!(journals(folder.path()), 0);
}

#[test]
fn a_service_that_goes_into_the_background_has_not_ended() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "setsid python3 -m http.server --bind {address} {port} >/dev/null 2>&1 &"];
    let spec = ServiceSpec { safeguard: Some(safeguard(folder.path())), ..service(&command, 1) };
    let mut instances = Instances::new(spec);
    match instances.set_active(1) {
        Ok(()) => {}
        Err(Error::Ended { .. }) => return eprintln!("SKIPPED: no control group can be created here"),
        Err(error) => panic!("{error}"),
    }
    let server = instances.processes()[0][0];
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(server as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    until(|| !is_alive(server));
    assert!(matches!(instances.check(), Err(Error::Ended { index: 0, .. })));
}

#[test]
fn limits_are_in_force() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // Two busy loops beside the server.
    let busy =
        "while :; do :; done & while :; do :; done & exec python3 -m http.server --bind {address} {port}";
    let place = CpuSet::single(affinity::allowed().unwrap().first().unwrap());
    let spec = ServiceSpec {
        safeguard: Some(safeguard(folder.path())),
        limits: InstanceLimits { cpus: Some(0.2), memory: Some(96 << 20) },
        tuning: InstanceTuning {
            places: vec![place.clone()],
            observed_weight: Some(400),
            ..InstanceTuning::default()
        },
        ..service(&["sh", "-c", busy], 1)
    };
    let mut instances = Instances::new(spec);
    match instances.set_active(1) {
        Ok(()) => {}
        Err(error @ Error::Unlimited(_)) => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
    let server = instances.processes()[0][0];
    let cpu = group_file(server, "cpu", ["cpu.max", "cpu.cfs_quota_us"]).unwrap();
    assert_eq!(cpu.split_whitespace().next(), Some("20000"));
    let weight = group_file(server, "cpu", ["cpu.weight", "cpu.shares"]).unwrap();
    assert!(["400", "4096"].contains(&weight.trim()), "{weight}");
    let memory = group_file(server, "memory", ["memory.max", "memory.limit_in_bytes"]).unwrap();
    assert_eq!(memory.trim().parse::<u64>().unwrap(), 96 << 20);
    if let Some(cpus) = group_file(server, "cpuset", ["cpuset.cpus", "cpuset.cpus.effective"]) {
        assert_eq!(cpus.trim(), place.to_string());
    }
    let throttled = || {
        let text = group_file(server, "cpu", ["cpu.stat", "cpu.stat"]).unwrap();
        let line = text.lines().find(|line| line.starts_with("nr_throttled ")).unwrap().to_owned();
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    until(|| throttled() > 3);
    assert!(instances.check_memory(1).is_ok());
    let error = instances.check_memory(1_000_000).unwrap_err().to_string();
    assert!(error.starts_with("1000000 instances of 96 MiB take "), "{error}");
    let all = instances.processes()[0].clone();
    assert!(all.len() >= 3, "{all:?}");
    assert_eq!(instances.end(), None);
    assert!(all.into_iter().all(|pid| !is_alive(pid)));
}

/// A service whose memory does not suffice is ended by the kernel, and is named.
#[test]
fn an_instance_that_needs_more_than_its_memory_ends() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let spec = ServiceSpec {
        safeguard: Some(safeguard(folder.path())),
        limits: InstanceLimits { cpus: None, memory: Some(16 << 20) },
        ..service(&["sh", "-c", "exec tail /dev/zero # {port}"], 1)
    };
    match Instances::new(spec).set_active(1) {
        Err(Error::Ended { index: 0, status, .. }) => assert!(status.contains("SIGKILL"), "{status}"),
        Err(error @ Error::Unlimited(_)) => eprintln!("SKIPPED: {error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn limits_without_a_safeguard_are_refused() {
    let limits = InstanceLimits { cpus: Some(1.0), memory: None };
    let error = Instances::new(ServiceSpec { limits, ..service(&SERVER, 1) }).set_active(1).unwrap_err();
    assert!(matches!(error, Error::Limits(_)), "{error}");
    let journals = Path::new("/proc/no-journals");
    let spec = ServiceSpec { limits, safeguard: Some(safeguard(journals)), ..service(&SERVER, 1) };
    let error = Instances::new(spec).set_active(1).unwrap_err();
    assert!(matches!(error, Error::Control(_)) && error.is_missing(), "{error}");
}
