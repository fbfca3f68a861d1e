//! The sampler with counters of the kernel in place of those of CPUs, which virtual machines mostly lack.

use super::*;
use crate::{
    picture::{Picture, TaskUse},
    resources::Wanted,
    sample::Sample,
    sampler::{Sampler, SamplerOptions},
};
use manycore_linux::clock;
use manycore_topology::{SysTree, read};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Nanoseconds as cycles and as instructions.
const CLOCKS: [CountedEvent; 3] =
    [CountedEvent::TaskClock, CountedEvent::TaskClock, CountedEvent::PageFaults];

/// A process that is killed on drop.
struct Running(Child);

impl Running {
    fn start(program: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self(command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// A process with one thread that runs all the time.
    fn busy() -> Self {
        Self::start("sh", &["-c", "while :; do :; done"])
    }

    /// Waits until it has run for `ms` milliseconds more.
    fn run(&self, ms: u64) {
        let end = self.clock() + ms * 1_000_000;
        while self.clock() < end {}
    }

    fn clock(&self) -> u64 {
        clock::process_cpu_ns(self.0.id()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a sampler that counts; `None`, with a message, where a container forbids it.
fn sampler() -> Option<Sampler> {
    if let Err(error) = TaskCounters::probe(CLOCKS) {
        println!("SKIPPED: {error}");
        return None;
    }
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    sampler.counted = Counted::new(CLOCKS);
    sampler.want(Wanted { counters: true, ..Wanted::default() });
    Some(sampler)
}

fn sample(sampler: &mut Sampler) -> Sample {
    let mut sample = Sample::default();
    sampler.sample(&mut sample).unwrap();
    sample
}

/// Samples until a process with one thread is counted, which takes longer where more threads are busy than are counted.
fn until_counted(sampler: &mut Sampler, process: &Running) -> Sample {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        process.run(30);
        let sample = sample(sampler);
        if of(&sample, process).is_some() {
            return sample;
        }
        assert!(Instant::now() < deadline, "it is not counted");
    }
}

/// Returns what was counted of a process with one thread.
fn of(sample: &Sample, process: &Running) -> Option<CountedSample> {
    sample.counted.as_ref().unwrap().iter().find(|one| one.id.tid == process.0.id()).copied()
}

#[test]
fn a_busy_thread_is_counted_until_it_ends() {
    let Some(mut sampler) = sampler() else { return };
    let process = Running::busy();
    sample(&mut sampler);
    until_counted(&mut sampler, &process);
    let began = Instant::now();
    let (first, first_after) = (sample(&mut sampler), process.clock());
    process.run(200);
    let (last_before, last, elapsed) = (process.clock(), sample(&mut sampler), began.elapsed());
    let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let picture = Picture::new(&machine, &first, &last).unwrap();
    assert!(picture.has_counters);
    let task: &TaskUse = picture.tasks.iter().find(|task| task.id.tid == process.0.id()).unwrap();
    let counted = *task.counted.as_deref().unwrap();
    let ns = counted.cycles * picture.seconds;
    // The task clock of the kernel includes interrupts and the time of the hypervisor.
    let bounds = [(last_before - first_after) as f64, elapsed.as_nanos() as f64];
    assert!(ns >= bounds[0] * 0.99 && ns <= bounds[1] * 1.01, "{ns}: {bounds:?}");
    assert!((counted.ipc().unwrap() - 1.0).abs() < 0.01, "{counted:?}");
    let whole = picture.processes.iter().find(|one| one.pid == process.0.id()).unwrap();
    assert_eq!(whole.counted, Some(counted));
    let id = task.id;
    drop(process);
    let after = sample(&mut sampler);
    assert!(after.counted.unwrap().iter().all(|one| one.id != id));
    assert!(!sampler.counted.groups.contains_key(&id));
}

#[test]
fn nothing_is_counted_that_is_not_wanted() {
    let Some(mut sampler) = sampler() else { return };
    let process = Running::busy();
    let first = sample(&mut sampler);
    assert!(first.counted.unwrap().len() <= choice::MOST && !sampler.counted.groups.is_empty());
    sampler.want(Wanted::default());
    assert_eq!(sample(&mut sampler).counted, None);
    assert!(sampler.counted.groups.is_empty());
    sampler.want(Wanted { counters: true, ..Wanted::default() });
    sample(&mut sampler);
    until_counted(&mut sampler, &process);
}

#[test]
fn a_group_that_stands_while_its_thread_runs_is_opened_again() {
    let Some(mut sampler) = sampler() else { return };
    let (process, idle) = (Running::busy(), Running::start("cat", &[]));
    sample(&mut sampler);
    let id = of(&until_counted(&mut sampler, &process), &process).unwrap().id;
    // As after exec: the group is of a thread that does not run.
    let thread = TaskCounters::probe(CLOCKS).unwrap().count(idle.0.id()).unwrap();
    let last = EventCounts { enabled_ns: u64::MAX, running_ns: 0, counts: [0; 3] };
    sampler.counted.groups.insert(id, Group { thread, last, stood: false });
    for _ in 0..2 {
        process.run(30);
        assert_eq!(of(&sample(&mut sampler), &process), None);
    }
    let first = of(&until_counted(&mut sampler, &process), &process).unwrap();
    process.run(30);
    let last = of(&sample(&mut sampler), &process).unwrap();
    assert!(last.counts.since(&first.counts, 1.0).unwrap()[0] >= 20e6);
}

/// Regression test: a thread lost its counters if it ran only between the reading of its time and that of its counters.
#[test]
fn a_group_that_stands_once_is_kept() {
    let Some(mut sampler) = sampler() else { return };
    let process = Running::busy();
    sample(&mut sampler);
    let before = of(&until_counted(&mut sampler, &process), &process).unwrap();
    let group = sampler.counted.groups.get_mut(&before.id).unwrap();
    group.last.enabled_ns = u64::MAX;
    process.run(30);
    assert_eq!(of(&sample(&mut sampler), &process), None);
    sampler.counted.groups.get_mut(&before.id).unwrap().last = before.counts;
    process.run(30);
    let after = of(&sample(&mut sampler), &process).unwrap();
    assert!(after.counts.since(&before.counts, 1.0).unwrap()[0] >= 50e6, "the same counters");
}

#[test]
fn counters_that_are_absent_are_tried_once() {
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    sampler.want(Wanted { counters: true, ..Wanted::default() });
    let has_counters = TaskCounters::probe(EVENTS).is_ok();
    assert_eq!(sample(&mut sampler).counted.is_some(), has_counters);
    if !has_counters {
        // They would be there.
        sampler.counted.events = CLOCKS;
        assert_eq!(sample(&mut sampler).counted, None);
        assert!(matches!(sampler.counted.ability, Ability::Absent));
    }
}
