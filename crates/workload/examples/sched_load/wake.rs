//! Latency of wake-ups, measured as schbench does: each messenger wakes its workers, which then work and report back.
//!
//! A latency is the time from just before a messenger wakes a worker until the worker runs. It contains the messenger's
//! system call and, with more than one worker waiting, no earlier ones: each has its own time stamp.

use crate::quantile;
use std::{
    hint::black_box,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, Scope, ScopedJoinHandle, Thread},
    time::{Duration, Instant},
};

/// The sizes of a load.
pub struct Load {
    /// Threads that wake others.
    pub messengers: usize,
    /// Workers of each messenger.
    pub workers: usize,
    /// Work of a worker for each message: steps of a random number generator, each a few cycles.
    pub work: u64,
    /// How long it is measured.
    pub time: Duration,
}

/// A messenger as its workers see it.
struct Mailbox {
    messenger: Mutex<Option<Thread>>,
    /// Workers that wait for a message.
    waiting: Mutex<Vec<usize>>,
}

/// A worker as its messenger sees it.
struct Seat {
    thread: Mutex<Option<Thread>>,
    /// When the current message was sent, in nanoseconds since the start; 0 without a message.
    sent: AtomicU64,
}

fn wake(thread: &Mutex<Option<Thread>>) {
    if let Some(thread) = &*thread.lock().unwrap_or_else(PoisonError::into_inner) {
        thread.unpark();
    }
}

fn enter(thread: &Mutex<Option<Thread>>) {
    *thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
}

/// Runs a load and returns its line of JSON. Fails if a thread cannot be created.
pub fn run(load: &Load) -> Result<String, String> {
    let (start, stop) = (Instant::now(), AtomicBool::new(false));
    let mailboxes: Vec<Mailbox> = (0..load.messengers)
        .map(|_| Mailbox { messenger: Mutex::default(), waiting: Mutex::default() })
        .collect();
    let seats: Vec<Vec<Seat>> = (0..load.messengers)
        .map(|_| {
            (0..load.workers).map(|_| Seat { thread: Mutex::default(), sent: AtomicU64::new(0) }).collect()
        })
        .collect();
    let (latencies, seconds) = thread::scope(|scope| {
        let mut workers = Vec::new();
        let mut messengers = Vec::new();
        let spawned = mailboxes.iter().zip(&seats).try_for_each(|(mailbox, seats)| {
            messengers.push(spawn(scope, || send(mailbox, seats, start, &stop))?);
            for number in 0..seats.len() {
                let stop = &stop;
                workers.push(spawn(scope, move || work(number, mailbox, seats, start, load.work, stop))?);
            }
            Ok::<_, String>(())
        });
        let began = Instant::now();
        if spawned.is_ok() {
            thread::sleep(load.time);
        }
        let seconds = began.elapsed().as_secs_f64();
        stop.store(true, SeqCst);
        for mailbox in &mailboxes {
            wake(&mailbox.messenger);
        }
        for seat in seats.iter().flatten() {
            wake(&seat.thread);
        }
        spawned?;
        let latencies = workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect();
        Ok::<(Vec<u32>, f64), String>((latencies, seconds))
    })?;
    Ok(report(load, latencies, seconds))
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, String> {
    thread::Builder::new()
        .stack_size(128 << 10)
        .spawn_scoped(scope, body)
        .map_err(|error| format!("cannot create a thread: {error}; use fewer workers"))
}

/// A messenger: sends a message to each worker that waits.
fn send(mailbox: &Mailbox, seats: &[Seat], start: Instant, stop: &AtomicBool) {
    enter(&mailbox.messenger);
    let mut waiting = Vec::with_capacity(seats.len());
    while !stop.load(SeqCst) {
        waiting.append(&mut mailbox.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if waiting.is_empty() {
            thread::park();
        }
        for number in waiting.drain(..) {
            seats[number].sent.store(start.elapsed().as_nanos() as u64, SeqCst);
            wake(&seats[number].thread);
        }
    }
}

/// A worker: waits for a message, works, and waits again. Returns the latencies in nanoseconds.
fn work(
    number: usize,
    mailbox: &Mailbox,
    seats: &[Seat],
    start: Instant,
    steps: u64,
    stop: &AtomicBool,
) -> Vec<u32> {
    let seat = &seats[number];
    enter(&seat.thread);
    let mut latencies = Vec::with_capacity(1 << 16);
    let mut state = number as u64 + 1;
    loop {
        mailbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        wake(&mailbox.messenger);
        let stamp = loop {
            if stop.load(SeqCst) {
                return latencies;
            }
            match seat.sent.swap(0, SeqCst) {
                0 => thread::park(),
                stamp => break stamp,
            }
        };
        let latency = (start.elapsed().as_nanos() as u64).saturating_sub(stamp);
        latencies.push(latency.min(u32::MAX.into()) as u32);
        for _ in 0..steps {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

fn report(load: &Load, mut latencies: Vec<u32>, seconds: f64) -> String {
    latencies.sort_unstable();
    let microseconds = |share| f64::from(quantile(&latencies, share)) / 1e3;
    format!(
        r#"{{"load":"wake","messengers":{},"workers":{},"seconds":{seconds:.3},"wakeups":{},"wakeups_per_second":{:.1},"latency_us":{{"p50":{:.1},"p90":{:.1},"p99":{:.1},"p999":{:.1},"max":{:.1}}}}}"#,
        load.messengers,
        load.workers,
        latencies.len(),
        latencies.len() as f64 / seconds,
        microseconds(0.5),
        microseconds(0.9),
        microseconds(0.99),
        microseconds(0.999),
        microseconds(1.0),
    )
}
