//! Pins that are wrong by themselves, remote memory and interrupts.

use super::*;
use crate::{Interrupt, Throttling};
use manycore_topology::machine::Node;
use std::collections::BTreeMap;

#[test]
fn busy_threads_on_one_cpu_beside_unused_ones_are_oversubscribed() {
    let crowd = |share| eight(vec![busy(process(10, "solver", &["0-7", "2", "2", "3"]), share)]);
    let finding = only(&crowd(0.5));
    assert_eq!(
        finding.headline,
        "2 busy threads of solver (pid 10) share CPU 2 while its CPUs 0-1,4-7 are unused"
    );
    assert_eq!(finding.fix, "move one of them to an unused CPU: taskset -cp 0 12");
    assert!(find(&crowd(0.1)).is_empty());
}

#[test]
fn a_fix_moves_all_threads_but_one() {
    let finding = only(&eight(vec![busy(process(10, "solver", &["2", "2", "2", "3"]), 0.33)]));
    assert_eq!(finding.fix, "move all but one of them to unused CPUs: taskset -cp 0 11; taskset -cp 1 12");
    // One CPU is left.
    let pair =
        AuditFacts { online: set("0-2"), ..eight(vec![busy(process(10, "solver", &["0", "0", "1"]), 0.5)]) };
    assert!(only(&pair).headline.ends_with("share CPU 0 while its CPU 2 is unused"));
}

#[test]
fn workers_of_a_program_on_one_cpu_beside_unused_ones_are_oversubscribed() {
    let worker =
        |pid, name: &str| Process { parent: 10, forked: true, ..busy(process(pid, name, &["2"]), 0.5) };
    let server = process(10, "nginx", &["0-7"]);
    let finding = only(&eight(vec![server.clone(), worker(11, "nginx"), worker(12, "nginx")]));
    assert_eq!(
        finding.headline,
        "2 busy threads of nginx (pid 10) share CPU 2 while its CPUs 0-1,3-7 are unused"
    );
    let pids = std::collections::BTreeSet::from([12]);
    assert!(finding.is_about(&pids), "a worker is part of it");
    // Another program that it has started is not part of it.
    let started = Process { forked: false, ..worker(12, "nginx") };
    assert_eq!(find(&eight(vec![server, worker(11, "nginx"), started])).len(), 1);
}

#[test]
fn a_process_with_a_single_cpu_is_not_oversubscribed() {
    assert!(find(&eight(vec![busy(process(10, "solver", &["2", "2", "2"]), 0.33)])).is_empty());
}

#[test]
fn threads_outside_of_their_group_are_found() {
    let outside = within(process(10, "a", &["0-7", "2-3"]), "/job", "/job", "2-3");
    let finding = only(&eight(vec![outside]));
    assert_eq!(
        finding.headline,
        "a (pid 10) may run on CPUs 0-1,4-7, outside of its control group's CPUs 2-3"
    );
    assert_eq!(finding.fix, "restrict it to its group: taskset -acp 2-3 10");
    assert_eq!(finding.evidence[1], "/cg/job/cpuset.cpus.effective holds 2-3");
    // Offline CPUs do not count.
    let inside = within(process(10, "a", &["2-3,64-127"]), "/job", "/job", "2-3");
    assert!(find(&eight(vec![inside])).is_empty());
}

#[test]
fn pins_to_offline_cpus_are_found() {
    let finding = only(&eight(vec![process(10, "a", &["6-9", "6-9"]), process(20, "b", &["6-9"])]));
    assert_eq!(finding.headline, "a (pid 10) and b (pid 20): pinned to CPUs 6-9, of which 8-9 are offline");
    assert_eq!(finding.evidence[0], "affinity mask 6-9; only CPUs 6-7 are online");
    let FindingKind::OfflineCpus { processes, offline, .. } = finding.subject else { panic!() };
    assert_eq!((processes[0].threads, processes[1].threads, offline), (2, 1, set("8-9")));
    // A mask that covers all online CPUs, or all CPUs of its group, is not a pin.
    assert!(find(&eight(vec![process(10, "a", &["0-127"])])).is_empty());
    assert!(find(&eight(vec![within(process(10, "a", &["0-3,8"]), "/job", "/job", "0-3")])).is_empty());
}

#[test]
fn pins_to_several_isolated_cpus_are_found() {
    let isolated =
        |masks: &[&str]| AuditFacts { isolated: set("4-7"), ..eight(vec![process(10, "a", masks)]) };
    let finding = only(&isolated(&["3-5"]));
    assert!(finding.headline.starts_with("a (pid 10): pinned to CPUs 3-5, of which 4-5 are isolated"));
    assert!(finding.fix.contains("taskset -acp 3 10"), "{}", finding.fix);
    let fix = only(&isolated(&["6-7", "6-7", "0-7"])).fix;
    assert_eq!(fix, "pin each thread to one CPU: taskset -cp 6 10; taskset -cp 7 11");
    for fine in [["5"], ["0-3"], ["0-7"]] {
        assert!(find(&isolated(&fine)).is_empty(), "{fine:?}");
    }
}

#[test]
fn the_mask_of_isolcpus_is_not_a_pin() {
    // CPU 3 is offline, 4-7 are isolated, and the kernel supports 128 CPUs.
    let facts = |mask: &str| AuditFacts {
        online: set("0-2,4-7"),
        offline: set("3"),
        isolated: set("4-7"),
        ..eight(vec![process(1, "init", &[mask])])
    };
    assert!(find(&facts("0-3,8-127")).is_empty());
    let finding = only(&facts("1,3"));
    assert_eq!(
        finding.fix,
        "bring them online: echo 1 > /sys/devices/system/cpu/cpu3/online; or change the pinning: taskset -acp 1 1"
    );
    // CPUs that the machine does not have cannot be brought online, and the pin has no other CPU.
    assert_eq!(only(&facts("9")).fix, "change the pinning: taskset -acp 0-2 1");
}

#[test]
fn throttled_groups_are_found_whatever_runs_in_them() {
    let facts = |throttled| AuditFacts {
        throttling: vec![Throttling {
            folder: "/sys/fs/cgroup/batch".to_owned(),
            quota_file: "/sys/fs/cgroup/batch/cpu.max".to_owned(),
            quota_cpus: 1.5,
            periods: 10,
            throttled,
            seconds: 0.8,
            processes: vec![10],
        }],
        ..eight(vec![process(10, "awk", &["0-7"])])
    };
    let finding = only(&facts(4));
    assert_eq!(
        finding.headline,
        "group /sys/fs/cgroup/batch was throttled in 40 % of its periods: its quota of 1.50 CPUs was used up"
    );
    assert!(finding.evidence[1].ends_with("processes: awk (pid 10)"), "{:?}", finding.evidence);
    assert_eq!(
        finding.fix,
        "raise the quota: echo '300000 100000' > /sys/fs/cgroup/batch/cpu.max; or run fewer threads"
    );
    assert!(find(&facts(0)).is_empty() && find(&facts(1)).is_empty(), "one throttled period is a burst");
}

fn two_nodes(process: Process) -> AuditFacts {
    let node = |id, cpus| Node { id, cpus: set(cpus), memory_bytes: Some(1 << 30), ..Node::default() };
    AuditFacts { nodes: vec![node(0, "0-3"), node(1, "4-7")], ..eight(vec![process]) }
}

fn holding(mask: &str, mib: [u64; 2]) -> AuditFacts {
    let memory = BTreeMap::from([(0, mib[0] << 20), (1, mib[1] << 20)]);
    two_nodes(Process { memory: Some(memory), ..process(10, "db", &[mask]) })
}

#[test]
fn remote_memory_is_found() {
    let finding = only(&holding("0-1", [100, 60]));
    assert_eq!(finding.headline, "38 % of the memory of db (pid 10) is on node 1, remote from its CPUs 0-1");
    assert!(finding.fix.starts_with("move its memory: migratepages 10 1 0;"), "{}", finding.fix);
    assert_eq!(finding.evidence[1], "/proc/10/numa_maps: 100 MiB on node 0, 60 MiB on node 1");
    // Exactly a quarter; too little to matter; and memory of a node with one of the CPUs.
    for (mask, mib) in [("0-1", [75, 25]), ("0-1", [5, 15]), ("3-4", [0, 100])] {
        assert!(find(&holding(mask, mib)).is_empty(), "{mask} {mib:?}");
    }
    assert_eq!(find(&holding("0-1", [74, 26])).len(), 1);
    assert_eq!(find(&holding("0-1", [0, 16])).len(), 1);
}

#[test]
fn one_node_has_no_remote_memory() {
    let mut facts = holding("0-1", [0, 100]);
    facts.nodes[1].memory_bytes = Some(0);
    assert!(find(&facts).is_empty());
}

fn interrupted(process: Process, per_second: &[(&str, f64)]) -> AuditFacts {
    let irq = |(at, (name, rate)): (usize, &(&str, f64))| Interrupt {
        number: 40 + at as u32,
        name: (*name).to_owned(),
        per_second: BTreeMap::from([(2, *rate)]),
        device: Some(name.chars().take(4).collect()),
        managed: name.starts_with("nvme"),
    };
    AuditFacts { interrupts: per_second.iter().enumerate().map(irq).collect(), ..eight(vec![process]) }
}

#[test]
fn devices_that_interrupt_a_pinned_worker_are_found() {
    let worker = busy(process(10, "poller", &["2"]), 0.8);
    let finding = only(&interrupted(worker.clone(), &[("nvme0q4", 80.0), ("eth0-TxRx-3", 900.0)]));
    assert_eq!(finding.headline, "980 interrupts per second hit CPU 2, to which poller (pid 10) is pinned");
    assert_eq!(finding.evidence[1], "irq 41 (eth0-TxRx-3) occurred 900 times per second");
    assert_eq!(finding.fix, "manycore irq place --device eth0 --cpus 0-1,3-7");
    let managed = only(&interrupted(worker.clone(), &[("nvme0q4", 900.0)])).fix;
    assert_eq!(managed, "the kernel manages this interrupt itself: move the thread with taskset -cp 0 10");
    assert!(find(&interrupted(worker, &[("eth0-TxRx-3", 100.0)])).is_empty());
    assert!(find(&interrupted(busy(process(10, "idle", &["2"]), 0.01), &[("eth0", 900.0)])).is_empty());
    assert!(find(&interrupted(busy(process(10, "free", &["2-3"]), 0.9), &[("eth0", 900.0)])).is_empty());
}
