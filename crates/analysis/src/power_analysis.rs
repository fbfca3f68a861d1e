//! Computes the minimum detectable effect of a number of pairs, and the number of pairs that an answer
//! needs.
//!
//! Both follow from the scatter of the measured pairs, which is derived from the interval of their verdict.
//! They apply to a run with the usual interim analyses and the same scatter. Simulations in the tests
//! calibrate them.

use manycore_stats::{
    interim_level, student_quantile, upper_quantile, upper_tail,
    verdict::{Answer, DecisionRule, Verdict},
};

/// Statistical power of the planned runs.
const POWER: f64 = 0.8;

/// Interim analyses of a planned run.
const ANALYSES: usize = 3;

/// Upper bound of planned pairs.
const MAX_PAIRS: f64 = 1e7;

/// Returns the minimum detectable effect at 80 % power: the smallest true ratio above 1, less 1, for as
/// many pairs as were planned, at the level of the last analysis. It is at least the margin where a run may
/// end early, because a smaller effect could end the run as equivalent.
pub(crate) fn minimum_detectable_effect(verdict: &Verdict) -> Option<f64> {
    let DecisionRule { analysis, analyses, .. } = verdict.rule;
    let planned = verdict.pairs as f64 * analyses as f64 / analysis.max(1) as f64;
    let last = verdict.rule.level * interim_level(analyses, analyses) / interim_level(analysis, analyses);
    let critical = verdict.estimator.standard_errors(planned as usize, last)?;
    // The scatter is an estimate, both here and in the planned run. Both errors widen what is needed.
    let needed = |errors: f64| {
        let spread = (critical.powi(2) + errors.powi(2)) / (2.0 * (verdict.pairs as f64 - 1.0));
        critical + upper_quantile(1.0 - POWER) * (1.0 + spread).sqrt()
    };
    let errors = (0..5).fold(critical, |errors, _| needed(errors));
    let smallest = (errors * pair_standard_deviation(verdict)? / planned.sqrt()).exp_m1();
    Some(if analyses > 1 { smallest.max(verdict.rule.margin) } else { smallest })
}

/// Returns how many pairs in total, rounded to two digits, a new run needs to end with an answer with a probability of
/// 80 %. The verdict must be inconclusive and have an interval.
///
/// Where the pairs lean to one variant, the answer will most likely be a difference. Its size is estimated
/// from the pairs and is uncertain itself. Where they do not lean, the true ratio may be any, and the
/// hardest to decide is half of the margin.
pub(crate) fn pairs_needed(verdict: &Verdict) -> Option<usize> {
    if verdict.answer != Answer::Inconclusive {
        return None;
    }
    let scatter = pair_standard_deviation(verdict)?;
    let made = verdict.pairs as f64;
    // The level of one of several comparisons (Holm) is a part of that of its analysis.
    let DecisionRule { analysis, analyses, level, .. } = verdict.rule;
    let part = level / interim_level(analysis, analyses);
    let z = upper_quantile(part * interim_level(ANALYSES, ANALYSES) / 2.0);
    let whatever_is_true = (2.0 * z * scatter / verdict.rule.margin.ln_1p()).powi(2);
    let effect = verdict.ratio.ln().abs() / (scatter / made.sqrt());
    let leans = effect > student_quantile((1.0 - POWER) / 2.0, made - 1.0);
    // In standard errors of the measured pairs.
    let inconclusive = |pairs: f64| {
        let error = (made / pairs).sqrt();
        let spread = error.hypot(1.0);
        upper_tail((effect - z * error) / spread) - upper_tail((effect + z * error) / spread)
    };
    let mut pairs = made;
    while leans && pairs < whatever_is_true && inconclusive(pairs) > 1.0 - POWER {
        pairs *= 1.02;
    }
    let pairs = if leans { pairs.min(whatever_is_true) } else { whatever_is_true };
    Some(two_digits(pairs.clamp(made + 1.0, MAX_PAIRS).ceil() as usize))
}

/// Rounds an estimate up to two digits.
fn two_digits(count: usize) -> usize {
    let step = 10_usize.pow(count.max(1).ilog10().saturating_sub(1));
    count.div_ceil(step) * step
}

/// Returns the standard deviation of the logarithm of one pair's ratio, as implied by the interval of the
/// verdict.
fn pair_standard_deviation(verdict: &Verdict) -> Option<f64> {
    let (low, high) = verdict.interval?;
    let errors = verdict.estimator.standard_errors(verdict.pairs, verdict.rule.level)?;
    Some((high / low).ln() / 2.0 * (verdict.pairs as f64).sqrt() / errors)
}

#[cfg(test)]
mod tests;
