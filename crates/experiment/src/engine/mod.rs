//! The engine of experiments. It runs trials and reports progress through callbacks; it never prints.
//!
//! [`run`] takes a [`Design`] (what is compared) and a [`Subject`] (what is measured under each treatment)
//! and returns an [`Experiment`]. An experiment consists of blocks. Each block holds every treatment once, in
//! seeded random order, and blocks are added until the budget is spent. Only the subject touches the machine,
//! so the engine is tested on a simulated one.

use crate::error::Result;
use crate::record::{Experiment, Latency, Method, Metric, Sample, Treatment};
use manycore_stats::verdict::parameter;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// The generator of all random orders.
pub type Rng = Xoshiro256PlusPlus;

/// The plan of an experiment: what is compared, and for how long.
#[derive(Clone, Debug)]
pub struct Design {
    /// Id in the record.
    pub id: String,
    /// How treatments alternate.
    pub method: Method,
    /// Unit of the work.
    pub unit: String,
    /// Parameters of the load.
    pub parameters: BTreeMap<String, String>,
    /// The metrics of the subject's values; see [`Experiment::metrics`].
    pub metrics: Vec<Metric>,
    /// The levels that are compared.
    pub treatments: Vec<Treatment>,
    /// When to stop.
    pub budget: Budget,
}

/// When an experiment stops: after the last whole block that fits into `seconds`, but not before
/// `least_blocks` and not after `most_blocks`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Elapsed time in seconds.
    pub seconds: f64,
    /// Smallest number of blocks, however long they take.
    pub least_blocks: usize,
    /// Largest number of blocks.
    pub most_blocks: usize,
}

impl Budget {
    /// Returns a budget of `seconds`, and of one block at least.
    pub fn seconds(seconds: f64) -> Self {
        Self { seconds, least_blocks: 1, most_blocks: usize::MAX }
    }
}

/// Something that can be measured under each treatment of a design.
pub trait Subject {
    /// Why no sample could be taken.
    type Error;

    /// Takes one sample under a treatment, given by its index. The engine fills in the block and the
    /// treatment.
    ///
    /// # Errors
    /// The sample is lost, those before are kept.
    fn measure(&mut self, treatment: usize) -> Result<Sample, Self::Error>;

    /// Returns the time in nanoseconds, on the clock by which budgets are kept.
    fn now_ns(&self) -> u64;

    /// Returns the event times collected so far, by treatment.
    fn latencies(&mut self) -> Vec<Option<Latency>> {
        Vec::new()
    }
}

/// Progress of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Share of the budget that is spent, 0 to 1.
    pub share: f64,
    /// Samples taken.
    pub samples: usize,
}

/// Interim analyses of an experiment, planned before it begins. An experiment may end early at these points
/// only.
///
/// Their number, and the analysis at which the experiment ended, are stored in its parameters, because the
/// level of its verdicts depends on both ([`manycore_stats::verdict::DecisionRule::of`]). An interrupted experiment
/// has the level of the next analysis.
pub struct Interim<'a> {
    /// Number of analyses, spread evenly over the budget, including the one at its end.
    pub planned: usize,
    /// Returns whether the samples so far are enough.
    pub enough: &'a mut dyn FnMut(&Experiment) -> bool,
}

impl<'a> Interim<'a> {
    /// No analysis but the one at the end.
    pub fn none(never: &'a mut dyn FnMut(&Experiment) -> bool) -> Self {
        Self { planned: 1, enough: never }
    }
}

/// Runs the blocks of `design` on `subject`. `watch` is called with the progress after each sample.
///
/// Returns the experiment in any case: after a failure, it holds the samples taken before it.
pub fn run<S: Subject + ?Sized>(
    design: Design,
    subject: &mut S,
    rng: &mut Rng,
    watch: &mut dyn FnMut(Progress),
) -> (Experiment, Result<(), S::Error>) {
    run_until(design, subject, rng, Interim { planned: 1, enough: &mut |_| false }, watch)
}

/// Like [`run`], but ends at the first planned interim analysis at which the samples are enough.
pub fn run_until<S: Subject + ?Sized>(
    design: Design,
    subject: &mut S,
    rng: &mut Rng,
    mut interim: Interim,
    watch: &mut dyn FnMut(Progress),
) -> (Experiment, Result<(), S::Error>) {
    let Design { id, method, unit, parameters, metrics, treatments, budget } = design;
    let samples = Vec::new();
    let mut experiment = Experiment { id, method, unit, parameters, metrics, treatments, samples };
    if interim.planned > 1 {
        experiment.parameters.insert(parameter::ANALYSES.to_owned(), interim.planned.to_string());
        analysis(&mut experiment, 1);
    }
    let ending = blocks(&mut experiment, budget, subject, rng, &mut interim, watch);
    experiment.treatments = with_latencies(experiment.treatments, subject.latencies());
    (experiment, ending)
}

/// Stores the number of the next analysis.
fn analysis(experiment: &mut Experiment, number: usize) {
    experiment.parameters.insert(parameter::ANALYSIS.to_owned(), number.to_string());
}

fn blocks<S: Subject + ?Sized>(
    experiment: &mut Experiment,
    budget: Budget,
    subject: &mut S,
    rng: &mut Rng,
    interim: &mut Interim,
    watch: &mut dyn FnMut(Progress),
) -> Result<(), S::Error> {
    let treatments = experiment.treatments.len();
    let mut made = 0;
    let began = subject.now_ns();
    let elapsed = |subject: &S| subject.now_ns().saturating_sub(began);
    let budget_ns = (budget.seconds * 1e9) as u64;
    let mut longest_block = 0;
    for block in 0..budget.most_blocks {
        let block_began = elapsed(subject);
        if block >= budget.least_blocks && block_began + longest_block > budget_ns {
            break;
        }
        let by_time = block_began as f64 / budget_ns as f64;
        let spent = by_time.max(block as f64 / budget.most_blocks as f64);
        let due = (spent * interim.planned as f64) as usize;
        if due > made && made + 1 < interim.planned {
            // If a block took longer than the time between two analyses, the earlier one is skipped.
            made = due.min(interim.planned - 1);
            analysis(experiment, made);
            if (interim.enough)(experiment) {
                return Ok(());
            }
            analysis(experiment, made + 1);
        }
        let mut order: Vec<usize> = (0..treatments).collect();
        order.shuffle(rng);
        for treatment in order {
            let sample = subject.measure(treatment)?;
            experiment.samples.push(Sample { block, treatment, ..sample });
            // The experiment ends when both the time and the minimum of blocks are used up, so progress is
            // the smaller of the two shares.
            let by_time = elapsed(subject) as f64 / budget_ns as f64;
            let samples = experiment.samples.len();
            let by_blocks = samples as f64 / (budget.least_blocks * treatments) as f64;
            watch(Progress { share: by_time.min(by_blocks).min(1.0), samples });
        }
        longest_block = longest_block.max(elapsed(subject) - block_began);
    }
    if interim.planned > 1 {
        analysis(experiment, interim.planned);
    }
    Ok(())
}

fn with_latencies(mut treatments: Vec<Treatment>, latencies: Vec<Option<Latency>>) -> Vec<Treatment> {
    for (treatment, latency) in treatments.iter_mut().zip(latencies) {
        treatment.latency = latency;
    }
    treatments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use manycore_stats::{
        Estimate,
        verdict::{Answer, DecisionRule, Verdict},
    };
    use rand::{RngExt, SeedableRng};

    /// A simulated machine whose speed drifts, with treatments of known effect. Only samples advance its
    /// clock.
    struct Simulated {
        rates: Vec<f64>,
        sample_ns: u64,
        now_ns: u64,
        noise: Rng,
        fails_after: usize,
    }

    impl Simulated {
        fn new(rates: &[f64], sample_ns: u64) -> Self {
            let noise = Rng::seed_from_u64(3);
            Self { rates: rates.to_vec(), sample_ns, now_ns: 0, noise, fails_after: usize::MAX }
        }
    }

    impl Subject for Simulated {
        type Error = Error;

        fn measure(&mut self, treatment: usize) -> Result<Sample> {
            if self.fails_after == 0 {
                return Err(Error::Failed("worker process 1 ended: signal 9".to_owned()));
            }
            self.fails_after -= 1;
            let start_ns = self.now_ns;
            self.now_ns += self.sample_ns;
            // Other work takes up to 40 % in waves of 7 s; 1 % of white noise is added.
            let drift = 1.0 - 0.2 * (1.0 + (start_ns as f64 / 1e9 / 7.0 * std::f64::consts::TAU).sin());
            let noise = 1.0 + 0.01 * (self.noise.random::<f64>() - 0.5);
            let work = self.rates[treatment] * drift * noise * self.sample_ns as f64 / 1e9;
            Ok(Sample { start_ns, wall_ns: self.sample_ns, work, ..Sample::default() })
        }

        fn now_ns(&self) -> u64 {
            self.now_ns
        }
    }

    fn design(treatments: usize, budget: Budget) -> Design {
        let treatment =
            |index: usize| Treatment { name: index.to_string(), workers: 1, ..Treatment::default() };
        Design {
            id: "test".to_owned(),
            method: Method::Whole,
            unit: "events".to_owned(),
            parameters: BTreeMap::new(),
            metrics: Vec::new(),
            treatments: (0..treatments).map(treatment).collect(),
            budget,
        }
    }

    fn run_it(subject: &mut Simulated, budget: Budget, seed: u64) -> (Experiment, Result) {
        let treatments = subject.rates.len();
        run(design(treatments, budget), subject, &mut Rng::seed_from_u64(seed), &mut |_| {})
    }

    #[test]
    fn every_block_holds_every_treatment_once_in_changing_order() {
        let (experiment, ending) =
            run_it(&mut Simulated::new(&[1.0; 4], 50_000_000), Budget::seconds(10.0), 1);
        assert!(ending.is_ok());
        let blocks: Vec<Vec<usize>> =
            experiment.samples.chunks(4).map(|block| block.iter().map(|s| s.treatment).collect()).collect();
        assert_eq!(blocks.len(), 50);
        assert!(blocks.iter().all(|block| {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            sorted == [0, 1, 2, 3]
        }));
        assert!(blocks.windows(2).any(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn the_order_follows_from_the_seed() {
        let orders: Vec<Vec<usize>> = [5, 5, 6]
            .map(|seed| {
                let (experiment, _) =
                    run_it(&mut Simulated::new(&[1.0; 5], 50_000_000), Budget::seconds(5.0), seed);
                experiment.samples.iter().map(|sample| sample.treatment).collect()
            })
            .to_vec();
        assert_eq!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
    }

    #[test]
    fn pairs_of_slices_see_through_a_drifting_machine() {
        let (experiment, _) =
            run_it(&mut Simulated::new(&[100.0, 103.0], 50_000_000), Budget::seconds(20.0), 2);
        let ratios = experiment.log_ratios(0, 1);
        let ratio = Estimate::of(&ratios).unwrap().map(f64::exp);
        assert!((ratio.median - 1.03).abs() < 0.003, "{ratio:?}");
        assert_eq!(Verdict::of(&ratios, DecisionRule::default(), None).unwrap().answer, Answer::BBetter);
    }

    #[test]
    fn the_budget_is_kept_by_whole_blocks() {
        let mut subject = Simulated::new(&[1.0, 1.0], 1_000_000_000);
        let (experiment, _) = run_it(&mut subject, Budget::seconds(7.0), 1);
        assert_eq!(experiment.samples.len(), 6);
        let least = Budget { seconds: 0.1, least_blocks: 4, most_blocks: 9 };
        assert_eq!(run_it(&mut subject, least, 1).0.samples.len(), 8);
        let most = Budget { seconds: 1e9, least_blocks: 1, most_blocks: 9 };
        assert_eq!(run_it(&mut subject, most, 1).0.samples.len(), 18);
    }

    #[test]
    fn an_experiment_ends_early_at_planned_analyses_only() {
        let ends_at = |enough_from: usize, planned: usize| {
            let mut seen = Vec::new();
            let mut enough = |experiment: &Experiment| {
                seen.push(experiment.samples.len());
                experiment.samples.len() >= enough_from
            };
            let interim = Interim { planned, enough: &mut enough };
            let mut subject = Simulated::new(&[1.0, 1.0], 50_000_000);
            let mut rng = Rng::seed_from_u64(1);
            let (experiment, ending) =
                run_until(design(2, Budget::seconds(9.0)), &mut subject, &mut rng, interim, &mut |_| {});
            assert!(ending.is_ok());
            let rule = DecisionRule::of(&experiment.parameters);
            (experiment.samples.len(), seen, (rule.analysis, rule.analyses))
        };
        assert_eq!(ends_at(usize::MAX, 3), (180, vec![60, 120], (3, 3)));
        assert_eq!(ends_at(70, 3), (120, vec![60, 120], (2, 3)));
        assert_eq!(ends_at(0, 3), (60, vec![60], (1, 3)));
        assert_eq!(ends_at(0, 1), (180, vec![], (1, 1)));
    }

    #[test]
    fn a_failure_keeps_what_was_measured() {
        let mut subject = Simulated { fails_after: 5, ..Simulated::new(&[1.0, 1.0], 50_000_000) };
        let (experiment, ending) = run_it(&mut subject, Budget::seconds(5.0), 1);
        assert_eq!(experiment.samples.len(), 5);
        assert!(matches!(ending, Err(Error::Failed(_))));
    }
}
