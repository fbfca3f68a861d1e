//! The vectors of x86-64, with two, four or eight numbers.
#![allow(clippy::cast_ptr_alignment, reason = "callers that store a vector guarantee the alignment")]

use super::{Kernel, KernelFn, Lanes, Stores, perform};
#[allow(clippy::wildcard_imports, reason = "each vector needs six of them")]
use std::arch::x86_64::*;

pub(super) fn available() -> impl Iterator<Item = (&'static str, KernelFn)> {
    let all: [(&str, KernelFn, bool); 3] = [
        ("avx512", avx512, is_x86_feature_detected!("avx512f")),
        ("avx", avx, is_x86_feature_detected!("avx")),
        ("sse2", sse2, true),
    ];
    all.into_iter().filter(|&(.., has)| has).map(|(name, perform, _)| (name, perform))
}

macro_rules! lanes {
    ($vector:ty, $count:literal, $load:ident, $all:ident, $plus:ident, $times:ident, $stream:ident) => {
        impl Lanes for $vector {
            const COUNT: usize = $count;

            #[inline(always)]
            unsafe fn load(from: *const f64) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn all(value: f64) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $all(value) }
            }

            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $plus(self, other) }
            }

            #[inline(always)]
            unsafe fn times(self, other: Self) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $times(self, other) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f64) {
                // SAFETY: guaranteed by the caller.
                unsafe { to.cast::<Self>().write_volatile(self) };
            }

            #[inline(always)]
            unsafe fn stream(self, to: *mut f64) {
                // SAFETY: guaranteed by the caller.
                unsafe { $stream(to, self) };
            }
        }
    };
}

lanes!(__m128d, 2, _mm_loadu_pd, _mm_set1_pd, _mm_add_pd, _mm_mul_pd, _mm_stream_pd);
lanes!(__m256d, 4, _mm256_loadu_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_mul_pd, _mm256_stream_pd);
lanes!(__m512d, 8, _mm512_loadu_pd, _mm512_set1_pd, _mm512_add_pd, _mm512_mul_pd, _mm512_stream_pd);

macro_rules! level {
    ($name:ident, $vector:ty, $feature:literal) => {
        fn $name(kernel: Kernel, stores: Stores, arrays: [&mut [f64]; 3], factor: f64) -> f64 {
            #[target_feature(enable = $feature)]
            unsafe fn with(k: Kernel, stores: Stores, arrays: [&mut [f64]; 3], factor: f64) -> f64 {
                // SAFETY: guaranteed by the caller.
                unsafe { perform::<$vector>(k, stores, arrays, factor) }
            }
            // SAFETY: `available` returns this function only for CPUs that have the instructions.
            unsafe { with(kernel, stores, arrays, factor) }
        }
    };
}

level!(avx512, __m512d, "avx512f");
level!(avx, __m256d, "avx");
level!(sse2, __m128d, "sse2");
