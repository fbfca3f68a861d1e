//! The source without privileges against the running kernel.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_linux::{affinity, clock};
use manycore_sharing::{
    CpuUse, ProcfsSource, RunningTask, Sampler, Sharing, Snapshot, Source, WatchedRoots, level::levels,
};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Group};
use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

/// A process that is killed with the test.
struct Busy(Child);

impl Busy {
    /// Starts a shell that spins, on this CPU.
    fn on(cpu: CpuId) -> Self {
        let child =
            Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        affinity::restrict(child.id(), &CpuSet::single(cpu)).unwrap();
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn task(&self) -> CpuUse {
        CpuUse::Watched(RunningTask { pid: self.pid(), tid: self.pid() })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes snapshots until one of them is as wanted.
fn until(source: &mut ProcfsSource, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let (mut snapshot, deadline) = (Snapshot::default(), Instant::now() + Duration::from_mins(1));
    loop {
        source.snapshot(&mut snapshot).unwrap();
        if wanted(&snapshot) {
            return snapshot;
        }
        assert!(Instant::now() < deadline, "{snapshot:?}");
        std::thread::yield_now();
    }
}

#[test]
fn running_processes_are_on_the_cpus_that_they_are_pinned_to() {
    let cpus: Vec<CpuId> = affinity::allowed().unwrap().iter().collect();
    let tasks: Vec<Busy> = cpus.iter().take(2).map(|&cpu| Busy::on(cpu)).collect();
    let roots = WatchedRoots::Processes(tasks.iter().map(Busy::pid).collect());
    let mut source = ProcfsSource::new(roots).unwrap();
    until(&mut source, |snapshot| {
        cpus.iter().zip(&tasks).all(|(&cpu, task)| snapshot.get(cpu) == task.task())
    });
}

#[test]
fn of_several_runnable_tasks_on_a_cpu_each_runs_in_turn() {
    let cpu = affinity::allowed().unwrap().first().unwrap();
    let tasks = [Busy::on(cpu), Busy::on(cpu)];
    let mut source =
        ProcfsSource::new(WatchedRoots::Processes(tasks.iter().map(Busy::pid).collect())).unwrap();
    for task in &tasks {
        let snapshot = until(&mut source, |snapshot| snapshot.get(cpu) == task.task());
        assert_eq!(snapshot.busy().filter(|(_, what)| matches!(what, CpuUse::Watched(_))).count(), 1);
    }
}

#[test]
fn descendants_that_start_later_are_watched_and_those_that_ended_are_not() {
    let cpu = affinity::allowed().unwrap().first().unwrap();
    let mut source = ProcfsSource::new(WatchedRoots::new_children()).unwrap();
    let other_children = Busy::on(cpu);
    let roots = WatchedRoots::new_children();
    let mut late = ProcfsSource::new(roots).unwrap();
    until(&mut source, |snapshot| snapshot.get(cpu) == other_children.task());
    // The process was a child before the second source began.
    let mut snapshot = Snapshot::default();
    late.snapshot(&mut snapshot).unwrap();
    assert!(snapshot.busy().all(|(_, what)| what != other_children.task()), "{snapshot:?}");
    let ended = other_children.task();
    drop(other_children);
    // Other tests of this process have children, too.
    until(&mut source, |snapshot| snapshot.busy().all(|(_, what)| what != ended));
}

/// A CPU that works for a process that is not watched is not idle.
#[test]
fn work_of_others_is_seen() {
    let cpu = affinity::allowed().unwrap().first().unwrap();
    let _other = Busy::on(cpu);
    let mut source = ProcfsSource::new(WatchedRoots::Processes(Vec::new())).unwrap();
    until(&mut source, |snapshot| snapshot.get(cpu) == CpuUse::Other);
}

/// Observes two processes on this many CPUs of this machine, as if these CPUs were one cluster and a machine had another
/// one, which is idle.
fn observed(seconds: f64) -> Option<Sharing> {
    let cpus: Vec<CpuId> = affinity::allowed().unwrap().iter().take(2).collect();
    let [first, second] = cpus[..] else { return None };
    let absent = cpus.iter().max().unwrap() + 1;
    let group = |cpus: &[CpuId]| Group { id: None, cpus: cpus.iter().copied().collect() };
    let invented = Machine {
        online: [first, second, absent].into_iter().collect(),
        clusters: vec![group(&[first, second]), group(&[absent])],
        ..Machine::default()
    };
    let units: Arc<[_]> = levels(&invented, &invented.online).into();
    let tasks = [Busy::on(first), Busy::on(second)];
    let roots = WatchedRoots::Processes(tasks.iter().map(Busy::pid).collect());
    let before = clock::process_cpu_ns(std::process::id()).unwrap();
    let sampler =
        Sampler::start(ProcfsSource::new(roots).unwrap(), units, Duration::from_millis(10)).unwrap();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let found = sampler.stop().unwrap();
    let used = clock::process_cpu_ns(std::process::id()).unwrap() - before;
    println!("{found:?}, {used} ns of CPU time");
    Some(found)
}

#[test]
fn the_sampler_finds_a_known_share_and_stays_cheap() {
    let Some(found) = observed(2.0) else { return println!("SKIPPED: needs two CPUs") };
    let cluster = found.levels.first().unwrap();
    // The two processes always run or wait for a moment, on CPUs of their own.
    assert!(cluster.different_processes.share > 0.9 && cluster.same_process.share == 0.0, "{found:?}");
    assert!(cluster.any.low < cluster.any.share || cluster.any.share == 0.0, "{found:?}");
    assert!(found.snapshots > 20 && found.interval_ms >= 8.0, "{found:?}");
    assert!(found.cpu_share < 0.05, "{found:?}");
    assert!(found.seconds > 1.0 && found.seconds_with_two <= found.seconds, "{found:?}");
}
