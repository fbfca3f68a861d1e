//! The speed of the machine at one moment: how long one thread takes for a fixed piece of arithmetic.
//!
//! Records of different sessions are compared at the same speed. What a hypervisor, other work or the clock of the CPU do
//! to a measured program, they do to this as well.

use manycore_linux::clock::now_ns;
use std::{hint::black_box, time::Duration};

/// Steps of the chain, each of which needs the result of the one before: about a millisecond.
const STEPS: u32 = 500_000;

/// Time between two probes: they take at most about a twentieth of a measurement of short runs.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// Returns how long this thread takes for the fixed piece of arithmetic now, in nanoseconds.
pub fn probe_ns() -> u64 {
    let began = now_ns();
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..STEPS {
        // A multiplication and two short operations: the constants are those of a generator of random numbers (Knuth).
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value ^= value >> 29;
    }
    black_box(value);
    (now_ns() - began).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_takes_time_that_the_clock_sees() {
        // At least a tenth of a nanosecond for each step, on any CPU.
        assert!((0..3).all(|_| probe_ns() > u64::from(STEPS) / 10));
    }
}
