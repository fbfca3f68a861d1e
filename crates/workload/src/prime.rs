//! sysbench's prime event, with exactly the same divisions.
//!
//! One event divides every c from 3 up to `max_prime` (exclusive) by 2, 3, ... up to its square root and
//! stops at the first divisor, all in 64 bits: 117,526 divisions and 1,228 primes at 10,000 (sysbench 1.0.20,
//! `src/tests/cpu/sb_cpu.c`). The event is split into ticks with equal numbers of divisions.

use crate::Load;
use std::hint::black_box;

/// The limit that published figures commonly use.
pub const DEFAULT_MAX_PRIME: u64 = 10_000;

/// Ticks per event: 5 microseconds each at 10,000, on a core of the 2020s.
const TICKS: u64 = 64;

/// The prime event.
#[derive(Default)]
pub struct Prime {
    /// Ends of the ticks: tick i covers c from `ends[i - 1]` to `ends[i]`, exclusive.
    ends: Vec<u64>,
    next: usize,
    primes: u64,
}

/// The work of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimeCounts {
    /// Divisions, including those by two.
    pub divisions: u64,
    /// Primes found, without 2, as in sysbench.
    pub primes: u64,
}

impl Prime {
    /// Counts the divisions and primes of one event.
    pub fn count(max_prime: u64) -> PrimeCounts {
        let each = (3..max_prime).map(|c| (divisions(c), u64::from(is_prime(c))));
        let (divisions, primes) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        PrimeCounts { divisions, primes }
    }
}

impl Load for Prime {
    fn prepare(&mut self, max_prime: u64) {
        let total = Self::count(max_prime).divisions;
        let ticks = TICKS.min(total).max(1);
        self.ends.clear();
        let mut done = 0;
        for c in 3..max_prime {
            done += divisions(c);
            if done * ticks >= total * (self.ends.len() as u64 + 1) {
                self.ends.push(c + 1);
            }
        }
        if self.ends.last() != Some(&max_prime) {
            self.ends.push(max_prime);
        }
        (self.next, self.primes) = (0, 0);
    }

    fn ticks_per_event(&self) -> u64 {
        self.ends.len().max(1) as u64
    }

    fn tick(&mut self) {
        let from = if self.next == 0 { 3 } else { self.ends[self.next - 1] };
        self.primes += count_primes(from, self.ends[self.next]);
        self.next += 1;
        if self.next == self.ends.len() {
            black_box(self.primes);
            (self.next, self.primes) = (0, 0);
        }
    }
}

/// Counts the primes in `from..to`.
#[inline(never)]
fn count_primes(from: u64, to: u64) -> u64 {
    (from..to).filter(|&c| is_prime(c)).count() as u64
}

/// Trial division as in sysbench's compiled loop: the root as a double, the first division (by two) as a bit
/// test, and a true 64-bit division for each further divisor.
#[inline(always)]
#[allow(clippy::inline_always, reason = "the divisions must stay in one loop, as in sysbench")]
fn is_prime(c: u64) -> bool {
    let root = (c as f64).sqrt();
    if 2.0 > root {
        return true;
    }
    if c & 1 == 0 {
        return false;
    }
    let mut divisor = 3_i64;
    while divisor as f64 <= root {
        if remainder(c, divisor as u64) == 0 {
            return false;
        }
        divisor += 1;
    }
    true
}

/// Returns the number of divisions that the event spends on `c`: up to the first divisor, or else up to the
/// root.
fn divisions(c: u64) -> u64 {
    let root = (c as f64).sqrt();
    let tried = || (2..c).take_while(|&divisor| divisor as f64 <= root);
    let first = tried().position(|divisor| c.is_multiple_of(divisor));
    first.map_or_else(|| tried().count(), |index| index + 1) as u64
}

/// Computes `dividend % divisor` with the 64-bit instruction. LLVM would test for small operands and use the
/// much faster 32-bit one, which would make events incomparable with sysbench's.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::inline_always, unsafe_code, reason = "one instruction, which only assembly can enforce")]
fn remainder(dividend: u64, divisor: u64) -> u64 {
    let rest: u64;
    // SAFETY: `div` reads rdx:rax and its operand and writes rax and rdx, all of which are declared; it uses
    // neither memory nor stack. It faults only for a zero divisor or a quotient of more than 64 bits:
    // divisors start at 3, and with rdx = 0 the quotient fits.
    unsafe {
        std::arch::asm!(
            "div {divisor}",
            divisor = in(reg) divisor,
            inout("rax") dividend => _,
            inout("rdx") 0_u64 => rest,
            options(pure, nomem, nostack)
        );
    }
    rest
}

/// Computes `dividend % divisor`; compilers for other architectures emit their 64-bit division.
#[cfg(not(target_arch = "x86_64"))]
fn remainder(dividend: u64, divisor: u64) -> u64 {
    dividend % divisor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_divisions_of_sysbench() {
        assert_eq!(Prime::count(10_000), PrimeCounts { divisions: 117_526, primes: 1_228 });
    }

    #[test]
    fn ticks_cover_an_event_once_in_equal_parts() {
        for max_prime in [0, 3, 4, 5, 30, 1000, 10_000] {
            let mut load = Prime::default();
            load.prepare(max_prime);
            let mut primes = 0;
            for _ in 1..load.ticks_per_event() {
                load.tick();
                primes = load.primes;
            }
            let last = load.ends.len();
            let from = if last > 1 { load.ends[last - 2] } else { 3 };
            primes += count_primes(from, load.ends[last - 1]);
            assert_eq!(primes, Prime::count(max_prime).primes, "{max_prime}");
        }
        let mut load = Prime::default();
        load.prepare(10_000);
        assert_eq!(load.ticks_per_event(), 64);
        let parts: Vec<u64> = std::iter::once(3)
            .chain(load.ends.iter().copied())
            .zip(&load.ends)
            .map(|(from, &to)| (from..to).map(divisions).sum())
            .collect();
        assert!(parts.iter().all(|&part| part.abs_diff(117_526 / 64) < 120), "{parts:?}");
    }

    #[test]
    fn the_fast_loop_finds_the_primes_that_plain_division_finds() {
        for c in 3..3000_u64 {
            assert_eq!(is_prime(c), (2..c).all(|divisor| c % divisor != 0), "{c}");
        }
    }
}
