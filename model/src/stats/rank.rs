//! Exact, distribution-free inference on paired differences.
//!
//! Both are valid whatever the noise looks like and however it is correlated in time, because the order of
//! the two sides is drawn at random inside each pair: where the treatment does nothing, the sign of each
//! difference is a fair coin.

/// Largest number of differences for which the null distribution is enumerated.
const EXACT_LIMIT: usize = 200;

/// Two-sided p-value of Wilcoxon's signed-rank test that `differences` are symmetric about 0.
///
/// Exact up to 200 differences, ties and all (the distribution over sign flips of the midranks that were
/// seen); the normal approximation with tie correction beyond. Zeros are left out, as Wilcoxon did.
/// Returns 1 for no differences.
pub fn signed_rank_p(differences: &[f64]) -> f64 {
    let mut kept: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite() && *d != 0.0).collect();
    kept.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks = doubled_midranks(&kept);
    let total: u64 = ranks.iter().sum();
    let positive: u64 = kept.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let tail = positive.min(total - positive);
    let one_sided = match kept.len() {
        0 => return 1.0,
        n if n <= EXACT_LIMIT => exact_lower_tail(&ranks, tail),
        _ => {
            let variance: f64 = ranks.iter().map(|&rank| (rank * rank) as f64).sum::<f64>() / 4.0;
            let distance = (total as f64 / 2.0 - tail as f64 - 1.0).max(0.0);
            normal_upper_tail(distance / variance.sqrt())
        }
    };
    (2.0 * one_sided).min(1.0)
}

/// Twice the midrank of each of `sorted` (by absolute value), so that ties stay whole numbers.
fn doubled_midranks(sorted: &[f64]) -> Vec<u64> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for group in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        let (first, last) = (ranks.len() as u64 + 1, (ranks.len() + group.len()) as u64);
        ranks.extend(std::iter::repeat_n(first + last, group.len()));
    }
    ranks
}

/// P(sum of the ranks whose fair coin shows heads <= `limit`), by convolution.
fn exact_lower_tail(ranks: &[u64], limit: u64) -> f64 {
    let mut probability = vec![0.0_f64; limit as usize + 1];
    probability[0] = 1.0;
    for &rank in ranks {
        let rank = rank as usize;
        for sum in (0..probability.len()).rev() {
            let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = f64::midpoint(probability[sum], with);
        }
    }
    probability.iter().sum()
}

/// Upper tail of the standard normal distribution, for `z` >= 0; absolute error below 7.5e-8
/// (Abramowitz and Stegun 26.2.17).
fn normal_upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// By how much the level of each of several tests is divided so that all hold together, by Holm's step-down
/// procedure: the smallest p-value takes the level over their number, the next over one less, and so on; after one
/// that fails at 5 %, none is easier than it (Holm 1979).
pub fn holm(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut divisors = vec![p_values.len().max(1); p_values.len()];
    let mut failed = false;
    for (step, &test) in order.iter().enumerate() {
        if !failed {
            divisors[test] = p_values.len() - step;
        }
        failed |= p_values[test] * divisors[test] as f64 > 0.05;
    }
    divisors
}

/// Interval of the median at `confidence` or more, from order statistics: the narrowest symmetric pair whose
/// exact binomial coverage reaches the level (Conover, "Practical Nonparametric Statistics", 3.2).
///
/// Assumes nothing of the distribution. Absent where even the range of the sample does not reach the level:
/// below six samples at 95 %.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let mut log_mass = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut depth = 0;
    while depth < n / 2 {
        below += log_mass.exp();
        if 2.0 * below > 1.0 - confidence {
            break;
        }
        log_mass += ((n - depth) as f64 / (depth + 1) as f64).ln();
        depth += 1;
    }
    (depth > 0).then(|| (sorted[depth - 1], sorted[n - depth]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn holm_divides_the_level_step_by_step_until_one_fails() {
        assert_eq!(holm(&[0.001, 0.03, 0.02]), [3, 1, 2]);
        assert_eq!(holm(&[0.2, 0.02, 0.04]), [3, 3, 3]);
        assert_eq!(holm(&[0.04]), [1]);
        assert!(holm(&[]).is_empty());
    }

    fn brute_force_p(differences: &[f64]) -> f64 {
        let ranks = {
            let mut sorted = differences.to_vec();
            sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
            doubled_midranks(&sorted)
        };
        let mut sorted = differences.to_vec();
        sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
        let total: u64 = ranks.iter().sum();
        let seen: u64 = sorted.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();
        let centre = total as f64 / 2.0;
        let extreme = (0..1u32 << ranks.len())
            .filter(|signs| {
                let sum: u64 = (0..ranks.len()).filter(|i| signs >> i & 1 == 1).map(|i| ranks[i]).sum();
                (sum as f64 - centre).abs() >= (seen as f64 - centre).abs()
            })
            .count();
        extreme as f64 / f64::from(1u32 << ranks.len())
    }

    #[test]
    fn signed_rank_equals_enumeration_with_and_without_ties() {
        for differences in [
            vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            vec![-1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0],
            vec![1.0, 1.0, -1.0, 2.0, 2.0, 3.0, -3.0, 3.0],
            vec![0.5; 9],
        ] {
            assert!(
                (signed_rank_p(&differences) - brute_force_p(&differences)).abs() < 1e-12,
                "{differences:?}"
            );
        }
    }

    #[test]
    fn signed_rank_knows_textbook_values() {
        // R: wilcox.test(c(1,2,3,4,5,6), exact = TRUE)$p.value
        assert_eq!(signed_rank_p(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.03125);
        assert_eq!(signed_rank_p(&[]), 1.0);
        assert_eq!(signed_rank_p(&[0.0, 0.0]), 1.0);
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        let differences: Vec<f64> =
            (1..=EXACT_LIMIT).map(|i| if i % 5 < 2 { -1.0 } else { 1.0 } * i as f64).collect();
        let exact = signed_rank_p(&differences);
        let mut longer = differences;
        longer.push(0.001);
        assert!((signed_rank_p(&longer) / exact - 1.0).abs() < 0.05);
    }

    #[test]
    fn the_interval_holds_its_level_for_small_and_skewed_samples() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for n in [6, 9, 12, 20, 31] {
            let covered = (0..4000)
                .filter(|_| {
                    let sample: Vec<f64> = (0..n).map(|_| -rng.random::<f64>().ln()).collect();
                    let (low, high) = median_interval(&sample, 0.95).unwrap();
                    (low..=high).contains(&std::f64::consts::LN_2)
                })
                .count();
            assert!(covered as f64 / 4000.0 >= 0.945, "n = {n}: covered {covered} of 4000");
        }
    }

    #[test]
    fn the_interval_needs_six_samples() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95), Some((1.0, 6.0)));
        // Conover table A3: n = 20 gives the 6th and the 15th.
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval(&twenty, 0.95), Some((6.0, 15.0)));
    }

    #[test]
    fn the_interval_is_there_for_thousands_of_samples() {
        let many: Vec<f64> = (0..5001).map(f64::from).collect();
        let (low, high) = median_interval(&many, 0.95).unwrap();
        assert!((2400.0..2500.0).contains(&low) && (2500.0..2600.0).contains(&high));
    }
}
