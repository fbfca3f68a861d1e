//! Samples around the interval of another program that measures.
#![allow(dead_code, reason = "each test uses a part")]

use manycore_linux::{affinity, clock};
use manycore_top::{Sample, Sampler, SamplerOptions};
use manycore_topology::CpuSet;
use std::{
    fs,
    io::ErrorKind,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub fn sampler() -> Sampler {
    Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap()
}

pub fn sample(sampler: &mut Sampler) -> Sample {
    let mut sample = Sample::default();
    sampler.sample(&mut sample).unwrap();
    sample
}

/// Starts a program; `None` with a message if it is not installed.
pub fn start(program: &str, arguments: &[&str]) -> Option<Child> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env("S_TIME_FORMAT", "ISO").stdin(Stdio::null());
    let started = command.stdout(Stdio::piped()).spawn();
    if started.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        println!("SKIPPED: {program} is not installed");
        return None;
    }
    Some(started.unwrap())
}

/// Waits until a program has read its first counters and sleeps: it has no other reason to sleep before. A program that
/// waits for a CPU is not asleep.
pub fn wait_until_it_sleeps(child: &Child) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_asleep(child) {
        assert!(Instant::now() < deadline, "it does not sleep");
        thread::yield_now();
    }
}

fn is_asleep(child: &Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
}

/// Samples around the interval of a program that reads counters, sleeps, and reads them again. Counters never decrease,
/// so their increase in that interval is between that from `first` to `last`, and that from `before` to `after`.
pub struct Enclosed {
    pub before: Sample,
    pub first: Sample,
    pub last: Sample,
    pub after: Sample,
    /// Shortest and longest duration of the interval in nanoseconds.
    pub ns: [u64; 2],
    pub output: String,
}

impl Enclosed {
    /// Runs a program; `None` if it is not installed.
    pub fn run(program: &str, arguments: &[&str]) -> Option<Self> {
        let mut sampler = sampler();
        // The second sample is faster than the first one.
        sample(&mut sampler);
        let began_ns = clock::now_ns();
        let before = sample(&mut sampler);
        let mut child = start(program, arguments)?;
        wait_until_it_sleeps(&child);
        let first = sample(&mut sampler);
        let (first_ns, asleep) = (clock::now_ns(), clock::process_cpu_ns(child.id()));
        let mut last = first.clone();
        while child.try_wait().unwrap().is_none() {
            let now = sample(&mut sampler);
            if asleep.is_some() && clock::process_cpu_ns(child.id()) == asleep {
                last = now;
            }
        }
        let after = sample(&mut sampler);
        let ns = [last.at_ns.saturating_sub(first_ns), clock::now_ns() - began_ns];
        let output = child.wait_with_output().unwrap().stdout;
        Some(Self { before, first, last, after, ns, output: String::from_utf8(output).unwrap() })
    }

    /// Runs it with intervals that get longer until the bounds are near to each other. `arguments` are given the seconds
    /// of the interval. `None` with a message if it is not installed, or this machine runs the tests too late.
    pub fn run_near(program: &str, arguments: &[&str]) -> Option<Self> {
        for seconds in [3, 3, 6, 12, 24] {
            let seconds = seconds.to_string();
            let one = Self::run(program, &[arguments, &[seconds.as_str(), "1"]].concat())?;
            println!("{program}: the shortest interval is {:.3} of the longest", one.nearness());
            if one.nearness() > 0.9 || seconds == "24" && one.nearness() > 0.5 {
                return Some(one);
            }
        }
        println!("SKIPPED: this machine is too busy: samples around an interval of 24 s are not near to it");
        None
    }

    pub fn nearness(&self) -> f64 {
        self.ns[0] as f64 / self.ns[1] as f64
    }

    /// Returns the least and the greatest increase of a counter.
    pub fn increase(&self, of: impl Fn(&Sample) -> u64) -> [f64; 2] {
        let between = |old, new| of(new).saturating_sub(of(old)) as f64;
        [between(&self.first, &self.last), between(&self.before, &self.after)]
    }
}

/// Checks that a percentage is that of a part of a whole, each of them between its bounds.
pub fn check(percent: f64, part: [f64; 2], whole: [f64; 2], tolerance: f64, what: &str) {
    let bounds = [100.0 * part[0] / whole[1] - tolerance, 100.0 * part[1] / whole[0] + tolerance];
    assert!(bounds[0] <= percent && percent <= bounds[1], "{what}: {percent} is not in {bounds:?}");
}

/// Threads of this process that spin on a CPU while this exists.
pub struct Spinners(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Spinners {
    pub fn start(count: usize, cpu: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let stop = Arc::clone(&stop);
            let spin = move || {
                affinity::restrict(0, &CpuSet::single(cpu)).unwrap();
                while !stop.load(Ordering::Relaxed) {}
            };
            thread::Builder::new().name("spinner".to_owned()).spawn(spin).unwrap()
        };
        let threads = (0..count).map(spin).collect();
        Self(stop, threads)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

pub fn last_cpu() -> u32 {
    affinity::allowed().unwrap().last().unwrap()
}
