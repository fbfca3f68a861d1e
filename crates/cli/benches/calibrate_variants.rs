//! Calibration of `compare` on this machine where the median of two variants is not the question: false claims among five
//! identical variants by each estimator, means that differ where medians do not, trade-offs, and stored records of
//! sessions with different load.
//!
//! Usage: `calibrate_variants [PART...]` with the parts `quiet`, `busy`, `mean`, `trade-off`, `sessions`; all of them by
//! default. `TRIALS` sets the number of trials with identical variants (200), `ROUNDS` the rounds of each (600), `TRIES`
//! the number of trials of each difference (10), `SESSIONS` the number of sessions of each command (40).
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use common::{number, other_work::OtherWork};
use manycore_analysis::{Comparison, compare, is_conclusive_enough};
use manycore_experiment::{
    counters::CounterReader,
    engine::{Budget, ExperimentSpec, Rng, Subject, run},
    record::{Experiment, Method, Treatment, factor, parameter, variant_label},
};
use manycore_linux::clock::now_ns;
use manycore_stats::{
    Estimator,
    verdict::{Answer, parameter as rule},
};
use manycore_study::{
    analyses_by, split_command,
    subject::{CommandSubject, RunSettings, Variant},
};
use manycore_text::units::percent;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use std::{collections::BTreeMap, path::Path, process::Command, rc::Rc, time::Instant};

/// A command of about 30 ms, most of it work. Its arguments: its length relative to that, and the share of its runs that
/// take so many times as long.
const WORK: &str =
    "perl -e '$n = 2000000 * $ARGV[0] * (rand() < $ARGV[1] ? $ARGV[2] : 1); $x += $_ for 1..$n'";

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("quiet") {
        false_claims("quiet");
    }
    if wanted("busy") {
        let _other_work = OtherWork::start();
        false_claims("with other work");
    }
    if wanted("mean") {
        worse_mean();
    }
    if wanted("trade-off") {
        trade_off();
    }
    if wanted("sessions") {
        sessions();
    }
}

fn subject(commands: &[String]) -> CommandSubject {
    let variant = |line: &String| Variant {
        command: split_command(line).expect("a command"),
        copies: 1,
        ..Variant::default()
    };
    let counter_reader = Rc::new(CounterReader::new(&common::machine()));
    let variants = commands.iter().map(variant).collect();
    CommandSubject::new(variants, RunSettings::default(), None, counter_reader, now_ns()).expect("a subject")
}

/// Measures rounds of the commands, with one run of each before.
fn measured(
    commands: &[String],
    by: Estimator,
    (budget, analyses): (Budget, usize),
    seed: u64,
    stop: &mut dyn FnMut(&Experiment) -> bool,
) -> Experiment {
    let mut subject = subject(commands);
    for index in 0..commands.len() {
        subject.measure(index).expect("it runs");
    }
    let treatment = |index: usize| Treatment {
        name: variant_label(index),
        workers: 1,
        factors: BTreeMap::from([(factor::VARIANT.to_owned(), variant_label(index))]),
        latency: None,
    };
    let spec = ExperimentSpec {
        metrics: subject.metrics(),
        analyses,
        budget,
        treatments: (0..commands.len()).map(treatment).collect(),
        parameters: BTreeMap::from([(parameter::ESTIMATOR.to_owned(), by.to_string())]),
        ..ExperimentSpec::new("compare", Method::WholeRun, "runs")
    };
    let (experiment, ending) = run(spec, &mut subject, &mut Rng::seed_from_u64(seed), stop, &mut |_| {});
    ending.expect("it is measured to its end");
    experiment
}

/// Counts the trials of five identical variants in which any is reported as different from the first one, at any of the
/// interim analyses that a run of that many rounds has. The same rounds are evaluated by each estimator.
fn false_claims(name: &str) {
    let (trials, rounds) = (number("TRIALS", 200), number("ROUNDS", 600));
    let budget = Budget { seconds: f64::MAX, min_blocks: rounds, max_blocks: rounds };
    let mut claimed = BTreeMap::from(
        [Estimator::Median, Estimator::Mean, Estimator::P99].map(|by| (by.to_string(), (by, 0))),
    );
    let began = Instant::now();
    for trial in 0..trials {
        let same = vec!["true".to_owned(); 5];
        let experiment = measured(&same, Estimator::Median, (budget, 1), trial as u64, &mut |_| false);
        for (by, count) in claimed.values_mut() {
            *count += usize::from(is_any_claimed(&experiment, *by, rounds));
        }
    }
    let claims: Vec<String> = claimed
        .iter()
        .map(|(by, (_, count))| format!("{by} {count} ({})", percent(*count as f64 / trials as f64)))
        .collect();
    println!(
        "Five identical variants, {name}, {rounds} rounds: any false claim, of {trials}: {}; {:.0} s",
        claims.join(", "),
        began.elapsed().as_secs_f64()
    );
}

fn is_any_claimed(experiment: &Experiment, by: Estimator, rounds: usize) -> bool {
    let analyses = analyses_by(by, rounds as f64, 4);
    (1..=analyses).any(|which| {
        let mut so_far = experiment.clone();
        so_far.samples.retain(|sample| sample.block < rounds * which / analyses);
        so_far.parameters.extend([
            (parameter::ESTIMATOR.to_owned(), by.to_string()),
            (rule::ANALYSES.to_owned(), analyses.to_string()),
            (rule::ANALYSIS.to_owned(), which.to_string()),
        ]);
        let compared = compare(&so_far).expect("all variants");
        assert!(compared.others.iter().all(|other| other.verdict.interval.is_some()), "{by}: too few rounds");
        compared.ranking.len() > 1 || compared.others.iter().any(|other| other.verdict.is_different())
    })
}

/// Compares two commands for at most a minute, as `compare --budget 60s` does.
fn within_a_minute(commands: &[String; 2], by: Estimator, seed: u64) -> (Comparison, f64) {
    let began = Instant::now();
    let mut timed = subject(commands);
    let pair: f64 = (0..2).map(|index| timed.measure(index).expect("it runs").wall_ns as f64 / 1e9).sum();
    let analyses = analyses_by(by, 60.0 / pair, 1);
    let mut stop = |experiment: &Experiment| is_conclusive_enough(experiment, None);
    let experiment = measured(commands, by, (Budget::seconds(60.0), analyses), seed, &mut stop);
    (compare(&experiment).expect("both variants"), began.elapsed().as_secs_f64())
}

fn work(length: f64, share: f64, times: f64) -> String {
    format!("{WORK} {length} {share} {times}")
}

/// B takes half as long again in 4 % of its runs: its mean is 2 % worse, its median equal.
fn worse_mean() {
    let tries = number("TRIES", 10);
    for by in [Estimator::Mean, Estimator::Median] {
        let (mut found, mut seconds) = (0, Vec::new());
        for attempt in 0..tries {
            let commands = [work(1.0, 0.0, 1.0), work(1.0, 0.04, 1.5)];
            let (compared, took) = within_a_minute(&commands, by, attempt as u64);
            found += usize::from(compared.others[0].verdict.answer == Answer::ABetter);
            seconds.push(took);
        }
        println!(
            "Mean 2 % worse, median equal: --by {by} found it in {found} of {tries} within 60 s (longest {:.0} s)",
            seconds.iter().copied().fold(0.0, f64::max)
        );
    }
}

/// B is 3 % faster, and five times slower in a fifth of its runs.
fn trade_off() {
    let tries = number("TRIES", 10);
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    for attempt in 0..tries {
        let commands = [work(1.0, 0.0, 1.0), work(0.97, 0.2, 5.0)];
        let (compared, _) = within_a_minute(&commands, Estimator::Median, attempt as u64);
        *answers.entry(format!("{:?}", compared.others[0].verdict.answer)).or_default() += 1;
    }
    println!("3 % faster, five times slower in a fifth of the runs: answers of {tries}: {answers:?}");
}

/// Stores sessions of a command and of one that takes 5 % longer, each beside other work that differs from session to
/// session, and compares five records with five others of the same and of the longer command.
fn sessions() {
    let (count, draws) = (number("SESSIONS", 40), number("TRIALS", 200));
    let directory = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::seed_from_u64(1);
    for session in 0..count {
        for (name, length) in [("same", 1.0), ("slower", 1.05)] {
            // Nothing, or work on half of the CPUs, in turns by chance.
            let _load = (rng.random::<f64>() < 0.5).then(OtherWork::start);
            let out = directory.path().join(format!("{name}-{session}"));
            let words = split_command(&work(length, 0.0, 1.0)).expect("a command");
            let mut command = manycore(directory.path());
            command.args(["compare", "--pairs", "60", "--quiet", "--out"]).arg(out).arg("--").args(words);
            assert!(command.output().expect("it runs").status.success());
        }
    }
    let mut same: Vec<String> = (0..count).map(|session| format!("same-{session}")).collect();
    let mut slower: Vec<String> = (0..count).map(|session| format!("slower-{session}")).collect();
    let (mut false_claims, mut found, mut wrong) = (0, 0, 0);
    for _ in 0..draws {
        same.shuffle(&mut rng);
        slower.shuffle(&mut rng);
        let claim = change(directory.path(), &same[..5], &same[5..10]);
        false_claims += usize::from(["worse", "better"].contains(&claim.as_str()));
        match change(directory.path(), &same[..5], &slower[..5]).as_str() {
            "worse" => found += 1,
            "better" => wrong += 1,
            _ => {}
        }
    }
    println!(
        "Stored records, five against five of {count} sessions with and without other work, of {draws}: claims for the \
         same command {false_claims}, 5 % longer found {found}, reported as faster {wrong}"
    );
}

fn manycore(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
    command.current_dir(directory).args(["--color", "never"]);
    command
}

/// Returns how the primary metric of stored records changed.
fn change(directory: &Path, old: &[String], new: &[String]) -> String {
    let mut command = manycore(directory);
    command.arg("compare").args(new).arg("--baseline").args(old).args(["--format", "json"]);
    let output = command.output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figures = json["figures"].as_array().expect("figures");
    let primary = figures.iter().find(|figure| figure["is_primary"] == true).expect("a primary metric");
    primary["change"].as_str().expect("a change").to_owned()
}
