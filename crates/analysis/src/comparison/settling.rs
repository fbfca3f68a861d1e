//! How the ratio of a variant over the reference settled while more rounds were measured.

use crate::deciding::{Compared, estimator};
use manycore_experiment::record::{Direction, Experiment};
use manycore_stats::{Estimate, FAMILY_LEVEL, verdict::DecisionRule};

/// Number of points of the curve.
const CURVE_POINTS: usize = 10;

/// Minimum number of pairs of the first point.
const MIN_PAIRS: usize = 6;

/// Returns the value of `b` over the value of `a` in the primary metric, by the deciding estimator, after the first few
/// pairs up to all of them. Each has a 95 % interval of its own. Empty where there are too few pairs for two points.
pub fn settling(experiment: &Experiment, (a, b): (usize, usize)) -> Vec<Estimate> {
    let compared = Compared::primary(experiment, a, b);
    let first = estimator(experiment).least_pairs(FAMILY_LEVEL).max(MIN_PAIRS);
    let is_lower_better = experiment.metrics.first().is_some_and(|metric| metric.better == Direction::Lower);
    let in_values = |ratio: f64| if is_lower_better { 1.0 / ratio } else { ratio };
    let rule = DecisionRule { level: FAMILY_LEVEL, ..DecisionRule::default() };
    let estimate = |count: usize| {
        let verdict = compared.first(count).verdict(rule, None)?;
        let rates = Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs };
        Some(rates.map(in_values))
    };
    let counts = counts(first, compared.len());
    if counts.len() > 1 { counts.into_iter().filter_map(estimate).collect() } else { Vec::new() }
}

/// Returns the numbers of pairs of the points, from `first` to `all`, in equal ratios.
fn counts(first: usize, all: usize) -> Vec<usize> {
    if all < first {
        return Vec::new();
    }
    let growth = (all as f64 / first as f64).powf(1.0 / (CURVE_POINTS - 1) as f64);
    let mut counts: Vec<usize> = (0..CURVE_POINTS)
        .map(|step| (first as f64 * growth.powi(step as i32)).round() as usize)
        .filter(|count| (first..=all).contains(count))
        .chain([all])
        .collect();
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_experiment::record::{id, parameter};
    use manycore_testkit::SyntheticMachine;

    #[test]
    fn points_grow_in_equal_ratios_up_to_all_pairs() {
        assert_eq!(counts(6, 6), [6]);
        assert_eq!(counts(6, 9), [6, 7, 8, 9]);
        assert!(counts(6, 5).is_empty());
        let many = counts(6, 3072);
        assert_eq!((many.len(), many[0], many[9]), (CURVE_POINTS, 6, 3072));
    }

    #[test]
    fn the_last_point_is_the_ratio_of_the_comparison() {
        let machine = SyntheticMachine { blocks: 40, ..SyntheticMachine::guest() };
        for by in ["median", "mean"] {
            let mut record = machine.compare_variants(&[1.0, 1.5, 0.7]);
            let experiment = record.experiments.iter_mut().find(|one| one.id == id::COMPARE).unwrap();
            experiment.parameters.insert(parameter::ESTIMATOR.to_owned(), by.to_owned());
            let comparison = crate::comparison::evaluate(experiment).unwrap();
            for other in &comparison.others {
                let found = settling(experiment, (comparison.reference, other.treatment));
                let (last, ratio) = (found.last().unwrap(), other.metrics[0].ratio.unwrap());
                assert!((last.median / ratio.median - 1.0).abs() < 1e-9 && last.n == 40, "{by}: {last:?}");
                assert!(found.len() > 3 && found[0].n >= MIN_PAIRS, "{by}: {found:?}");
            }
        }
    }
}
