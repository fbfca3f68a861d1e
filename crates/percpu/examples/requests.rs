//! Threads of a server count their requests, and one thread reports the rate.

use manycore_percpu::{PerCpuCounter, engine};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

static REQUESTS: PerCpuCounter = PerCpuCounter::new();

fn main() {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    REQUESTS.add_local(1);
                }
            });
        }
        let began = Instant::now();
        thread::sleep(Duration::from_millis(200));
        let rate = REQUESTS.sum() as f64 / began.elapsed().as_secs_f64();
        println!("{:.0} requests per microsecond, counted with {}", rate / 1e6, engine());
        stop.store(true, Relaxed);
    });
}
