//! The engine of experiments. It runs trials and reports progress through callbacks; it never prints.
//!
//! [`run`] takes an [`ExperimentSpec`] (what is compared) and a [`Subject`] (what is measured under each
//! treatment) and returns an [`Experiment`]. An experiment consists of blocks. Each block holds every treatment once, in
//! seeded random order, and blocks are added until the budget is spent. Only the subject touches the machine,
//! so the engine is tested on a simulated one.

use crate::{
    error::Result,
    record::{EventTimes, Experiment, Method, Metric, Sample, Treatment},
};
use manycore_stats::verdict::parameter;
use rand::{SeedableRng, seq::SliceRandom};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// The generator of all random orders. See [`rng`].
pub type Rng = Xoshiro256PlusPlus;

/// Returns the generator of a seed. Equal seeds give equal orders on every platform.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// The specification of an experiment: what is compared, and for how long.
#[derive(Clone, Debug)]
pub struct ExperimentSpec {
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
    /// Interim analyses, spread evenly over the budget, including the one at its end. The experiment may end
    /// early at these points only.
    ///
    /// Their number, and the analysis at which the experiment ended, are stored in its parameters, because the
    /// level of its verdicts depends on both ([`manycore_stats::verdict::DecisionRule::from_parameters`]). An interrupted
    /// experiment has the level of the next analysis.
    pub analyses: usize,
}

impl ExperimentSpec {
    /// Returns a specification without treatments: one block, whose work counts in `unit`, and one analysis
    /// at the end.
    pub fn new(id: impl Into<String>, method: Method, unit: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            method,
            unit: unit.into(),
            parameters: BTreeMap::new(),
            metrics: Vec::new(),
            treatments: Vec::new(),
            budget: Budget::seconds(0.0),
            analyses: 1,
        }
    }
}

/// When an experiment stops: after the last whole block that fits into `seconds`, but not before
/// `min_blocks` and not after `max_blocks`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Elapsed time in seconds.
    pub seconds: f64,
    /// Minimum number of blocks, however long they take.
    pub min_blocks: usize,
    /// Maximum number of blocks.
    pub max_blocks: usize,
}

impl Budget {
    /// Returns a budget of `seconds`, and of one block at least.
    pub fn seconds(seconds: f64) -> Self {
        Self { seconds, min_blocks: 1, max_blocks: usize::MAX }
    }
}

/// Something that can be measured under each treatment of a design.
pub trait Subject {
    /// Why no sample could be taken.
    type Error;

    /// Takes one sample under the treatment with this index. The engine fills in the sample's block and
    /// treatment.
    ///
    /// # Errors
    /// This sample is lost; earlier ones are kept.
    fn measure(&mut self, treatment: usize) -> Result<Sample, Self::Error>;

    /// Returns the time in nanoseconds, on the clock by which budgets are kept.
    fn now_ns(&self) -> u64;

    /// Returns the event times collected so far, by treatment.
    fn latencies(&mut self) -> Vec<Option<EventTimes>> {
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

/// Runs the blocks of `spec` on `subject`. `enough` is called at each planned interim analysis and returns
/// whether the samples so far suffice; `watch` is called with the progress after each sample.
///
/// Returns the experiment in any case: after a failure, it holds the samples taken before it.
pub fn run<S: Subject + ?Sized>(
    spec: ExperimentSpec,
    subject: &mut S,
    rng: &mut Rng,
    enough: &mut dyn FnMut(&Experiment) -> bool,
    watch: &mut dyn FnMut(Progress),
) -> (Experiment, Result<(), S::Error>) {
    let ExperimentSpec { id, method, unit, parameters, metrics, treatments, budget, analyses } = spec;
    let samples = Vec::new();
    let mut experiment = Experiment { id, method, unit, parameters, metrics, treatments, samples };
    let mut interim = InterimAnalyses { planned: analyses, made: 0, enough };
    interim.announce(&mut experiment);
    let ending = blocks(&mut experiment, budget, subject, rng, &mut interim, watch);
    experiment.treatments = with_latencies(experiment.treatments, subject.latencies());
    (experiment, ending)
}

/// The interim analyses of an experiment under way.
struct InterimAnalyses<'a> {
    planned: usize,
    made: usize,
    enough: &'a mut dyn FnMut(&Experiment) -> bool,
}

impl InterimAnalyses<'_> {
    /// Stores the number of analyses, and of the next one, if there is more than the one at the end.
    fn announce(&self, experiment: &mut Experiment) {
        if self.planned > 1 {
            experiment.parameters.insert(parameter::ANALYSES.to_owned(), self.planned.to_string());
            store_analysis(experiment, 1);
        }
    }

    /// Makes the analysis that is due when this share of the budget is spent, if any. Returns whether the
    /// experiment ends.
    fn ends_at(&mut self, spent: f64, experiment: &mut Experiment) -> bool {
        let due = (spent * self.planned as f64) as usize;
        if due <= self.made || self.made + 1 >= self.planned {
            return false;
        }
        // If a block took longer than the time between two analyses, the earlier one is skipped.
        self.made = due.min(self.planned - 1);
        store_analysis(experiment, self.made);
        if (self.enough)(experiment) {
            return true;
        }
        store_analysis(experiment, self.made + 1);
        false
    }

    /// Stores that the budget was spent.
    fn end(&self, experiment: &mut Experiment) {
        if self.planned > 1 {
            store_analysis(experiment, self.planned);
        }
    }
}

/// Stores the number of the analysis that decides the level of verdicts.
fn store_analysis(experiment: &mut Experiment, number: usize) {
    experiment.parameters.insert(parameter::ANALYSIS.to_owned(), number.to_string());
}

fn blocks<S: Subject + ?Sized>(
    experiment: &mut Experiment,
    budget: Budget,
    subject: &mut S,
    rng: &mut Rng,
    interim: &mut InterimAnalyses,
    watch: &mut dyn FnMut(Progress),
) -> Result<(), S::Error> {
    let treatments = experiment.treatments.len();
    let began = subject.now_ns();
    let elapsed = |subject: &S| subject.now_ns().saturating_sub(began);
    let budget_ns = (budget.seconds * 1e9) as u64;
    let mut longest_block = 0;
    for block in 0..budget.max_blocks {
        let block_began = elapsed(subject);
        if block >= budget.min_blocks && block_began + longest_block > budget_ns {
            break;
        }
        let by_time = block_began as f64 / budget_ns as f64;
        let spent = by_time.max(block as f64 / budget.max_blocks as f64);
        if interim.ends_at(spent, experiment) {
            return Ok(());
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
            let by_blocks = samples as f64 / (budget.min_blocks * treatments) as f64;
            watch(Progress { share: by_time.min(by_blocks).min(1.0), samples });
        }
        longest_block = longest_block.max(elapsed(subject) - block_began);
    }
    interim.end(experiment);
    Ok(())
}

fn with_latencies(mut treatments: Vec<Treatment>, latencies: Vec<Option<EventTimes>>) -> Vec<Treatment> {
    for (treatment, latency) in treatments.iter_mut().zip(latencies) {
        treatment.latency = latency;
    }
    treatments
}

#[cfg(test)]
mod tests;
