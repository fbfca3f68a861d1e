//! `manycore probe`: threads that report on which CPUs they run.

use crate::{cli::ProbeArgs, failure::Outcome, output};
use manycore_linux::{affinity, clock::now_ns};
use manycore_topology::{CpuId, CpuSet};
use std::{hint::black_box, thread, time::Duration};

/// Longest time that a thread waits until it is pinned to one CPU.
const PATIENCE: Duration = Duration::from_millis(500);

/// The observations of one thread.
struct Seen {
    /// The CPU to which it was pinned last.
    bound: Option<CpuId>,
    /// Nanoseconds from its first instruction until it was pinned there.
    delay_ns: u64,
    /// Samples that found it on a CPU other than the one to which it was pinned.
    elsewhere: u32,
}

/// Starts the threads and prints a line for each: the CPU to which it was pinned last, after how many
/// microseconds, and how many of its samples (`sched_getcpu(3)`) found it on another CPU.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &ProbeArgs) -> Outcome {
    let (looks, work, sleep) = (args.looks, Duration::from_micros(u64::from(args.work)), args.sleep);
    let threads: Vec<_> = (0..args.threads)
        .map(|number| {
            let look = move || see(looks, work, sleep);
            thread::Builder::new().name(format!("probe-{number}")).stack_size(256 << 10).spawn(look)
        })
        .collect();
    let mut text = "thread    pinned  after us  looks  elsewhere\n".to_owned();
    let (mut delays, mut elsewhere) = (Vec::new(), 0);
    for (number, thread) in threads.into_iter().enumerate() {
        let Some(seen) = thread.ok().and_then(|thread| thread.join().ok()) else {
            text += &format!("{number:>6}  could not be started\n");
            continue;
        };
        let away = seen.elsewhere;
        let bound = seen.bound.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        text += &format!("{number:>6}  {bound:>8}  {:>8}  {looks:>5}  {away:>9}\n", seen.delay_ns / 1000);
        elsewhere += u64::from(if seen.bound.is_some() { away } else { 0 });
        delays.extend(seen.bound.map(|_| seen.delay_ns / 1000));
    }
    delays.sort_unstable();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share).round() as usize];
    text += &match delays.len() {
        0 => "no thread was pinned to one CPU\n".to_owned(),
        bound => format!(
            "{bound} of {} threads pinned: after {} us (median), {} us (90 %), {} us (longest); {elsewhere} samples elsewhere\n",
            args.threads,
            at(0.5),
            at(0.9),
            at(1.0)
        ),
    };
    output::print(&text)
}

/// Returns the CPU to which this thread is pinned, if it may run on one CPU only.
fn own_cpu() -> Option<u32> {
    affinity::allowed().ok().filter(|cpus| cpus.len() == 1).as_ref().and_then(CpuSet::first)
}

fn see(looks: u32, work: Duration, sleep: bool) -> Seen {
    let began = now_ns();
    let mut bound = None;
    // The affinity mask changes a moment before the kernel has moved the thread.
    while bound.is_none() && Duration::from_nanos(now_ns() - began) < PATIENCE {
        bound = own_cpu().filter(|&cpu| affinity::current_cpu() == cpu);
    }
    let mut seen = Seen { bound, delay_ns: now_ns() - began, elsewhere: 0 };
    for _ in 0..looks {
        let cpu = affinity::current_cpu();
        if bound != Some(cpu) {
            let now = own_cpu();
            // A new thread is pinned to its parent's CPU until it is pinned to its own.
            if now == seen.bound {
                seen.elsewhere += 1;
            } else if now.is_none_or(|now| affinity::current_cpu() == now) {
                (seen.bound, seen.delay_ns) = (now, now_ns() - began);
            }
        }
        bound = seen.bound;
        if sleep {
            thread::sleep(work);
            continue;
        }
        let until = now_ns() + work.as_nanos() as u64;
        while now_ns() < until {
            black_box(());
        }
    }
    seen
}
