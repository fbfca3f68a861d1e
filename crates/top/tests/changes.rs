//! One sampler on an invented system that changes between samples.

use manycore_top::{Picture, Sample, Sampler, SamplerOptions, Wanted};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use std::fs;

/// An invented `/proc`, whose directory stays the same.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        Self(folder)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.0.path().join(path)).unwrap();
    }

    /// Writes a thread with a time on a CPU.
    fn thread(&self, pid: u32, tid: u32, start: u64, run_ns: u64) {
        let (middle, zeros) = ("0 ".repeat(17), "0 ".repeat(14));
        let folder = format!("proc/{pid}/task/{tid}");
        self.write(&format!("{folder}/stat"), &format!("{tid} (x) S 1 {middle}{start} 0 8 {zeros}1 0 0\n"));
        self.write(&format!("{folder}/schedstat"), &format!("{run_ns} 0 1\n"));
    }

    fn cpus(&self, online: &[u32], ticks: u64) {
        let joined = |of: &dyn Fn(&u32) -> String| online.iter().map(of).collect::<Vec<_>>().concat();
        let lines = joined(&|cpu| format!("cpu{cpu} {ticks} 0 0 {ticks}\n"));
        self.write("proc/stat", &format!("{lines}ctxt {ticks}\n"));
        let head = joined(&|cpu| format!(" CPU{cpu}"));
        let counts = format!(" {ticks}").repeat(online.len());
        self.write("proc/interrupts", &format!("{head}\nLOC:{counts} Local timer interrupts\n"));
    }

    fn sampler(&self) -> Sampler {
        Sampler::new(self.0.path(), SamplerOptions::default()).unwrap()
    }
}

fn sample(sampler: &mut Sampler) -> Sample {
    let mut sample = Sample::default();
    sampler.sample(&mut sample).unwrap();
    sample
}

fn machine() -> Machine {
    let spec = MachineSpec { cores: 4, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

#[test]
fn a_process_and_a_thread_that_take_ids_of_others_are_new() {
    let tree = Tree::new();
    tree.thread(70, 70, 5, 1_000_000_000_000);
    tree.thread(80, 80, 5, 1_000_000_000_000);
    tree.thread(80, 81, 6, 1_000_000_000_000);
    let mut sampler = tree.sampler();
    let before = sample(&mut sampler);
    tree.remove("proc/70");
    tree.thread(70, 70, 900, 2_000);
    tree.thread(80, 81, 901, 3_000);
    let now = sample(&mut sampler);
    let starts: Vec<(u32, u64, u64)> =
        now.tasks.iter().map(|task| (task.id.tid, task.id.start, task.run_ns)).collect();
    assert_eq!(starts, [(70, 900, 2_000), (80, 5, 1_000_000_000_000), (81, 901, 3_000)]);
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    assert_eq!(picture.tasks.iter().map(|task| task.is_new).collect::<Vec<_>>(), [true, false, true]);
    let ns = picture.tasks.iter().map(|task| (task.run * picture.seconds * 1e9).round() as u64);
    assert_eq!(ns.collect::<Vec<_>>(), [2_000, 0, 3_000]);
    assert_eq!(picture.processes.iter().map(|one| one.start).collect::<Vec<_>>(), [900, 5]);
}

#[test]
fn what_vanishes_is_left_out_and_half_of_a_process_is_no_error() {
    let tree = Tree::new();
    for tid in [70, 71, 72] {
        tree.thread(70, tid, 5, 10);
    }
    tree.thread(90, 90, 5, 10);
    let mut sampler = tree.sampler();
    assert_eq!(sample(&mut sampler).tasks.len(), 4);
    // The first thread has ended before the others; one is at its end; a process has no threads any more.
    tree.remove("proc/70/task/70");
    fs::remove_file(tree.0.path().join("proc/70/task/71/stat")).unwrap();
    tree.remove("proc/90/task");
    let now = sample(&mut sampler);
    assert_eq!(now.tasks.iter().map(|task| task.id.tid).collect::<Vec<_>>(), [72]);
    assert_eq!(now.processes.iter().map(|one| (one.pid, one.threads)).collect::<Vec<_>>(), [(70, 1)]);
    tree.remove("proc/70");
    assert!(sample(&mut sampler).tasks.is_empty());
}

#[test]
fn cpus_come_and_go() {
    let tree = Tree::new();
    let mut sampler = tree.sampler();
    sampler.want(Wanted { interrupts: true, ..Wanted::default() });
    let mut take = |online: &[u32], ticks| {
        tree.cpus(online, ticks);
        sample(&mut sampler)
    };
    let all = [take(&[0, 1, 2, 3], 100), take(&[0, 2, 3], 200), take(&[0, 1, 2, 3], 300)];
    let picture = |at: usize| Picture::new(&machine(), &all[at], &all[at + 1]).unwrap();
    let known = |picture: &Picture| {
        picture.cpus.iter().map(|one| (one.cpu, one.shares.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(known(&picture(0)), [(0, true), (2, true), (3, true)]);
    assert_eq!(known(&picture(1)), [(0, true), (1, false), (2, true), (3, true)]);
    // Columns of other CPUs are not compared.
    assert!(picture(0).interrupts.is_empty() && picture(1).interrupts.is_empty());
    assert_eq!(all[1].interrupts[0].counts, [200, 200, 200]);
    let again = take(&[0, 1, 2, 3], 400);
    let last = Picture::new(&machine(), &all[2], &again).unwrap();
    assert_eq!(last.interrupts[0].by_cpu.len(), 4);
}

#[test]
fn a_long_status_is_read_to_its_end() {
    let tree = Tree::new();
    tree.cpus(&[0], 5);
    tree.thread(70, 70, 5, 10);
    let groups = "1234567 ".repeat(5000);
    let text = format!("Groups:\t{groups}\nCpus_allowed_list:\t0-3\nvoluntary_ctxt_switches:\t4\n");
    tree.write("proc/70/task/70/status", &text);
    let task = sample(&mut tree.sampler()).tasks[0].clone();
    assert_eq!((task.allowed.unwrap().to_string(), task.voluntary), ("0-3".to_owned(), Some(4)));
}

#[test]
fn memory_by_node_is_read_of_the_processes_that_are_named() {
    let tree = Tree::new();
    tree.cpus(&[0], 5);
    for pid in [70, 71, 72] {
        tree.thread(pid, pid, 5, 10);
        tree.write(&format!("proc/{pid}/numa_maps"), "7f00 default anon=3 N1=3 kernelpagesize_kB=4\n");
    }
    let mut sampler = tree.sampler();
    let selected = Wanted { details: vec![71], ..Wanted::default() };
    let toured = Wanted { details: vec![70], memory_of: vec![70, 72], ..Wanted::default() };
    sampler.want(selected.and(&toured));
    let now = sample(&mut sampler);
    let has: Vec<_> = now.details.iter().map(|(pid, details)| (*pid, details.node_kib.is_some())).collect();
    assert_eq!(has, [(70, true), (71, false), (72, true)]);
}

#[test]
fn what_is_not_wanted_any_more_is_empty() {
    let tree = Tree::new();
    tree.cpus(&[0], 5);
    tree.write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 9 kB\n");
    tree.thread(70, 70, 5, 10);
    let mut sampler = tree.sampler();
    sampler.want(Wanted { interrupts: true, nodes: true, details: vec![70, 71], ..Wanted::default() });
    let mut now = sample(&mut sampler);
    assert_eq!((now.interrupts.len(), now.nodes[0].total_kib, now.details.len()), (1, 9, 2));
    sampler.want(Wanted::default());
    sampler.sample(&mut now).unwrap();
    assert!(now.interrupts.is_empty() && now.nodes.is_empty() && now.details.is_empty());
    assert_eq!(now.tasks.len(), 1);
}
