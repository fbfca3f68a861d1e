//! Shared by the benchmarks.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]
#![allow(dead_code, reason = "each benchmark uses a part")]

pub mod hyperfine;
pub mod other_work;

use manycore_evaluate::{self, Options, SECTIONS, profile::STANDARD};
use manycore_experiment::{
    Record,
    engine::{Budget, ExperimentSpec, Rng, Subject, run},
    record::{Experiment, Method, Treatment},
    session::Event,
};
use manycore_stats::Estimate;
use manycore_text::units::interval;
use manycore_topology::Machine;
use rand::SeedableRng;

/// Returns this machine.
pub fn machine() -> Machine {
    manycore::source::live().expect("a machine")
}

/// Measures one section of `eval`, in the standard profile.
pub fn section(name: &str) -> Record {
    let section = SECTIONS.into_iter().find(|section| section.name == name).expect("a section of that name");
    let (record, ending) = manycore_evaluate::run(
        machine(),
        Options::eval(STANDARD, manycore_stats::verdict::EQUIVALENCE_MARGIN, 1),
        &[section],
        &mut |_: Event| {},
    );
    ending.expect("the section is measured to its end");
    record
}

/// Compares treatments with these names on `subject` for `seconds`.
pub fn compare(
    names: &[&str],
    subject: &mut dyn Subject<Error = manycore_experiment::Error>,
    seconds: f64,
) -> Experiment {
    let treatment = |name: &&str| Treatment { name: (*name).to_owned(), workers: 1, ..Treatment::default() };
    let spec = ExperimentSpec {
        treatments: names.iter().map(treatment).collect(),
        budget: Budget::seconds(seconds),
        ..ExperimentSpec::new("bench", Method::WholeRun, "units")
    };
    let (experiment, ending) = run(spec, subject, &mut Rng::seed_from_u64(1), &mut |_| false, &mut |_| {});
    ending.expect("the benchmark is measured to its end");
    experiment
}

/// Formats a ratio with its interval.
pub fn show(ratio: &Estimate) -> String {
    let ends = interval(ratio.interval, |end| format!("{end:.4}"));
    format!("{:.4} ({ends}, {} pairs)", ratio.median, ratio.n)
}

/// Returns the number in a variable of the environment.
pub fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
