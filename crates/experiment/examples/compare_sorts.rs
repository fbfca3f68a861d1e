//! Compares two ways to sort words, in randomised blocks for one second.

use manycore_experiment::{
    engine::{self, Budget, ExperimentSpec, Subject},
    record::{Method, Sample, Treatment},
};
use manycore_stats::verdict::{Answer, DecisionRule, Verdict};
use std::{convert::Infallible, time::Instant};

/// Sorts the same words under each treatment: 0 keeps the order of equal words, 1 does not.
struct Sorting {
    words: Vec<String>,
    began: Instant,
}

impl Subject for Sorting {
    type Error = Infallible;

    fn measure(&mut self, treatment: usize) -> Result<Sample, Infallible> {
        let mut words = self.words.clone();
        let start_ns = self.now_ns();
        if treatment == 0 {
            words.sort();
        } else {
            words.sort_unstable();
        }
        let wall_ns = self.now_ns() - start_ns;
        Ok(Sample { start_ns, wall_ns, work: words.len() as f64, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

fn main() {
    let words = (0..20_000_u64).map(|number| (number * 7919 % 20_011).to_string()).collect();
    let mut sorting = Sorting { words, began: Instant::now() };
    let treatment = |name: &str| Treatment { name: name.to_owned(), workers: 1, ..Treatment::default() };
    let spec = ExperimentSpec {
        treatments: vec![treatment("stable"), treatment("unstable")],
        budget: Budget::seconds(1.0),
        ..ExperimentSpec::new("sort", Method::WholeRun, "words")
    };
    let (experiment, Ok(())) =
        engine::run(spec, &mut sorting, &mut engine::rng(1), &mut |_| false, &mut |_| {});

    // One block is at least measured, so there is a pair.
    let Some(verdict) = Verdict::new(&experiment.log_ratios(0, 1), DecisionRule::default(), None) else {
        return;
    };
    println!("words per second, unstable over stable: {}", verdict.ratio_in_words());
    println!(
        "{}",
        match verdict.answer {
            Answer::ABetter => "the stable sort is faster",
            Answer::BBetter => "the unstable sort is faster",
            Answer::Equivalent => "the two are equivalent",
            // Only another figure of the two distributions could say so.
            Answer::TradeOff => "better by one figure, worse by another",
            Answer::Inconclusive => "inconclusive: measure for longer",
        }
    );
}
