//! The vectors of AArch64, in pairs.
#![allow(clippy::cast_ptr_alignment, reason = "whoever stores a vector promises the alignment")]

use super::{Kernel, Lanes, Stores, perform};
use std::arch::{
    aarch64::{float64x2_t, vaddq_f64, vdupq_n_f64, vld1q_f64, vmulq_f64},
    asm,
};

/// Two vectors, because the store that asks for no place in the caches takes a pair.
#[derive(Clone, Copy)]
struct Pair(float64x2_t, float64x2_t);

impl Lanes for Pair {
    const COUNT: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self(vld1q_f64(from), vld1q_f64(from.add(2))) }
    }

    #[inline(always)]
    unsafe fn all(value: f64) -> Self {
        // SAFETY: every CPU of this architecture has them.
        unsafe { Self(vdupq_n_f64(value), vdupq_n_f64(value)) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { Self(vaddq_f64(self.0, other.0), vaddq_f64(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { Self(vmulq_f64(self.0, other.0), vmulq_f64(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe {
            to.cast::<float64x2_t>().write_volatile(self.0);
            to.add(2).cast::<float64x2_t>().write_volatile(self.1);
        }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut f64) {
        // SAFETY: writes the 32 bytes that the caller promises, and nothing else.
        unsafe {
            asm!(
                "stnp {first:q}, {second:q}, [{to}]",
                first = in(vreg) self.0,
                second = in(vreg) self.1,
                to = in(reg) to,
                options(nostack, preserves_flags),
            );
        }
    }
}

pub(super) fn neon(kernel: Kernel, stores: Stores, arrays: [&mut [f64]; 3], factor: f64) -> f64 {
    // SAFETY: every CPU of this architecture has the instructions.
    unsafe { perform::<Pair>(kernel, stores, arrays, factor) }
}
