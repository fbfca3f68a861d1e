//! A library with a counter in it, for the test that loads and unloads one.

use manycore_percpu::{Engine, PerCpuCounter, engine};

static COUNTER: PerCpuCounter = PerCpuCounter::new();

/// Adds `n` times 1 and returns the sum.
#[unsafe(no_mangle)]
pub extern "C" fn count(n: u32) -> i64 {
    (0..n).for_each(|_| COUNTER.add_local(1));
    COUNTER.sum()
}

/// Whether this copy of the crate has restartable sequences.
#[unsafe(no_mangle)]
pub extern "C" fn sequences() -> bool {
    engine() == Engine::Rseq
}
