//! A library with a counter, for the test that loads and unloads a library.

use manycore_percpu::{Engine, PerCpuCounter, engine};

static COUNTER: PerCpuCounter = PerCpuCounter::new();

/// Adds 1 `n` times and returns the sum.
#[unsafe(no_mangle)]
pub extern "C" fn count(n: u32) -> i64 {
    (0..n).for_each(|_| COUNTER.add_local(1));
    COUNTER.sum()
}

/// Returns whether this copy of the crate uses restartable sequences.
#[unsafe(no_mangle)]
pub extern "C" fn sequences() -> bool {
    engine() == Engine::Rseq
}
