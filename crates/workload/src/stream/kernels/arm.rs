//! The vectors of AArch64, in pairs.
#![allow(clippy::cast_ptr_alignment, reason = "callers that store a vector guarantee the alignment")]

use super::{Kernel, Lanes, Stores, perform};
use std::arch::{
    aarch64::{float64x2_t, vaddq_f64, vdupq_n_f64, vld1q_f64, vmulq_f64},
    asm,
};

/// Two vectors, because the non-temporal store takes a pair.
#[derive(Clone, Copy)]
struct Pair(float64x2_t, float64x2_t);

impl Lanes for Pair {
    const COUNT: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(vld1q_f64(from), vld1q_f64(from.add(2))) }
    }

    #[inline(always)]
    unsafe fn all(value: f64) -> Self {
        // SAFETY: every CPU of this architecture has these instructions.
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
        // SAFETY: guaranteed by the caller.
        unsafe {
            to.cast::<float64x2_t>().write_volatile(self.0);
            to.add(2).cast::<float64x2_t>().write_volatile(self.1);
        }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut f64) {
        // SAFETY: writes only the 32 bytes that the caller guarantees.
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
    // SAFETY: every CPU of this architecture has these instructions.
    unsafe { perform::<Pair>(kernel, stores, arrays, factor) }
}
