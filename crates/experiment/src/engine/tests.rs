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

fn spec(treatments: usize, budget: Budget) -> ExperimentSpec {
    let treatment = |index: usize| Treatment { name: index.to_string(), workers: 1, ..Treatment::default() };
    let treatments = (0..treatments).map(treatment).collect();
    ExperimentSpec { treatments, budget, ..ExperimentSpec::new("test", Method::WholeRun, "events") }
}

fn run_it(subject: &mut Simulated, budget: Budget, seed: u64) -> (Experiment, Result) {
    let treatments = subject.rates.len();
    run(spec(treatments, budget), subject, &mut Rng::seed_from_u64(seed), &mut |_| false, &mut |_| {})
}

#[test]
fn every_block_holds_every_treatment_once_in_changing_order() {
    let (experiment, ending) = run_it(&mut Simulated::new(&[1.0; 4], 50_000_000), Budget::seconds(10.0), 1);
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
fn pairs_of_slices_show_the_effect_on_a_drifting_machine() {
    let (experiment, _) = run_it(&mut Simulated::new(&[100.0, 103.0], 50_000_000), Budget::seconds(20.0), 2);
    let ratios = experiment.log_ratios(0, 1);
    let ratio = Estimate::from_samples(&ratios).unwrap().map(f64::exp);
    assert!((ratio.median - 1.03).abs() < 0.003, "{ratio:?}");
    assert_eq!(Verdict::new(&ratios, DecisionRule::default(), None).unwrap().answer, Answer::BBetter);
}

#[test]
fn the_budget_is_kept_by_whole_blocks() {
    let mut subject = Simulated::new(&[1.0, 1.0], 1_000_000_000);
    let (experiment, _) = run_it(&mut subject, Budget::seconds(7.0), 1);
    assert_eq!(experiment.samples.len(), 6);
    let least = Budget { seconds: 0.1, min_blocks: 4, max_blocks: 9 };
    assert_eq!(run_it(&mut subject, least, 1).0.samples.len(), 8);
    let most = Budget { seconds: 1e9, min_blocks: 1, max_blocks: 9 };
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
        let mut subject = Simulated::new(&[1.0, 1.0], 50_000_000);
        let mut rng = Rng::seed_from_u64(1);
        let spec = ExperimentSpec { analyses: planned, ..spec(2, Budget::seconds(9.0)) };
        let (experiment, ending) = run(spec, &mut subject, &mut rng, &mut enough, &mut |_| {});
        assert!(ending.is_ok());
        let rule = DecisionRule::from_parameters(&experiment.parameters);
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
