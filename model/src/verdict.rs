//! Whether B is better than A, and by how much.

use crate::stats::{CONFIDENCE, Estimate, signed_rank_p};
use crate::units::{interval, percent};
use serde::{Deserialize, Serialize};

/// A difference smaller than this is of no consequence to anybody: where the whole interval lies within it,
/// the answer is "no difference".
pub const NEGLIGIBLE: f64 = 0.02;

/// Floor that is assumed where none was measured: what 30 s blocks showed on a shared virtual machine.
const ASSUMED_FLOOR: f64 = 0.05;

/// What the pairs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A does more work per second.
    ABetter,
    /// B does more work per second.
    BBetter,
    /// Any difference is within the noise floor or negligible.
    NoDifference,
    /// The pairs are too few or too scattered to tell.
    NotEnough,
}

/// A judged comparison of B against A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The answer.
    pub verdict: Answer,
    /// Rate of B over rate of A, median over the pairs.
    pub ratio: f64,
    /// 95 % interval of the ratio; absent below six pairs.
    pub interval: Option<(f64, f64)>,
    /// Number of pairs.
    pub pairs: usize,
    /// Two-sided p-value of the signed-rank test, as if this were the only look.
    pub p: f64,
    /// Largest relative difference that this machine may show between two identical things; absent where it
    /// was not measured, and 5 % is assumed.
    pub noise_floor: Option<f64>,
}

impl Verdict {
    /// Judges pairs given as ln(rate of B / rate of A). Absent where there are none.
    ///
    /// One side is better where the test rejects at 5 %, the interval leaves out 1 and the ratio is beyond
    /// the noise floor. There is no difference where the whole interval lies within the floor or within
    /// [`NEGLIGIBLE`], or where the difference is sure but within the floor.
    pub fn of(log_ratios: &[f64], noise_floor: Option<f64>) -> Option<Self> {
        Self::at_look(log_ratios, noise_floor, 1)
    }

    /// [`Verdict::of`] at one of `looks` planned looks at data that grow: the level of the test and of the
    /// interval is split evenly over them (Bonferroni), so that both hold over all looks together.
    pub fn at_look(log_ratios: &[f64], noise_floor: Option<f64>, looks: usize) -> Option<Self> {
        let level = (1.0 - CONFIDENCE) / looks.max(1) as f64;
        let floor = noise_floor.unwrap_or(ASSUMED_FLOOR);
        let ratio = Estimate::at(log_ratios, 1.0 - level)?.map(f64::exp);
        let p = signed_rank_p(log_ratios);
        let sure = p < level && ratio.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
        let widest = ratio.interval.map(|(low, high)| (1.0 - low).max(high - 1.0));
        let verdict = match widest {
            Some(_) if sure && (ratio.median - 1.0).abs() > floor => {
                if ratio.median > 1.0 {
                    Answer::BBetter
                } else {
                    Answer::ABetter
                }
            }
            Some(widest) if sure || widest <= floor.max(NEGLIGIBLE) => Answer::NoDifference,
            _ => Answer::NotEnough,
        };
        Some(Self {
            verdict,
            ratio: ratio.median,
            interval: ratio.interval,
            pairs: log_ratios.len(),
            p,
            noise_floor,
        })
    }

    /// The ratio with its interval, pairs and floor: `1.031 (95 %: 1.022 to 1.040; 40 pairs; noise floor 0.4 %)`.
    pub fn ratio_in_words(&self) -> String {
        let ends = interval(self.interval, |end| format!("{end:.3}"));
        format!("{:.3} ({ends}; {} pairs; {})", self.ratio, self.pairs, self.floor_in_words())
    }

    /// The noise floor in words, with whether it was measured.
    pub fn floor_in_words(&self) -> String {
        match self.noise_floor {
            Some(floor) => format!("noise floor {}", percent(floor)),
            None => format!("noise floor not measured, {} assumed", percent(ASSUMED_FLOOR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn noisy(effect: f64, pairs: usize, seed: u64) -> Vec<f64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..pairs).map(|_| effect + (rng.random::<f64>() - 0.5) * 0.1).collect()
    }

    #[test]
    fn a_clear_difference_is_told_with_its_direction() {
        assert_eq!(Verdict::of(&noisy(0.10, 20, 1), Some(0.01)).unwrap().verdict, Answer::BBetter);
        assert_eq!(Verdict::of(&noisy(-0.10, 20, 1), Some(0.01)).unwrap().verdict, Answer::ABetter);
    }

    #[test]
    fn a_difference_below_the_floor_is_none() {
        let verdict = Verdict::of(&noisy(0.03, 400, 2), Some(0.05)).unwrap();
        assert!(verdict.p < 0.001);
        assert_eq!(verdict.verdict, Answer::NoDifference);
    }

    #[test]
    fn few_or_scattered_pairs_are_not_enough() {
        assert_eq!(Verdict::of(&[0.1; 5], Some(0.0)).unwrap().verdict, Answer::NotEnough);
        assert_eq!(
            Verdict::of(&[0.3, -0.3, 0.2, -0.25, 0.1, -0.1], Some(0.0)).unwrap().verdict,
            Answer::NotEnough
        );
        assert_eq!(Verdict::of(&[], Some(0.0)), None);
    }

    #[test]
    fn identical_things_differ_in_at_most_one_run_of_twenty() {
        let wrong = (0..2000)
            .filter(|&seed| {
                let verdict = Verdict::of(&noisy(0.0, 10, seed), Some(0.0)).unwrap().verdict;
                matches!(verdict, Answer::ABetter | Answer::BBetter)
            })
            .count();
        assert!(wrong <= 110, "{wrong} of 2000");
    }
}
