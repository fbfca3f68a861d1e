//! A chain of dependent additions. Every current core does one per cycle, so the rate is the core's clock
//! frequency.
//!
//! It needs no performance counter, so it measures the clock inside a virtual machine as well.

use crate::Load;

/// Additions per tick: about 5 microseconds.
pub const ADDITIONS_PER_TICK: u64 = 16_384;

/// The chain.
#[derive(Default)]
pub(crate) struct Cycles {
    ticks: u64,
    value: u64,
}

impl Load for Cycles {
    fn prepare(&mut self, additions: u64) {
        self.ticks = (additions / ADDITIONS_PER_TICK).max(1);
    }

    fn ticks_per_event(&self) -> u64 {
        self.ticks
    }

    fn tick(&mut self) {
        for _ in 0..ADDITIONS_PER_TICK / 256 {
            self.value = chain_of_256(self.value);
        }
    }
}

/// Does 256 additions, each of which depends on the one before. A register is added to itself, because newer
/// cores fold additions of constants before they reach an adder.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "a compiler would fold the chain into one operation")]
fn chain_of_256(mut value: u64) -> u64 {
    // SAFETY: arithmetic on one declared register; flags are clobbered by default.
    unsafe {
        std::arch::asm!(
            ".rept 256",
            "add {value}, {value}",
            ".endr",
            value = inout(reg) value,
            options(nomem, nostack)
        );
    }
    value | 1
}

/// Does 256 additions, each of which depends on the one before.
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "a compiler would fold the chain into one operation")]
fn chain_of_256(mut value: u64) -> u64 {
    // SAFETY: arithmetic on one declared register.
    unsafe {
        std::arch::asm!(
            ".rept 256",
            "add {value}, {value}, {value}",
            ".endr",
            value = inout(reg) value,
            options(nomem, nostack)
        );
    }
    value | 1
}

/// Does 256 additions, each of which depends on the one before, as far as portable code can enforce that.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn chain_of_256(value: u64) -> u64 {
    (0..256).fold(value, |value, _| std::hint::black_box(value.wrapping_add(value))) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_shifts_all_bits_out() {
        assert_eq!(chain_of_256(3), 1);
    }
}
