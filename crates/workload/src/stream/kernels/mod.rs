//! STREAM's four kernels and a sum, on as many numbers at a time as the CPU's vectors hold.
//!
//! Every store is volatile or non-temporal. Otherwise the compiler would call `memcpy` for a copy, which selects the
//! kind of stores by the size.
#![allow(
    unsafe_code,
    reason = "vectors are loaded and stored by address, and CPUs differ in their instructions"
)]
#![allow(
    clippy::inline_always,
    reason = "without the CPU feature, a function would pass vectors through memory"
)]

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{Kernel, Stores};
use std::{hint::black_box, sync::OnceLock};

/// A kernel over one part of the three arrays, which have equal lengths; the last argument is STREAM's
/// scalar.
pub(super) type KernelFn = fn(Kernel, Stores, [&mut [f64]; 3], f64) -> f64;

/// Returns the first, widest one of [`available`].
pub(super) fn widest() -> KernelFn {
    static WIDEST_KERNEL: OnceLock<KernelFn> = OnceLock::new();
    *WIDEST_KERNEL.get_or_init(|| available().first().map_or(plain, |&(_, perform)| perform))
}

/// Returns the implementations for this CPU with their names, widest first.
pub(super) fn available() -> Vec<(&'static str, KernelFn)> {
    let mut all: Vec<(&'static str, KernelFn)> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    all.extend(x86::available());
    #[cfg(target_arch = "aarch64")]
    all.push(("neon", arm::neon));
    all.push(("plain", plain));
    all
}

/// Numbers that are loaded, computed and stored together.
trait Lanes: Copy {
    /// How many numbers.
    const COUNT: usize;
    /// # Safety
    /// For all functions: the CPU has the instructions. `from` is valid for reads of that many numbers.
    unsafe fn load(from: *const f64) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn all(value: f64) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn plus(self, other: Self) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn times(self, other: Self) -> Self;
    /// # Safety
    /// As for `load`; `to` is valid for writes of that many numbers, and is aligned to all of them.
    unsafe fn store(self, to: *mut f64);
    /// # Safety
    /// As for `store`. The store is ordered only by the next fence of this thread.
    unsafe fn stream(self, to: *mut f64);
}

impl Lanes for f64 {
    const COUNT: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { from.read() }
    }

    #[inline(always)]
    unsafe fn all(value: f64) -> Self {
        value
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        self * other
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: guaranteed by the caller.
        unsafe { to.write_volatile(self) };
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut f64) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.store(to) };
    }
}

/// Works on one number at a time, with ordinary stores in either case.
fn plain(kernel: Kernel, stores: Stores, arrays: [&mut [f64]; 3], factor: f64) -> f64 {
    // SAFETY: every CPU has these instructions.
    unsafe { perform::<f64>(kernel, stores, arrays, factor) }
}

/// Runs one of STREAM's kernels, as `stream.c` defines them. Returns the sum of `a` for [`Kernel::Read`],
/// else 0.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn perform<V: Lanes>(kernel: Kernel, stores: Stores, [a, b, c]: [&mut [f64]; 3], factor: f64) -> f64 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let all = V::all(factor);
        match kernel {
            Kernel::Copy => write::<V>(stores, c, a, a, |a, _| a, |a, _| a),
            Kernel::Scale => write::<V>(stores, b, c, c, |c, _| all.times(c), |c, _| factor * c),
            Kernel::Add => write::<V>(stores, c, a, b, |a, b| a.plus(b), |a, b| a + b),
            Kernel::Triad => {
                write::<V>(stores, a, b, c, |b, c| b.plus(all.times(c)), |b, c| b + factor * c);
            }
            Kernel::Read => return sum::<V>(a),
            Kernel::Chase => {}
        }
    }
    0.0
}

/// Computes `to = f(x, y)`: whole vectors with `wide`, the rest with `one`.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn write<V: Lanes>(
    stores: Stores,
    to: &mut [f64],
    x: &[f64],
    y: &[f64],
    wide: impl Fn(V, V) -> V,
    one: impl Fn(f64, f64) -> f64,
) {
    assert!(x.len() == to.len() && y.len() == to.len(), "arrays of one length");
    let (head, body) = middle::<V>(to);
    let single = |to: &mut [f64], at: usize| to[at] = one(x[at], y[at]);
    (0..head).for_each(|at| single(to, at));
    let (x_start, y_start, to_start) = (x.as_ptr(), y.as_ptr(), to.as_mut_ptr());
    // SAFETY: `head` and `body` lie within the three slices, which have equal lengths, and from `head` on
    // `to` is aligned to whole vectors.
    unsafe {
        let mut at = head;
        match stores {
            Stores::Ordinary => {
                while at < body {
                    wide(V::load(x_start.add(at)), V::load(y_start.add(at))).store(to_start.add(at));
                    at += V::COUNT;
                }
            }
            Stores::NonTemporal => {
                while at < body {
                    wide(V::load(x_start.add(at)), V::load(y_start.add(at))).stream(to_start.add(at));
                    at += V::COUNT;
                }
            }
        }
    }
    (body..to.len()).for_each(|at| single(to, at));
}

/// Returns where whole, aligned vectors begin and end.
#[inline(always)]
fn middle<V: Lanes>(to: &[f64]) -> (usize, usize) {
    let bytes = V::COUNT * size_of::<f64>();
    let head = (to.as_ptr().addr().next_multiple_of(bytes) - to.as_ptr().addr()) / size_of::<f64>();
    let head = head.min(to.len());
    (head, head + (to.len() - head) / V::COUNT * V::COUNT)
}

/// Returns the sum, computed in four chains, so that no addition waits for the one before.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn sum<V: Lanes>(of: &[f64]) -> f64 {
    let steps = of.chunks_exact(4 * V::COUNT);
    let rest: f64 = steps.remainder().iter().sum();
    // SAFETY: guaranteed by the caller; each step is as long as four vectors, and the array below is as long
    // as the widest.
    unsafe {
        let mut chains = [V::all(0.0); 4];
        for step in steps {
            for (chain, place) in chains.iter_mut().zip(0..) {
                *chain = chain.plus(V::load(step.as_ptr().add(place * V::COUNT)));
            }
        }
        let [a, b, c, d] = chains;
        let mut lanes = AlignedLanes([0.0; 8]);
        a.plus(b).plus(c.plus(d)).store(lanes.0.as_mut_ptr());
        black_box(rest + lanes.0.iter().sum::<f64>())
    }
}

/// Space for the widest vector, aligned to it.
#[repr(align(64))]
struct AlignedLanes([f64; 8]);

/// Orders the stores of this thread, also those that bypass the caches, before its later stores.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of this architecture has this instruction, and it has no other effects.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests;
