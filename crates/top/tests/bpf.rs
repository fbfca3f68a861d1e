//! Programs in the kernel beside the kernel's own figures. Needs root and a kernel with BTF.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

use crate::counting::Counting;
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
        let is_complete = (0..20).any(|_| check_waits(&machine, counted));
        assert!(is_complete, "in each of 20 rounds, the programs did not run at some switch");
    }
}

/// Lets two shells wait for each other. Returns whether the programs ran at each of their switches, or cannot be used.
fn check_waits(machine: &Machine, which: Counted) -> bool {
    let Some((mut counters, mut two)) = two_on_one_cpu(machine, which, 100_000) else { return true };
    let mut sample = [Sample::default(), Sample::default()];
    let (delay, waits) = (two.each_ref().map(Counting::run_delay), counters.waits());
    let switches = two.each_ref().map(Counting::switches);
    counters.read(&mut sample[0]).unwrap();
    two.iter_mut().for_each(Counting::begin);
    two.iter_mut().for_each(Counting::end);
    let now = counters.waits();
    counters.read(&mut sample[1]).unwrap();
    let expected: u64 = two.iter().zip(delay).map(|(one, before)| one.run_delay() - before).sum();
    let switches: u64 = two.iter().zip(switches).map(|(one, before)| one.switches() - before).sum();
    let [before, after] = sample.map(|sample| sample.latency.unwrap());
    let (displaced, woken) = (after.displaced.since(&before.displaced), after.wakeup.since(&before.wakeup));
    let counted = now.wakeup_ns + now.displaced_ns - waits.wakeup_ns - waits.displaced_ns;
    assert!(expected > 10_000_000, "they did not wait for each other: {expected} ns");
    assert!(displaced.count() > 2 && woken.count() >= 2, "{displaced:?} {woken:?}");
    let run: u64 = after.run_ns.iter().sum::<u64>() - before.run_ns.iter().sum::<u64>();
    assert!(run > 10_000_000, "{run}");
    if which == Counted::All {
        // Those of other programs are counted, too.
        return counted >= expected;
    }
    let is_complete = displaced.count() + woken.count() == switches;
    assert!(!is_complete || counted == expected, "{counted} {expected} {switches}");
    is_complete
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

fn check_times_off(machine: &Machine, which: Counted) {
    let Some((mut counters, [mut one, _other])) = two_on_one_cpu(machine, which, 1) else { return };
    let pause = Duration::from_millis(40);
    let mut histograms = || {
        let mut sample = Sample::default();
        counters.read(&mut sample).unwrap();
        sample.latency.unwrap().off_cpu
    };
    // Times are as long as the pause, or in the class below: on a slow machine, it begins before the task is off its CPU.
    let counted = |before: &Off, after: &Off, reason: &str, begun: Instant| {
        let since = after[reason].since(&before[reason]);
        since.0[class_of(pause) - 1..=class_of(begun.elapsed())].iter().sum::<u64>()
    };
    let (before, begun) = (histograms(), Instant::now());
    std::thread::sleep(pause);
    one.begin();
    one.end();
    let slept = histograms();
    let asleep = counted(&before, &slept, "sleep", begun);
    assert!(asleep == 1 || which == Counted::All && asleep > 1, "{asleep}");
    let (pid, begun) = (Pid::from_raw(one.child.id() as i32).unwrap(), Instant::now());
    kill_process(pid, Signal::STOP).unwrap();
    one.await_state('T');
    std::thread::sleep(pause);
    kill_process(pid, Signal::CONT).unwrap();
    one.begin();
    one.end();
    assert_eq!(counted(&slept, &histograms(), "stopped", begun), 1);
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
fn two_threads_on_one_cpu_wait_half_of_the_time() {
    let machine = machine();
    let Some(mut recorder) = usable(Recorder::start(RecorderOptions { all: false, most_events: 1_000_000 }))
    else {
        return;
    };
    let mut two = [Counting::start(400_000), Counting::start(400_000)];
    for one in &mut two {
        one.pin(machine.online.last().unwrap());
        recorder.watch(one.child.id(), true).unwrap();
    }
    two.iter_mut().for_each(Counting::begin);
    two.iter_mut().for_each(Counting::end);
    assert!(recorder.read());
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.lost, 0);
    let timeline = Timeline::new(&recording);
    let summary = Summary::new(&timeline, &machine);
    assert_eq!(summary.threads, 2);
    let watched: u64 = summary.units.iter().map(|unit| unit.watched_ns).sum();
    let other: u64 = summary.units.iter().map(|unit| unit.other_ns).sum();
    let waited = summary.displaced.sum_ns + summary.wakeup.sum_ns;
    // While one runs the other waits; both wait while another program runs.
    let expected = watched as f64 + 2.0 * other as f64;
    let ratio = waited as f64 / expected;
    assert!((0.6..1.3).contains(&ratio), "waited {waited}, ran {watched}, others {other}");
    assert!(summary.displaced.count > 4, "{summary:?}");
    let mut bytes = Vec::new();
    write(&timeline, &machine, &mut bytes).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 20);
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

/// Lets both run; `None` without the programs.
fn overlap(invented: &Machine) -> Option<Overlap> {
    let mut counters = usable(Counters::attach_to_processes(invented))?;
    let mut two = [Counting::start(200_000), Counting::start(200_000)];
    let recorder = || Recorder::start(RecorderOptions { all: false, most_events: 1_000_000 }).unwrap();
    let (mut first, mut second) = (recorder(), recorder());
    for (one, cpu) in two.iter_mut().zip(0..) {
        one.pin(cpu);
        counters.watch(one.child.id(), true);
        for recorder in [&first, &second] {
            recorder.watch(one.child.id(), true).unwrap();
        }
        one.begin();
        one.end();
    }
    let mut sample = Sample::default();
    counters.read(&mut sample).unwrap();
    let alone = sample.latency.take().unwrap().conflict_ns;
    let of = |recorder: &mut Recorder| assert!(recorder.read());
    of(&mut first);
    let first = first.finish().unwrap();
    two.iter_mut().for_each(Counting::begin);
    two.iter_mut().for_each(Counting::end);
    counters.read(&mut sample).unwrap();
    let counted = sample.latency.take().unwrap().conflict_ns;
    of(&mut second);
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
    // Where other programs use the CPUs, the shells seldom run at the same time.
    for _ in 0..20 {
        let Some(seen) = overlap(&invented) else { return };
        let Overlap { alone, counted, traced_alone, traced } = seen;
        // A shell that answers, falls asleep or is being pinned overlaps with the other one for moments, and longer if it
        // has to wait for its CPU; the first slice of a recording is cut off.
        let is_near = |counted: u64, overlap: u64| counted.abs_diff(overlap) < overlap / 20 + 1_000_000;
        assert!(is_near(alone, traced_alone), "{alone} {traced_alone}");
        assert!(is_near(counted, traced), "{counted} {traced}");
        if traced > traced_alone + 20_000_000 && alone < 5_000_000 {
            return;
        }
    }
    panic!("the shells never ran at the same time");
}
