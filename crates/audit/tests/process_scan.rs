//! Audits of processes on synthetic machines, from their files to the findings.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_audit::{
    AuditFacts, Finding, FindingKind, UnexaminedKind, find,
    process_scan::{ProcessScan, ScanScope, enter_cpu_use, scan_processes, times},
};
use manycore_topology::{CpuSet, SysTree, capture::Capture};
use std::collections::BTreeMap;

/// Returns the files of a machine with these CPUs, some of them offline, in nodes of four CPUs.
struct SyntheticFiles(Capture);

impl SyntheticFiles {
    fn new(online: &str, offline: &str, nodes: u32) -> Self {
        let mut world = Self(Capture::default());
        let all = CpuSet::union_of([&online.parse().unwrap(), &offline.parse().unwrap()]);
        for (name, list) in
            [("online", online), ("offline", offline), ("present", &all.to_string()), ("isolated", "")]
        {
            world.file(&format!("sys/devices/system/cpu/{name}"), list);
        }
        for cpu in all.iter() {
            world.0.add_folder(&format!("sys/devices/system/cpu/cpu{cpu}"));
        }
        for node in 0..nodes {
            let folder = format!("sys/devices/system/node/node{node}");
            world.file(&format!("{folder}/cpulist"), &format!("{}-{}", 4 * node, 4 * node + 3));
            world.file(&format!("{folder}/meminfo"), &format!("Node {node} MemTotal: 1048576 kB"));
        }
        world.process(1, 0, "init", &["0-255"]);
        world
    }

    fn file(&mut self, path: &str, text: &str) {
        self.0.add_file(path, text);
    }

    /// Adds a process whose threads have these affinity masks.
    fn process(&mut self, pid: u32, parent: u32, name: &str, masks: &[&str]) {
        self.stat(&pid.to_string(), parent, name, 0x0040_0000);
        for (at, mask) in masks.iter().enumerate() {
            let id = format!("{pid}/task/{}", pid + at as u32);
            self.stat(&id, parent, name, 0x0040_0000);
            self.status(&id, name, mask);
        }
        self.status(&pid.to_string(), name, masks[0]);
    }

    fn stat(&mut self, id: &str, parent: u32, name: &str, flags: u32) {
        let pid = id.rsplit('/').next().unwrap();
        self.file(
            &format!("proc/{id}/stat"),
            &format!("{pid} ({name}) S {parent} 1 1 0 -1 {flags} 1 2 3 4 250 50 0 0 20"),
        );
    }

    fn status(&mut self, id: &str, name: &str, mask: &str) {
        self.file(
            &format!("proc/{id}/status"),
            &format!("Name:\t{name}\nCpus_allowed:\tff\nCpus_allowed_list:\t{mask}\n"),
        );
    }

    fn audit(self, only: Option<u32>) -> (ProcessScan, Vec<Finding>) {
        let tree = SysTree::from_capture(self.0);
        let machine = manycore_topology::read(&tree).unwrap();
        let scan = scan_processes(&tree, &machine, &scope(only)).unwrap();
        let mut processes = scan.processes.clone();
        let baseline = times(&tree, &machine.online, &processes);
        enter_cpu_use(&mut processes, &baseline, &baseline, 1.0);
        let facts = AuditFacts {
            online: machine.online,
            offline: machine.offline,
            isolated: machine.isolated,
            nodes: machine.nodes,
            processes,
            interrupts: Vec::new(),
            throttling: Vec::new(),
        };
        (scan, find(&facts))
    }
}

fn scope(only: Option<u32>) -> ScanScope {
    ScanScope { only: only.into_iter().collect(), exclude: None, without_memory: false }
}

#[test]
fn offline_cpus_of_a_pin_are_seen() {
    let mut world = SyntheticFiles::new("0-5", "6-7", 1);
    world.process(20, 1, "odd) name", &["4-7", "0-7"]);
    let (scan, findings) = world.audit(None);
    assert_eq!((scan.processes.len(), scan.threads()), (2, 3));
    let FindingKind::OfflineCpus { processes, offline, .. } = &findings[0].subject else {
        unreachable!("{findings:?}")
    };
    assert_eq!(
        (processes[0].name.as_str(), processes[0].threads, offline.to_string().as_str()),
        ("odd) name", 1, "6-7")
    );
    assert_eq!(findings.len(), 1);
}

#[test]
fn processes_that_were_forked_without_a_program_of_their_own_are_recognized() {
    let mut world = SyntheticFiles::new("0-3", "", 1);
    world.process(20, 1, "server", &["0-3"]);
    world.process(21, 20, "server", &["0-3"]);
    world.stat("21", 20, "server", 0x0040_0040);
    let (scan, _) = world.audit(None);
    let forked: Vec<bool> = scan.processes.iter().map(|process| process.forked).collect();
    assert_eq!(forked, [false, false, true]);
}

#[test]
fn kernel_threads_are_left_out() {
    let mut world = SyntheticFiles::new("0-3", "", 1);
    world.process(20, 2, "ksoftirqd/0", &["0"]);
    world.stat("20", 2, "ksoftirqd/0", 0x0420_8040);
    world.process(21, 2, "other", &["0"]);
    let (scan, findings) = world.audit(None);
    assert_eq!(scan.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [1, 21]);
    assert!(findings.is_empty());
}

#[test]
fn only_the_memory_of_pinned_processes_is_read() {
    let mut world = SyntheticFiles::new("0-7", "", 2);
    world.process(20, 1, "pinned", &["0-1"]);
    world.process(30, 1, "free", &["0-7"]);
    world.process(40, 1, "secret", &["0-1"]);
    let map = "7f00 default anon=9000 dirty=9000 N0=100 N1=8900 kernelpagesize_kB=4\n";
    world.file("proc/20/numa_maps", map);
    world.file("proc/30/numa_maps", map);
    let (scan, findings) = world.audit(None);
    let memory: Vec<bool> = scan.processes.iter().map(|process| process.memory.is_some()).collect();
    assert_eq!(memory, [false, true, false, false]);
    assert_eq!(scan.unexamined, BTreeMap::from([(UnexaminedKind::Memory, 1)]));
    assert_eq!(findings.len(), 1);
    assert!(findings[0].fix.contains("migratepages 20 1 0"), "{}", findings[0].fix);
}

#[test]
fn a_container_without_visible_control_groups_has_no_pins() {
    let mut world = SyntheticFiles::new("0-7", "", 1);
    world.process(1, 0, "init", &["5"]);
    world.process(20, 1, "a", &["5"]);
    world.process(30, 1, "b", &["5"]);
    let (_, findings) = world.audit(None);
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn groups_and_quotas_of_processes_are_followed() {
    let mut world = SyntheticFiles::new("0-7", "", 1);
    world.file("proc/self/mountinfo", "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw");
    for (name, cpus) in [("one", "0-3"), ("two", "3-5")] {
        world.file(&format!("cg/docker/{name}/cpuset.cpus.effective"), cpus);
    }
    world.file("cg/docker/two/cpu.max", "100000 100000");
    world.process(20, 1, "web", &["0-3"]);
    world.file("proc/20/cgroup", "0::/docker/one");
    world.process(30, 1, "beam.smp", &["3-5", "3-5", "3-5", "3-5"]);
    world.file("proc/30/cgroup", "0::/docker/two");
    world.file("proc/30/cmdline", "beam.smp\0-S\08:8\0--\0-root\0/usr\0");
    let (scan, findings) = world.audit(None);
    let headlines: Vec<&str> = findings.iter().map(|finding| finding.headline.as_str()).collect();
    assert_eq!(
        headlines,
        [
            "web (pid 20, group /docker/one) and beam.smp (pid 30, group /docker/two) have overlapping pinning on \
             CPU 3",
            "Erlang of beam.smp (pid 30) runs 8 workers on 1 CPU",
        ]
    );
    assert_eq!(
        scan.unexamined,
        BTreeMap::from([(UnexaminedKind::Environment, 1), (UnexaminedKind::Program, 1)])
    );
}

#[test]
fn a_scope_includes_all_descendants() {
    let descendants = || {
        let mut world = SyntheticFiles::new("0-3", "", 1);
        for (pid, parent) in [(20, 1), (30, 20), (40, 30), (50, 1)] {
            world.process(pid, parent, "p", &["0-3"]);
        }
        world
    };
    let pids =
        |only| descendants().audit(only).0.processes.iter().map(|process| process.pid).collect::<Vec<_>>();
    assert_eq!(pids(Some(20)), [20, 30, 40]);
    assert_eq!(pids(None), [1, 20, 30, 40, 50]);
    let tree = SysTree::from_capture(descendants().0);
    let machine = manycore_topology::read(&tree).unwrap();
    let missing = scan_processes(&tree, &machine, &scope(Some(99))).unwrap_err();
    assert_eq!(missing.to_string(), "there is no process 99");
    // What is outside of the scope is read as well, but is not examined itself.
    let others = scan_processes(&tree, &machine, &scope(Some(20))).unwrap().others;
    assert_eq!(others.iter().map(|process| process.pid).collect::<Vec<_>>(), [1, 50]);
}
