//! The source without privileges against the running kernel.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_linux::{affinity, clock};
use manycore_sharing::{
    CpuUse, ProcfsSource, RunningTask, Sampler, Snapshot, Source, WatchedRoots, level::levels, pace,
};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Group};
use std::{
    io,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

/// A CPU that no kernel has: it is always idle.
const ABSENT: CpuId = 8192;

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

/// A source that sends when each of its snapshots was taken.
struct Reported<S> {
    source: S,
    reports: Sender<Report>,
}

/// A snapshot of [`Reported`].
struct Report {
    /// CPU time of the sampling thread before and after it.
    cpu: [Duration; 2],
    began: Instant,
    counts: bool,
}

impl<S: Source> Source for Reported<S> {
    fn name(&self) -> &'static str {
        self.source.name()
    }

    fn snapshot(&mut self, into: &mut Snapshot) -> io::Result<bool> {
        let (before, began) = (clock::thread_cpu(), Instant::now());
        let counts = self.source.snapshot(into)?;
        let cpu = [before, clock::thread_cpu()];
        // At the end of the test the other side does not exist any more.
        let _ = self.reports.send(Report { cpu, began, counts });
        Ok(counts)
    }
}

/// Waits for this many snapshots that count, and returns all.
fn reports(receiver: &Receiver<Report>, wanted: usize) -> Vec<Report> {
    let mut all: Vec<Report> = Vec::new();
    while all.iter().filter(|one| one.counts).count() < wanted {
        all.push(receiver.recv_timeout(Duration::from_mins(1)).unwrap());
    }
    all
}

/// Two CPUs of this machine are taken for one cluster of a machine that has another one, which is idle.
#[test]
fn the_sampler_finds_a_known_share() {
    let cpus: Vec<CpuId> = affinity::allowed().unwrap().iter().take(2).collect();
    let [first, second] = cpus[..] else { return println!("SKIPPED: needs two CPUs") };
    let group = |cpus: &[CpuId]| Group { id: None, cpus: cpus.iter().copied().collect() };
    let invented = Machine {
        online: [first, second, ABSENT].into_iter().collect(),
        clusters: vec![group(&[first, second]), group(&[ABSENT])],
        ..Machine::default()
    };
    let units: Arc<[_]> = levels(&invented, &invented.online).into();
    let tasks = [Busy::on(first), Busy::on(second)];
    let roots = WatchedRoots::Processes(tasks.iter().map(Busy::pid).collect());
    let source = ProcfsSource::new(roots).unwrap();
    let (sender, receiver) = mpsc::channel();
    let (before, began) = (clock::process_cpu_ns(std::process::id()).unwrap(), Instant::now());
    let source = Reported { source, reports: sender };
    let sampler = Sampler::start(source, units, Duration::from_millis(10)).unwrap();
    let all = reports(&receiver, 50);
    let found = sampler.stop().unwrap();
    let elapsed = began.elapsed().as_secs_f64();
    let used = clock::process_cpu_ns(std::process::id()).unwrap() - before;
    let all: Vec<Report> = all.into_iter().chain(receiver.try_iter()).collect();
    // The two processes always run or wait for a moment, on CPUs of their own.
    let cluster = found.levels.first().unwrap();
    assert!(cluster.different_processes.share == 1.0 && cluster.same_process.share == 0.0, "{found:?}");
    assert!(cluster.any.low < cluster.any.share && found.failure.is_none(), "{found:?}");
    assert_eq!(found.snapshots, all.iter().filter(|one| one.counts).count() as u64, "{found:?}");
    // A pause is at least half of the interval.
    assert!(found.interval_ms >= 5.0, "{found:?}");
    assert!(found.seconds <= elapsed && found.seconds_with_two <= found.seconds, "{found:?}, {elapsed} s");
    // The CPU time of a thread is a part of that of the process.
    assert!(
        found.cpu_share > 0.0 && found.cpu_share * found.seconds <= used as f64 / 1e9,
        "{found:?}, {used} ns"
    );
}

/// A source whose snapshots take 2 ms of CPU time.
struct Costly;

impl Source for Costly {
    fn name(&self) -> &'static str {
        "costly"
    }

    fn snapshot(&mut self, into: &mut Snapshot) -> io::Result<bool> {
        into.clear();
        let end = clock::thread_cpu() + Duration::from_millis(2);
        while clock::thread_cpu() < end {}
        Ok(true)
    }
}

/// By the CPU clock of its thread: at the begin of each snapshot, those between the first and this one have used at most
/// 2 % of the time.
#[test]
fn the_sampler_waits_until_it_can_afford_a_snapshot() {
    let (sender, receiver) = mpsc::channel();
    let began = Instant::now();
    let source = Reported { source: Costly, reports: sender };
    let sampler = Sampler::start(source, Arc::default(), Duration::from_millis(10)).unwrap();
    let all = reports(&receiver, 10);
    assert!(sampler.stop().is_some());
    for pair in all[1..].windows(2) {
        let used = pair[0].cpu[1].abs_diff(all[1].cpu[0]).as_secs_f64();
        let elapsed = (pair[1].began - began).as_secs_f64();
        assert!(used <= pace::MOST_CPU * elapsed, "{used} s of CPU time in {elapsed} s");
    }
}
