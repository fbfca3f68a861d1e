//! Fits the scalability law to the points of an experiment.

use crate::wording::interval;
use manycore_experiment::record::Experiment;
use manycore_stats::{Usl, UslPoint, median};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Number of resamples for the intervals of the scalability law.
const BOOTSTRAPS: usize = 400;

/// A scalability law with the spread of its coefficients.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UslFit {
    /// The law fitted to the medians.
    pub law: Usl,
    /// 95 % bootstrap interval of the contention, from resampled slices.
    pub contention: (f64, f64),
    /// 95 % bootstrap interval of the coherence.
    pub coherence: (f64, f64),
    /// Contention without the point N = 1. It differs much from the law's where that one baseline decides
    /// the fit.
    pub contention_without_one: Option<f64>,
}

impl UslFit {
    /// `contention 0.00012 (95 %: 0 to 0.0003)`.
    pub fn contention_in_words(&self) -> String {
        let ends = interval(Some(self.contention), |end| format!("{end:.5}"));
        format!("contention {:.5} ({ends})", self.law.contention)
    }

    /// `coherence 1.20e-5 (95 %: 0 to 3.1e-5)`.
    pub fn coherence_in_words(&self) -> String {
        let ends = interval(Some(self.coherence), |end| format!("{end:.2e}"));
        format!("coherence {:.2e} ({ends})", self.law.coherence)
    }
}

pub(super) fn fit(experiment: &Experiment, cpus: usize, seed: u64) -> Option<UslFit> {
    let rates: Vec<(f64, Vec<f64>)> = experiment
        .treatments
        .iter()
        .enumerate()
        .filter(|(_, treatment)| treatment.workers <= cpus)
        .map(|(index, treatment)| (treatment.workers as f64, experiment.rates(index)))
        .collect();
    // A number of workers without any work cannot be a point of the law, and the law without it would be
    // another one.
    let medians = |sample: &mut dyn FnMut(&[f64]) -> Vec<f64>| -> Option<Vec<UslPoint>> {
        let point = |(workers, rates): &(f64, Vec<f64>)| {
            Some(UslPoint { workers: *workers, rate: median(&sample(rates)).filter(|&rate| rate > 0.0)? })
        };
        rates.iter().map(point).collect()
    };
    let points = medians(&mut <[f64]>::to_vec)?;
    let law = Usl::fit(&points)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let laws: Vec<Usl> = (0..BOOTSTRAPS)
        .filter_map(|_| {
            Usl::fit(&medians(&mut |rates| {
                (0..rates.len()).map(|_| rates[rng.random_range(0..rates.len())]).collect()
            })?)
        })
        .collect();
    let spread = |pick: fn(&Usl) -> f64| -> Option<(f64, f64)> {
        let values: Vec<f64> = laws.iter().map(pick).collect();
        Some((manycore_stats::quantile(&values, 0.025)?, manycore_stats::quantile(&values, 0.975)?))
    };
    let without_one: Vec<UslPoint> = points.iter().copied().filter(|point| point.workers > 1.0).collect();
    Some(UslFit {
        law,
        contention: spread(|law| law.contention)?,
        coherence: spread(|law| law.coherence)?,
        contention_without_one: Usl::fit(&without_one).map(|law| law.contention),
    })
}
