//! `manycore probe`: threads that look where they run.

use crate::{cli::Probe, failure::Outcome, output};
use manycore_host::{affinity, clock::now_ns};
use manycore_model::{CpuId, CpuSet};
use std::{collections::BTreeMap, hint::black_box, thread, time::Duration};

/// Longest time that a thread waits until it is bound to one CPU.
const PATIENCE: Duration = Duration::from_millis(500);

/// What one thread saw.
struct Seen {
    bound: Option<CpuId>,
    /// From its first instruction until it was bound, in nanoseconds.
    delay_ns: u64,
    looks: BTreeMap<CpuId, u32>,
}

/// Starts the threads and prints a line for each: the CPU that it is bound to, after how many microseconds, and how
/// many of its looks (`sched_getcpu(3)`) found it elsewhere.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &Probe) -> Outcome {
    let (looks, work) = (args.looks, Duration::from_micros(u64::from(args.work)));
    let threads: Vec<_> = (0..args.threads)
        .map(|number| {
            let look = move || see(looks, work);
            thread::Builder::new().name(format!("probe-{number}")).stack_size(256 << 10).spawn(look)
        })
        .collect();
    let mut text = "thread  bound to  after us  looks  elsewhere\n".to_owned();
    let (mut delays, mut elsewhere) = (Vec::new(), 0);
    for (number, thread) in threads.into_iter().enumerate() {
        let Some(seen) = thread.ok().and_then(|thread| thread.join().ok()) else {
            text += &format!("{number:>6}  could not be started\n");
            continue;
        };
        let away: u32 =
            seen.looks.iter().filter(|(cpu, _)| Some(**cpu) != seen.bound).map(|(_, count)| count).sum();
        let bound = seen.bound.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        text += &format!("{number:>6}  {bound:>8}  {:>8}  {looks:>5}  {away:>9}\n", seen.delay_ns / 1000);
        elsewhere += u64::from(if seen.bound.is_some() { away } else { 0 });
        delays.extend(seen.bound.map(|_| seen.delay_ns / 1000));
    }
    delays.sort_unstable();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share).round() as usize];
    text += &match delays.len() {
        0 => "no thread was bound to one CPU\n".to_owned(),
        bound => format!(
            "{bound} of {} threads bound: after {} us (median), {} us (90 %), {} us (longest); {elsewhere} looks elsewhere\n",
            args.threads,
            at(0.5),
            at(0.9),
            at(1.0)
        ),
    };
    output::print(&text)
}

fn see(looks: u32, work: Duration) -> Seen {
    let began = now_ns();
    let mut bound = None;
    while bound.is_none() && Duration::from_nanos(now_ns() - began) < PATIENCE {
        bound = affinity::allowed().ok().filter(|cpus| cpus.len() == 1).as_ref().and_then(CpuSet::first);
    }
    let delay_ns = now_ns() - began;
    let mut seen = Seen { bound, delay_ns, looks: BTreeMap::new() };
    for _ in 0..looks {
        *seen.looks.entry(affinity::current_cpu()).or_default() += 1;
        let until = now_ns() + work.as_nanos() as u64;
        while now_ns() < until {
            black_box(());
        }
    }
    seen
}
