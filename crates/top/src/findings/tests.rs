use super::*;
use crate::{
    details::ProcessDetails,
    picture::{CpuShares, CpuUse, GroupUse, InterruptUse, TaskUse, UnitUse},
    resources::GroupSample,
    sample::{TaskId, TaskName},
};
use manycore_topology::{CpuId, SysTree, read, synthetic::MachineSpec};
use std::sync::Arc;

/// Two packages, each a node with two clusters of two CPUs.
fn machine() -> Machine {
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 2, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

pub(crate) fn task(tid: u32, cpu: CpuId, run: f64, wait: f64, allowed: &str) -> TaskUse {
    TaskUse {
        id: TaskId { pid: 7, tid, start: 1 },
        name: TaskName::new(b"solver\x1b"),
        parent: 1,
        uid: Some(0),
        is_kernel: false,
        is_new: false,
        state: 'R',
        cpu,
        run,
        wait: Some(wait),
        slices: None,
        voluntary: None,
        involuntary: None,
        migration: None,
        migrations: None,
        allowed: Some(Arc::new(allowed.parse().unwrap())),
        plan: None,
        resident_kib: 0,
        counted: None,
    }
}

/// A second in which CPUs were used by the tasks alone.
fn picture(tasks: Vec<TaskUse>) -> Picture {
    let used = |cpu: CpuId| tasks.iter().filter(|task| task.cpu == cpu).map(|task| task.run).sum::<f64>();
    let shares = |cpu| CpuShares { user: used(cpu), idle: 1.0 - used(cpu), ..CpuShares::default() };
    let cpus = (0..8).map(|cpu| CpuUse { cpu, shares: Some(shares(cpu)), ..CpuUse::default() });
    let units = LevelUnits::new(&machine(), Level::Cluster).cpus.into_iter().map(|cpus| {
        let mut sum = CpuShares::default();
        cpus.iter().for_each(|cpu| sum.add(&shares(cpu)));
        let known = cpus.len();
        UnitUse {
            level: Level::Cluster,
            number: 0,
            cpus,
            shares: sum,
            known,
            task_run: 0.0,
            task_wait: 0.0,
            runnable: 0,
        }
    });
    Picture { seconds: 1.0, units: units.collect(), cpus: cpus.collect(), tasks, ..Picture::default() }
}

fn find(picture: &Picture) -> Vec<Finding> {
    Watch::new(&machine(), Duration::ZERO).update(picture)
}

fn only(picture: &Picture) -> (FindingKind, String, Option<String>) {
    let mut findings = find(picture);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let finding = findings.remove(0);
    (finding.kind, finding.text, finding.fix)
}

#[test]
fn two_threads_on_one_cpu_are_found_with_the_nearest_idle_one() {
    let both = vec![task(7, 2, 0.5, 0.5, "0-7"), task(8, 2, 0.5, 0.5, "0-7")];
    let (kind, text, command) = only(&picture(both));
    assert_eq!(kind, FindingKind::CrowdedCpu);
    assert_eq!(
        text,
        "2 busy threads (solver\u{fffd} of process 7) share CPU 2 and wait 100 % of the time in sum, while CPU 3, which \
         they may use, is idle"
    );
    assert_eq!(command.as_deref(), Some("manycore sched run --with affinity --pid 7"));
}

#[test]
fn threads_that_are_pinned_to_one_cpu_are_to_be_placed_anew() {
    let both = vec![task(7, 2, 0.5, 0.5, "2"), task(8, 2, 0.5, 0.5, "2")];
    let (kind, text, command) = only(&picture(both));
    assert_eq!(kind, FindingKind::CrowdedCpu);
    assert!(text.contains("to which they are not allowed"), "{text}");
    assert_eq!(command.as_deref(), Some("manycore pin --pid 7 --place spread"));
}

#[test]
fn a_full_machine_and_a_single_thread_are_no_findings() {
    let full = (0..16).map(|at| task(10 + at, at / 2, 0.5, 0.5, "0-7")).collect();
    assert_eq!(find(&picture(full)), []);
    assert_eq!(find(&picture(vec![task(7, 2, 1.0, 0.0, "0-7")])), []);
    // Waits that are short, and on another CPU each.
    assert_eq!(find(&picture(vec![task(7, 2, 0.9, 0.1, "0-7"), task(8, 4, 0.9, 0.1, "0-7")])), []);
}

#[test]
fn a_crowded_cluster_is_found_if_another_one_is_idle_and_allowed() {
    let two = |allowed: &str| picture(vec![task(7, 2, 0.9, 0.0, allowed), task(8, 3, 0.9, 0.0, allowed)]);
    let (kind, text, _) = only(&two("0-7"));
    assert_eq!(kind, FindingKind::CrowdedCluster);
    assert!(text.ends_with("share the cluster of CPUs 2-3, while that of CPUs 0-1 is idle"), "{text}");
    assert_eq!(find(&two("2-3")), []);
}

#[test]
fn a_throttled_unit_gets_twice_its_quota_and_a_hostile_name_no_command_of_its_own() {
    let group = |path: &str, throttled| GroupUse {
        now: GroupSample { path: path.into(), quota_milli: Some(1500), ..GroupSample::default() },
        throttled: Some(throttled),
        ..GroupUse::default()
    };
    let with =
        |path: &str, throttled| Picture { groups: vec![group(path, throttled)], ..picture(Vec::new()) };
    let (kind, text, command) = only(&with("/system.slice/web.service", 0.4));
    assert_eq!(kind, FindingKind::Throttled);
    assert!(text.ends_with("stops it for 0.40 s in each second, summed over CPUs"), "{text}");
    assert_eq!(command.as_deref(), Some("systemctl set-property --runtime web.service CPUQuota=300%"));
    let mut least = with("/system.slice/web.service", 0.4);
    least.groups[0].now.quota_milli = Some(1);
    assert!(only(&least).2.unwrap().ends_with("web.service CPUQuota=1%"));
    let deep = only(&with("/user.slice/user-1.slice/a.scope", 0.4)).2.unwrap();
    assert!(deep.starts_with("systemctl set-property --runtime a.scope "), "{deep}");
    let imitated = "/user.slice/user-1.slice/user@1.service/ssh.service";
    for hostile in ["/x;reboot.service", "/--now.service", "/a b.service", "/plain", imitated] {
        assert_eq!(only(&with(hostile, 0.4)).2.as_deref(), Some("manycore audit"), "{hostile}");
    }
    assert_eq!(find(&with("/system.slice/web.service", 0.01)), []);
}

#[test]
fn far_memory_is_that_on_other_nodes_than_busy_threads() {
    let with = |far_kib: u64, run: f64| {
        let node_kib = Some(BTreeMap::from([(0, 1 << 20), (1, far_kib)]));
        let details = vec![(7, ProcessDetails { node_kib, ..ProcessDetails::default() })];
        Picture { details, ..picture(vec![task(7, 2, run, 0.0, "0-7")]) }
    };
    let (kind, text, command) = only(&with(1 << 20, 0.9));
    assert_eq!(kind, FindingKind::FarMemory);
    assert!(
        text.starts_with("50 % of the memory of solver\u{fffd} (process 7), 1 GiB, is on other nodes"),
        "{text}"
    );
    assert_eq!(command.as_deref(), Some("manycore pin --pid 7 --place near=node1"));
    assert_eq!(find(&with(1 << 10, 0.9)), [], "a small part");
    assert_eq!(find(&with(1 << 20, 0.01)), [], "a process that does not run");
}

#[test]
fn interrupts_on_the_cpu_of_a_pinned_thread_are_to_be_moved() {
    let with = |softirq: f64, allowed: &str| {
        let mut picture = picture(vec![task(7, 2, 0.5, 0.0, allowed)]);
        picture.cpus[2].shares = Some(CpuShares { user: 0.5, softirq, ..CpuShares::default() });
        let by_cpu = vec![(2, 9000.0)];
        let handlers = "eth0-rx; x, other".into();
        picture.interrupts = vec![InterruptUse { name: "24".into(), handlers, per_second: 9000.0, by_cpu }];
        picture
    };
    let (kind, text, command) = only(&with(0.3, "2"));
    assert_eq!(kind, FindingKind::Interrupts);
    assert!(text.starts_with("interrupts take 30 % of CPU 2, to which"), "{text}");
    let expected = "manycore irq place --device 'eth0-rx; x' --cpus 0-1,3-7";
    assert_eq!(command.as_deref(), Some(expected));
    assert_eq!(find(&with(0.05, "2")), []);
    assert_eq!(find(&with(0.3, "0-7")), []);
    // A disk that interrupts five times a second does not take 30 % of a CPU: packets of the loopback device do.
    let mut loopback = with(0.3, "2");
    loopback.interrupts[0].by_cpu = vec![(2, 5.0)];
    let net = InterruptUse {
        name: "softirq NET_RX".into(),
        handlers: "".into(),
        per_second: 40_000.0,
        by_cpu: vec![(2, 40_000.0)],
    };
    loopback.interrupts.push(net);
    let (_, text, command) = only(&loopback);
    let expected =
        "is pinned, most often softirq NET_RX with 40000/s, which no interrupt of a device explains";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(command.as_deref(), Some("manycore irq show"));
    // Only then the names of interrupts have to be read.
    assert!(with(0.2, "2").has_many_interrupts() && !with(0.19, "2").has_many_interrupts());
}

#[test]
fn steal_is_found_from_a_tenth_of_what_the_machine_wants() {
    let with = |steal: f64| {
        let mut picture = picture(Vec::new());
        let shares = CpuShares { user: 0.5, steal, idle: 0.5 - steal, ..CpuShares::default() };
        picture.cpus.iter_mut().for_each(|one| one.shares = Some(shares));
        picture
    };
    assert_eq!(only(&with(0.2)).0, FindingKind::Steal);
    assert_eq!(find(&with(0.02)), []);
}

#[test]
fn what_has_not_held_for_long_is_no_finding() {
    let both = picture(vec![task(7, 2, 0.5, 0.5, "0-7"), task(8, 2, 0.5, 0.5, "0-7")]);
    let mut watch = Watch::new(&machine(), Duration::from_secs(3));
    assert_eq!(watch.update(&both), []);
    assert_eq!(watch.update(&both), []);
    assert_eq!(watch.update(&both)[0].seconds, 3.0);
    assert_eq!(watch.update(&picture(Vec::new())), []);
    assert_eq!(watch.update(&both), [], "it begins again");
}
