//! Programs in the kernel beside the kernel's own figures. Needs root and a kernel with BTF.

use crate::counting::{Counting, KernelCounts, soon};
use manycore_top::{
    LatencyHistogram, Sample, Sampler, SamplerOptions,
    bpf::{Counters, Error, Waits},
    trace::{Recorder, RecorderOptions, Summary, Timeline, write},
};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Histograms of times off the CPU by reason.
type Off = BTreeMap<Arc<str>, LatencyHistogram>;

fn machine() -> Machine {
    read(&SysTree::open(Path::new("/")).unwrap()).unwrap()
}

/// Returns what needs the programs; `None`, with the reason, where they cannot be used at all.
fn usable<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error)
            if !rustix::process::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() =>
        {
            println!("SKIPPED: {error}");
            None
        }
        Err(Error::NotBuilt(missing)) => {
            println!("SKIPPED: built without {missing}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Which tasks are counted: other programs are used for all of them.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    All,
    Watched,
}

/// Returns counters of two shells on one CPU, which have slept once since.
fn two_on_one_cpu(machine: &Machine, counted: Counted, steps: u32) -> Option<(Counters, [Counting; 2])> {
    let counters = usable(match counted {
        Counted::All => Counters::attach(machine),
        Counted::Watched => Counters::attach_to_processes(machine),
    })?;
    let mut two = [Counting::start(steps), Counting::start(steps)];
    for one in &mut two {
        one.pin(machine.online.last().unwrap());
        counters.watch(one.child.id(), true);
        one.begin();
        one.end();
    }
    Some((counters, two))
}

#[test]
fn waits_are_those_of_schedstat_to_the_nanosecond() {
    let machine = machine();
    for counted in [Counted::All, Counted::Watched] {
        // Some kernels run no programs in threads of process 1: a wait that ends when one of them leaves the CPU is not seen.
        assert!(
            soon(|| check_waits(&machine, counted)),
            "in each round, the programs did not run at some switch"
        );
    }
}

/// Lets two shells wait for each other. Returns whether they did and the programs ran at each of their switches, or
/// cannot be used.
fn check_waits(machine: &Machine, which: Counted) -> bool {
    let Some((mut counters, mut two)) = two_on_one_cpu(machine, which, 100_000) else { return true };
    let mut sample = [Sample::default(), Sample::default()];
    let (kernel, waits) = (KernelCounts::of(&two), counters.waits());
    counters.read(&mut sample[0]).unwrap();
    two.iter_mut().for_each(Counting::begin);
    two.iter_mut().for_each(Counting::end);
    let now = counters.waits();
    counters.read(&mut sample[1]).unwrap();
    let expected = KernelCounts::of(&two).since(kernel);
    let [before, after] = sample.map(|sample| sample.latency.unwrap());
    let (displaced, woken) = (after.displaced.since(&before.displaced), after.wakeup.since(&before.wakeup));
    let counted = now.wakeup_ns + now.displaced_ns - waits.wakeup_ns - waits.displaced_ns;
    let run: u64 = after.run_ns.iter().sum::<u64>() - before.run_ns.iter().sum::<u64>();
    // The kernel leaves out interrupts and the time of the hypervisor.
    let is_run = run as f64 > 0.99 * expected.run_ns as f64;
    if which == Counted::All {
        // Those of other programs are counted, too.
        return counted >= expected.wait_ns && is_run && expected.shows_waits();
    }
    // A switch that was not seen may be made up for by a wait at the begin or at the end.
    let is_complete =
        displaced.count() + woken.count() == expected.switches && counted == expected.wait_ns && is_run;
    if !is_complete {
        println!("{counted} of {} ns, {run} ns on a CPU, {woken:?} {displaced:?}", expected.wait_ns);
        return false;
    }
    assert!(woken.count() >= 2, "{woken:?}");
    expected.shows_waits()
}

#[test]
fn a_process_that_is_no_longer_watched_does_not_count() {
    let Some((counters, mut both)) = two_on_one_cpu(&machine(), Counted::Watched, 20_000) else { return };
    let ids = [0, 1].map(|at: usize| both[at].child.id());
    let mut run = || {
        both.iter_mut().for_each(Counting::begin);
        both.iter_mut().for_each(Counting::end);
        counters.waits()
    };
    let watched = run();
    assert_ne!(watched, Waits::default());
    for pid in ids {
        counters.watch(pid, false);
    }
    assert_eq!(run(), watched);
}

#[test]
fn times_off_the_cpu_are_counted_by_reason_and_length() {
    for counted in [Counted::All, Counted::Watched] {
        check_times_off(&machine(), counted);
    }
}

/// Returns the class of a time in a histogram.
fn class_of(time: Duration) -> usize {
    (u128::BITS - time.as_micros().leading_zeros()) as usize
}

/// The time between a task's switch away from its CPU and its wake-up: at least that from when it was seen off its CPU until
/// just before the wake-up, at most that from before until after both.
struct TimeOff {
    began: Instant,
    is_off: Instant,
    wakes: Instant,
}

impl TimeOff {
    /// Lets a pause pass; it was off its CPU since some moment after `began`.
    fn pause(began: Instant) -> Self {
        let is_off = Instant::now();
        std::thread::sleep(Duration::from_millis(40));
        Self { began, is_off, wakes: Instant::now() }
    }

    /// Checks that exactly one time was counted, if `only` these tasks are, and that one is as long.
    fn check(&self, before: &Off, after: &Off, reason: &str, only: bool) {
        let since = after[reason].since(&before[reason]).0;
        let classes = class_of(self.wakes - self.is_off)..=class_of(self.began.elapsed());
        let counted: u64 = since[classes.clone()].iter().sum();
        assert!(
            counted == 1 || !only && counted > 1,
            "{reason}: {counted} in classes {classes:?} of {since:?}"
        );
        assert!(!only || since.iter().sum::<u64>() == 1, "{reason}: {since:?}");
    }
}

fn check_times_off(machine: &Machine, which: Counted) {
    let Some((mut counters, [mut one, _other])) = two_on_one_cpu(machine, which, 1) else { return };
    let mut histograms = || {
        let mut sample = Sample::default();
        counters.read(&mut sample).unwrap();
        sample.latency.unwrap().off_cpu
    };
    let began = Instant::now();
    one.begin();
    one.end();
    let before = histograms();
    let asleep = TimeOff::pause(began);
    one.begin();
    one.end();
    let slept = histograms();
    asleep.check(&before, &slept, "sleep", which == Counted::Watched);
    let pid = Pid::from_raw(one.child.id() as i32).unwrap();
    let (began, switches) = (Instant::now(), one.voluntary_switches());
    kill_process(pid, Signal::STOP).unwrap();
    one.await_off('T', switches);
    let stopped = TimeOff::pause(began);
    kill_process(pid, Signal::CONT).unwrap();
    one.begin();
    one.end();
    // Other programs are hardly ever stopped, but they may be.
    stopped.check(&slept, &histograms(), "stopped", which == Counted::Watched);
}

#[test]
fn migrations_are_those_of_the_kernel() {
    let machine = machine();
    if machine.online.len() < 2 {
        println!("SKIPPED: one CPU");
        return;
    }
    let Some(mut counters) = usable(Counters::attach(&machine)) else { return };
    // It runs until it is killed: a task that sleeps migrates only when it is woken.
    let mut one = Counting::start(u32::MAX);
    let Some(before) = one.migrations() else {
        println!("SKIPPED: the kernel has no /proc/PID/sched");
        return;
    };
    one.begin();
    one.await_runnable();
    for _ in 0..20 {
        machine.online.iter().for_each(|cpu| one.pin(cpu));
    }
    let mut sample = Sample::default();
    Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap().sample(&mut sample).unwrap();
    counters.read(&mut sample).unwrap();
    let task = sample.tasks.iter().find(|task| task.id.tid == one.child.id()).unwrap();
    let counted: u64 = task.migrations.as_ref().unwrap().iter().sum();
    // Those before the first reading of the kernel's figure: it may have migrated since it was started.
    let all = one.migrations().unwrap();
    assert!((all - before..=all).contains(&counted), "{counted} of {before} to {all}");
    assert!(counted >= 10, "{counted}");
    assert!(sample.latency.unwrap().migrations.iter().sum::<u64>() >= counted);
}

/// CPUs 0 and 1 are taken for one cluster, later for none: as if other CPUs had come online.
#[test]
fn counting_begins_again_with_the_units_of_another_machine() {
    if machine().online.len() != 2 {
        println!("SKIPPED: this machine has not exactly two CPUs");
        return;
    }
    let invented = |clusters: u32, cores: u32| {
        let spec = MachineSpec { clusters, cores, ..MachineSpec::default() };
        read(&SysTree::from_capture(spec.capture())).unwrap()
    };
    let Some(mut counters) = usable(Counters::attach(&invented(2, 2))) else { return };
    // It runs until it is killed: a task that sleeps migrates only when it is woken.
    let mut one = Counting::start(u32::MAX);
    one.begin();
    one.await_runnable();
    let mut sample = Sample::default();
    Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap().sample(&mut sample).unwrap();
    let pid = one.child.id();
    let of = |sample: &Sample| {
        let task = sample.tasks.iter().find(|task| task.id.tid == pid).unwrap();
        **task.migrations.as_ref().unwrap()
    };
    let hop = || (0..20).for_each(|at| one.pin(at % 2));
    hop();
    counters.read(&mut sample).unwrap();
    let [within, across, ..] = of(&sample);
    assert!(within >= 10 && across == 0, "{within} {across}");
    counters.begin_again(&invented(0, 2), &mut sample).unwrap();
    assert_eq!(of(&sample)[..2], [0, 0]);
    hop();
    counters.read(&mut sample).unwrap();
    let [within, across, ..] = of(&sample);
    assert!(within == 0 && across >= 10, "{within} {across}");
}

#[test]
fn waits_of_a_recording_are_nearly_those_of_schedstat() {
    let machine = machine();
    assert!(soon(|| check_recording(&machine)), "in each round, the programs did not run at some switch");
}

/// Does the same as [`check_waits`] with a recording.
fn check_recording(machine: &Machine) -> bool {
    let options = RecorderOptions { all: false, most_events: 1_000_000 };
    let Some(mut recorder) = usable(Recorder::start(options)) else { return true };
    let mut two = [Counting::start(100_000), Counting::start(100_000)];
    for one in &mut two {
        one.pin(machine.online.last().unwrap());
        one.begin();
        one.end();
        recorder.watch(one.child.id(), true).unwrap();
    }
    let kernel = KernelCounts::of(&two);
    two.iter_mut().for_each(Counting::begin);
    two.iter_mut().for_each(Counting::end);
    let expected = KernelCounts::of(&two).since(kernel);
    assert!(recorder.read());
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.lost, 0);
    let timeline = Timeline::new(&recording);
    let summary = Summary::new(&timeline, machine);
    assert_eq!(summary.threads, 2);
    let mut bytes = Vec::new();
    write(&timeline, machine, &mut bytes).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().len();
    let is_complete = (summary.displaced.count + summary.wakeup.count) as u64 == expected.switches;
    if is_complete {
        // A recording has the times of its events, which the kernel's clock of a run queue differs from by up to microseconds.
        let waited = summary.displaced.sum_ns + summary.wakeup.sum_ns;
        assert!(
            waited.abs_diff(expected.wait_ns) * 100 < expected.wait_ns,
            "{} ns: {summary:?}",
            expected.wait_ns
        );
        let watched: u64 = summary.units.iter().map(|unit| unit.watched_ns).sum();
        assert!(watched as f64 > 0.99 * expected.run_ns as f64, "{summary:?}");
        assert!(events as u64 > expected.switches, "{events} events, {} switches", expected.switches);
    }
    is_complete && expected.shows_waits()
}

/// Returns the time in which two slices of a timeline overlap.
fn overlap_ns(timeline: &Timeline) -> u64 {
    let mut changes: Vec<(u64, i32)> = Vec::new();
    for slice in timeline.cpus.iter().filter(|slice| slice.is_watched) {
        changes.extend([(slice.span.0, 1), (slice.span.1, -1)]);
    }
    changes.sort_unstable();
    let (mut running, mut since, mut sum) = (0, 0, 0);
    for (at, change) in changes {
        if running >= 2 {
            sum += at - since;
        }
        (running, since) = (running + change, at);
    }
    sum
}

/// Nanoseconds that the counters and the recorder say of two shells that ran alone first, then at the same time.
struct Overlap {
    /// Conflicts while each ran alone, and in all.
    alone: u64,
    counted: u64,
    /// The same, from the slices that were recorded, up to when the counters were read.
    traced_alone: u64,
    traced: u64,
}

/// Lets both run, each alone and then both until they overlapped for some time; `None` without the programs.
fn overlap(invented: &Machine) -> Option<Overlap> {
    let mut counters = usable(Counters::attach_to_processes(invented))?;
    let mut two = [Counting::start(200_000), Counting::start(200_000)];
    let recorder = || Recorder::start(RecorderOptions { all: false, most_events: 1_000_000 }).unwrap();
    let (mut first, mut second) = (recorder(), recorder());
    for (one, cpu) in two.iter_mut().zip(0..) {
        one.pin(cpu);
        one.begin();
        one.end();
        counters.watch(one.child.id(), true);
        for recorder in [&first, &second] {
            recorder.watch(one.child.id(), true).unwrap();
        }
    }
    let mut conflicts = || {
        let mut sample = Sample::default();
        counters.read(&mut sample).unwrap();
        sample.latency.take().unwrap().conflict_ns
    };
    for one in &mut two {
        one.begin();
        one.end();
    }
    let alone = conflicts();
    let of = |recorder: &mut Recorder| assert!(recorder.read());
    of(&mut first);
    let first = first.finish().unwrap();
    let mut counted = alone;
    // Where other programs use the CPUs, the shells seldom run at the same time.
    for _ in 0..200 {
        two.iter_mut().for_each(Counting::begin);
        two.iter_mut().for_each(Counting::end);
        of(&mut second);
        counted = conflicts();
        if counted > alone + 20_000_000 {
            break;
        }
    }
    let second = second.finish().unwrap();
    assert_eq!((first.lost, second.lost), (0, 0));
    let [traced_alone, traced] = [first, second].map(|one| overlap_ns(&Timeline::new(&one)));
    Some(Overlap { alone, counted, traced_alone, traced })
}

/// CPUs 0 and 1 are taken for a cluster, beside another one that is always idle: this machine has no CPUs 2 and 3.
#[test]
fn conflicts_are_the_time_in_which_both_run_in_one_cluster() {
    if machine().online.len() != 2 {
        println!("SKIPPED: this machine has not exactly two CPUs");
        return;
    }
    let spec = MachineSpec { clusters: 2, cores: 2, ..MachineSpec::default() };
    let invented = read(&SysTree::from_capture(spec.capture())).unwrap();
    let Some(Overlap { alone, counted, traced_alone, traced }) = overlap(&invented) else { return };
    // Each slept while the other one ran, but for a moment of its wake-up or of its end.
    let is_near = |counted: u64, overlap: u64| counted.abs_diff(overlap) < overlap / 20 + 1_000_000;
    assert!(is_near(alone, traced_alone), "{alone} {traced_alone}");
    assert!(is_near(counted, traced), "{counted} {traced}");
    assert!(counted > alone + 20_000_000, "the shells never ran at the same time: {alone} {counted}");
}
