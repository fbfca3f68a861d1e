//! `manycore probe`: threads that report on which CPUs they run.

use crate::{cli::ProbeArgs, failure::Outcome, output};
use manycore_linux::{
    affinity,
    clock::{now_ns, thread_cpu},
};
use manycore_topology::{CpuId, CpuSet};
use std::{thread, time::Duration};

/// Maximum time that a thread waits until it is pinned to one CPU.
const PIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The observations of one thread.
struct ProbeResult {
    /// The CPU to which it was pinned last.
    pinned: Option<CpuId>,
    /// Nanoseconds from its first instruction until it was pinned there.
    delay_ns: u64,
    /// Checks that found it on a CPU other than the one to which it was pinned.
    off_cpu: u32,
}

/// Starts the threads and prints a line for each: the CPU to which it was pinned last, after how many
/// microseconds, and how many of its checks (`sched_getcpu(3)`) found it on another CPU.
pub fn run(args: &ProbeArgs) -> Outcome {
    let (checks, work, sleep) = (args.checks, Duration::from_micros(u64::from(args.work)), args.sleep);
    let threads: Vec<_> = (0..args.threads)
        .map(|number| {
            let probe = move || probe_thread(checks, work, sleep);
            thread::Builder::new().name(format!("probe-{number}")).stack_size(256 << 10).spawn(probe)
        })
        .collect();
    let mut text = "thread    pinned  after us  checks  off CPU\n".to_owned();
    let mut results = Vec::new();
    for (number, thread) in threads.into_iter().enumerate() {
        let Some(result) = thread.ok().and_then(|thread| thread.join().ok()) else {
            text += &format!("{number:>6}  could not be started\n");
            continue;
        };
        let cpu = result.pinned.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        let (delay, off_cpu) = (result.delay_ns / 1000, result.off_cpu);
        text += &format!("{number:>6}  {cpu:>8}  {delay:>8}  {checks:>6}  {off_cpu:>7}\n");
        results.push(result);
    }
    output::print(&(text + &summary(&results, args.threads)))
}

/// Returns how many threads were pinned, how late, and how often they were on another CPU afterwards.
fn summary(results: &[ProbeResult], threads: u32) -> String {
    let pinned: Vec<&ProbeResult> = results.iter().filter(|result| result.pinned.is_some()).collect();
    let off_cpu: u64 = pinned.iter().map(|result| u64::from(result.off_cpu)).sum();
    let mut delays: Vec<u64> = pinned.iter().map(|result| result.delay_ns / 1000).collect();
    if delays.is_empty() {
        return "no thread was pinned to one CPU\n".to_owned();
    }
    delays.sort_unstable();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share).round() as usize];
    let [median, most, longest] = [0.5, 0.9, 1.0].map(at);
    format!(
        "{} of {threads} threads pinned: after {median} us (median), {most} us (90 %), {longest} us (longest); {off_cpu} \
         checks on another CPU\n",
        pinned.len()
    )
}

/// Returns the CPU to which this thread is pinned, if it may run on one CPU only.
fn own_cpu() -> Option<u32> {
    affinity::allowed().ok().filter(|cpus| cpus.len() == 1).as_ref().and_then(CpuSet::first)
}

/// Returns the CPU time of this thread in nanoseconds.
fn thread_cpu_ns() -> u64 {
    thread_cpu().as_nanos() as u64
}

fn probe_thread(checks: u32, work: Duration, sleep: bool) -> ProbeResult {
    let began = now_ns();
    let mut last = None;
    // The affinity mask changes a moment before the kernel has moved the thread.
    while last.is_none() && Duration::from_nanos(now_ns() - began) < PIN_TIMEOUT {
        last = own_cpu().filter(|&cpu| affinity::current_cpu() == cpu);
    }
    let mut result = ProbeResult { pinned: last, delay_ns: now_ns() - began, off_cpu: 0 };
    for _ in 0..checks {
        let cpu = affinity::current_cpu();
        if last != Some(cpu) {
            let now = own_cpu();
            // A new thread is pinned to its parent's CPU until it is pinned to its own.
            if now == result.pinned {
                result.off_cpu += 1;
            } else if now.is_none_or(|now| affinity::current_cpu() == now) {
                (result.pinned, result.delay_ns) = (now, now_ns() - began);
            }
        }
        last = result.pinned;
        if sleep {
            thread::sleep(work);
            continue;
        }
        // In CPU time: on a busy machine the thread would otherwise have waited, not worked.
        let until = thread_cpu_ns() + work.as_nanos() as u64;
        while thread_cpu_ns() < until {}
    }
    result
}
