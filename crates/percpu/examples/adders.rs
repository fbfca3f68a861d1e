//! One thread on each CPU adds until standard input ends. For tests that take CPUs offline meanwhile.
//!
//! Prints the engine, and how often threads found themselves on another CPU than before. Exits with code 1 if
//! the sum differs from the number of adds.

use manycore_percpu::{PerCpuCounter, engine};
use std::{
    io::Read,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Duration,
};

/// Adds between two checks of the CPU.
const ADDS: i64 = 20_000;
/// Pause after each batch of adds. Emulated CPUs outnumber the CPUs that emulate them.
const PAUSE: Duration = Duration::from_millis(10);

/// Moves the calling thread to `cpu`. A failure, such as for a CPU that is offline, is ignored.
fn go_to(cpu: usize) {
    // SAFETY: the set is a plain bit mask, of which the kernel reads as many bytes as it is long.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn here() -> usize {
    // SAFETY: has no arguments.
    unsafe { libc::sched_getcpu() }.try_into().unwrap_or(usize::MAX)
}

/// Adds until `stop` is set, on `cpu` whenever that is online. Returns the number of adds and of moves.
fn add_on(cpu: usize, counter: &PerCpuCounter, stop: &AtomicBool) -> (i64, u64) {
    go_to(cpu);
    let (mut added, mut moves, mut last) = (0, 0, here());
    while !stop.load(SeqCst) {
        (0..ADDS).for_each(|_| counter.add_local(1));
        added += ADDS;
        let now = here();
        moves += u64::from(now != last);
        last = now;
        if now != cpu {
            go_to(cpu);
        }
        thread::sleep(PAUSE);
    }
    (added, moves)
}

fn main() -> ExitCode {
    // SAFETY: takes a number and returns one.
    let cpus = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1);
    let (counter, stop) = (PerCpuCounter::new(), AtomicBool::new(false));
    let (added, moves) = thread::scope(|scope| {
        let (counter, stop) = (&counter, &stop);
        let adders: Vec<_> = (0..cpus).map(|cpu| scope.spawn(move || add_on(cpu, counter, stop))).collect();
        // An error ends it as well.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, SeqCst);
        adders
            .into_iter()
            .filter_map(|adder| adder.join().ok())
            .fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    });
    println!("engine: {}", engine());
    println!("threads: {cpus}");
    println!("moves: {moves}");
    println!("added: {added}");
    println!("sum: {}", counter.sum());
    let near = (counter.approx() - added).abs() <= counter.approx_error();
    ExitCode::from(u8::from(counter.sum() != added || !near))
}
