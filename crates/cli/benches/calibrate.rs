//! Calibration on this machine: the false-positive rate of `compare` between identical commands, its power
//! for injected slow-downs, and the width of its intervals, with the results of hyperfine for the same
//! commands at the same time and with the same budget.
//!
//! Usage: `calibrate [PART...]` with the parts `quiet`, `busy`, `5%`, `2%`, `1%`, `equivalence`, `reached`,
//! `load`, `width`, `cost`; all of them by default. `TRIALS` sets the number of A/A trials (200), `TRIES`
//! the number of trials of each injected slow-down (10).
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use common::{hyperfine, number, other_work::OtherWork};
use manycore_analysis::{VariantComparison, compare, is_conclusive_enough};
use manycore_experiment::{
    counters::CounterReader,
    engine::{Budget, ExperimentSpec, Rng, Subject, run},
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::{Experiment, Method, Treatment},
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_linux::clock::now_ns;
use manycore_stats::{
    median, quantile,
    verdict::{Answer, Verdict},
};
use manycore_study::{
    analyses_for, split_command,
    subject::{CommandSubject, RunSettings, Variant},
};
use manycore_text::units::percent;
use manycore_workload::LoadKind;
use rand::SeedableRng;
use std::{
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

/// Events of a command that takes about 20 ms, most of it work.
const SHORT: u64 = 27;

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("quiet") {
        false_positives("quiet");
    }
    if wanted("busy") {
        let _other_work = OtherWork::start();
        false_positives("with other work");
    }
    for (part, slower) in [("5%", 0.05), ("2%", 0.02), ("1%", 0.01)] {
        if wanted(part) {
            power(slower);
        }
    }
    if wanted("equivalence") {
        let _other_work = OtherWork::start();
        equivalence_errors();
    }
    if wanted("reached") {
        let _other_work = OtherWork::start();
        attained_power();
    }
    if wanted("load") {
        load();
    }
    if wanted("width") {
        let _other_work = OtherWork::start();
        width("about 50 ms", 80, 20.0);
        width("about 1 s", 1_750, 60.0);
    }
    if wanted("cost") {
        cost();
    }
}

/// Returns a command of one sysbench thread that does `events` and ends.
fn sysbench(events: u64) -> String {
    format!("sysbench cpu --threads=1 --time=0 --cpu-max-prime=10000 --events={events} run")
}

fn subject(variants: Vec<Variant>) -> CommandSubject {
    let counter_reader = Rc::new(CounterReader::new(&common::machine()));
    CommandSubject::new(variants, RunSettings::default(), None, counter_reader, now_ns()).expect("a subject")
}

/// Runs what `manycore compare` runs with these commands and this budget.
fn compare_commands(a: &str, b: &str, budget: Budget, seed: u64, early: bool) -> VariantComparison {
    let variant = |line: &str| Variant {
        command: split_command(line).expect("a command"),
        copies: 1,
        ..Variant::default()
    };
    let mut subject = subject(vec![variant(a), variant(b)]);
    let pair: f64 = (0..2).map(|side| subject.measure(side).expect("it runs").wall_ns as f64 / 1e9).sum();
    let analyses = if early { analyses_for(budget.seconds / pair, 1) } else { 1 };
    judged(&mut subject, budget, analyses, seed)
}

fn judged(subject: &mut CommandSubject, budget: Budget, analyses: usize, seed: u64) -> VariantComparison {
    let metrics = subject.metrics();
    let spec = ExperimentSpec { metrics, analyses, ..spec(budget, Method::WholeRun) };
    let mut stop = |experiment: &Experiment| is_conclusive_enough(experiment, None);
    let (experiment, ending) = run(spec, subject, &mut Rng::seed_from_u64(seed), &mut stop, &mut |_| {});
    ending.expect("it is measured to its end");
    of_b(&experiment)
}

fn of_b(experiment: &Experiment) -> VariantComparison {
    compare(experiment).expect("both variants").others.remove(0)
}

fn spec(budget: Budget, method: Method) -> ExperimentSpec {
    let treatment = |side: &str| Treatment {
        name: side.to_owned(),
        workers: 1,
        factors: BTreeMap::from([("variant".to_owned(), side.to_owned())]),
        latency: None,
    };
    let treatments = ["A", "B"].map(treatment).to_vec();
    ExperimentSpec { treatments, budget, ..ExperimentSpec::new("compare", method, "runs") }
}

fn our_width(verdict: &Verdict) -> Option<f64> {
    verdict.interval.map(|(low, high)| (high - low) / verdict.ratio)
}

/// Runs A/A trials of both programs, interleaved.
fn false_positives(name: &str) {
    const PAIRS: usize = 30;
    let trials = number("TRIALS", 200);
    let line = sysbench(SHORT);
    let budget = Budget { seconds: f64::MAX, min_blocks: PAIRS, max_blocks: PAIRS };
    let (mut claimed, mut equivalent, mut covered, mut theirs, mut held) = (0, 0, 0, 0, 0);
    for trial in 0..trials {
        // Three interim analyses, as in a budget of this many pairs.
        let side =
            Variant { command: split_command(&line).expect("a command"), copies: 1, ..Variant::default() };
        let mut subject = subject(vec![side.clone(), side]);
        for side in 0..2 {
            subject.measure(side).expect("it runs");
        }
        let comparison = judged(&mut subject, budget, 3, trial as u64);
        let verdict = &comparison.verdict;
        claimed += usize::from(verdict.is_different());
        equivalent += usize::from(verdict.answer == Answer::Equivalent);
        covered += usize::from(verdict.interval.is_some_and(|(low, high)| low <= 1.0 && high >= 1.0));
        if let Some(bars) = hyperfine::times(&line, &line, verdict.pairs) {
            theirs += usize::from(hyperfine::apart(bars));
            held += 1;
        }
    }
    println!(
        "A/A, {name}: compare claimed a difference in {claimed} of {trials} ({}), equivalence in {equivalent}; its \
         interval contained 1 in {covered}; hyperfine's bars did not overlap in {theirs} of {held}",
        percent(claimed as f64 / trials as f64)
    );
}

/// Measures how often a slow-down of a one-thread command is found within a minute.
fn power(slower: f64) {
    // About 150 ms, nearly all of it work.
    const EVENTS: u64 = 300;
    let tries = number("TRIES", 10);
    let (a, b) = (sysbench(EVENTS), sysbench(EVENTS + (slower * EVENTS as f64).round() as u64));
    let (mut found, mut apart_too, mut held, mut seconds, mut ratios) = (0, 0, 0, Vec::new(), Vec::new());
    for attempt in 0..tries {
        let began = Instant::now();
        let comparison = compare_commands(&a, &b, Budget::seconds(60.0), attempt as u64, true);
        seconds.push(began.elapsed().as_secs_f64());
        found += usize::from(comparison.verdict.answer == Answer::ABetter);
        ratios.push(comparison.verdict.ratio);
        // Bars of one standard deviation do not narrow with more runs.
        if let Some(bars) = hyperfine::times(&a, &b, comparison.verdict.pairs.min(30)) {
            apart_too += usize::from(hyperfine::apart(bars));
            held += 1;
        }
    }
    println!(
        "{} slower command: found in {found} of {tries} within 60 s (median {:.0} s, longest {:.0} s; ratio {:.4}); \
         hyperfine's bars did not overlap in {apart_too} of {held}",
        percent(slower),
        median(&seconds).unwrap_or(f64::NAN),
        quantile(&seconds, 1.0).unwrap_or(f64::NAN),
        median(&ratios).unwrap_or(f64::NAN),
    );
}

/// Compares `pairs` pairs of a command and one that does `slower` more work, with three interim analyses.
fn pairs_of(slower: f64, events: u64, pairs: usize, seed: u64) -> VariantComparison {
    let more = events + (slower * events as f64).round() as u64;
    let variant = |events| Variant {
        command: split_command(&sysbench(events)).expect("a command"),
        copies: 1,
        ..Variant::default()
    };
    let mut subject = subject(vec![variant(events), variant(more)]);
    for side in 0..2 {
        subject.measure(side).expect("it runs");
    }
    let budget = Budget { seconds: f64::MAX, min_blocks: pairs, max_blocks: pairs };
    judged(&mut subject, budget, analyses_for(pairs as f64, 1), seed)
}

/// Measures how often commands that differ by more than the margin are called equivalent while other work
/// runs: by 50 % in 12 pairs, and by 5 % in 36 pairs.
fn equivalence_errors() {
    let trials = number("TRIALS", 200) / 4;
    for (slower, pairs) in [(0.5, 12), (0.05, 36)] {
        let (mut equivalent, mut slower_found, mut faster) = (0, 0, 0);
        for trial in 0..trials {
            match pairs_of(slower, 4 * SHORT, pairs, trial as u64).verdict.answer {
                Answer::Equivalent => equivalent += 1,
                Answer::ABetter => slower_found += 1,
                Answer::BBetter => faster += 1,
                Answer::Inconclusive | Answer::TradeOff => {}
            }
        }
        println!(
            "{} slower command, {pairs} pairs with other work: equivalent in {equivalent} of {trials}, slower in \
             {slower_found}, faster in {faster}",
            percent(slower)
        );
    }
}

/// Measures how often a slow-down as large as the minimum detectable effect of a preceding A/A run is
/// found; 80 % are expected.
fn attained_power() {
    const PAIRS: usize = 36;
    const EVENTS: u64 = 400;
    let trials = number("TRIALS", 200) / 4;
    let (mut found, mut effects) = (0, Vec::new());
    for trial in 0..trials as u64 {
        let Some(effect) = pairs_of(0.0, EVENTS, PAIRS, trial).minimum_detectable_effect else { continue };
        let judged = pairs_of(effect, EVENTS, PAIRS, trial + 1_000_000);
        found += usize::from(judged.verdict.answer == Answer::ABetter);
        effects.push(effect);
    }
    println!(
        "minimum detectable effect of {PAIRS} pairs with other work: {} (median), found in {found} of {} ({}; \
         80 % are expected)",
        percent(median(&effects).unwrap_or(f64::NAN)),
        effects.len(),
        percent(found as f64 / effects.len() as f64)
    );
}

/// Measures how often a slow-down of 1 % of a built-in load is found in 20 s of slices: chains with 1 %
/// more additions that count as the same work.
fn load() {
    let tries = number("TRIES", 10);
    let counter_reader = Rc::new(CounterReader::new(&common::machine()));
    let cpus = manycore_linux::affinity::allowed().expect("an affinity");
    let mut found = 0;
    let mut ratios = Vec::new();
    for attempt in 0..tries {
        let trial = |parameter: u64| Trial {
            orders: vec![WorkerOrder {
                worker: 0,
                cpus: cpus.clone(),
                parameter,
                ticks: 0,
                expected_cpu: None,
            }],
            servers: Vec::new(),
            unit_per_tick: 1.0,
        };
        let (slice, settling_time) = (Duration::from_millis(50), Duration::from_millis(2));
        let pool = WorkerPool::start(LoadKind::Sum, 1, 0).expect("a worker");
        // Sums of 10,000 and of 10,100 numbers.
        let trials = vec![trial(10_000), trial(10_100)];
        let mut live = PoolSubject::new(
            pool,
            Rc::clone(&counter_reader),
            SamplingMode::Slices { slice, settling_time },
            trials,
            now_ns(),
        );
        let method = Method::Slices { slice_ns: 50_000_000, settle_ns: 2_000_000 };
        let mut rng = Rng::seed_from_u64(attempt as u64);
        let (experiment, ending) =
            run(spec(Budget::seconds(20.0), method), &mut live, &mut rng, &mut |_| false, &mut |_| {});
        ending.expect("it is measured to its end");
        let comparison = of_b(&experiment);
        found += usize::from(comparison.verdict.answer == Answer::ABetter);
        ratios.push(comparison.verdict.ratio);
    }
    println!(
        "1 % slower built-in load: found in {found} of {tries} in 20 s (ratio {:.4})",
        median(&ratios).unwrap_or(f64::NAN)
    );
}

/// Measures the width of the intervals of the ratio while other work runs, at equal budget.
fn width(name: &str, events: u64, seconds: f64) {
    let line = sysbench(events);
    let mut shares = Vec::new();
    for repeat in 0..3 {
        let comparison = compare_commands(&line, &line, Budget::seconds(seconds), repeat, false);
        let bars = hyperfine::times(&line, &line, comparison.verdict.pairs);
        if let Some((our, bars)) = our_width(&comparison.verdict).zip(bars) {
            println!(
                "  {name}: {} pairs, width {}, hyperfine's {}",
                comparison.verdict.pairs,
                percent(our),
                percent(hyperfine::width(bars))
            );
            shares.push(our / hyperfine::width(bars));
        }
    }
    match median(&shares) {
        Some(share) => println!(
            "interval of commands of {name} with other work: {share:.2} of hyperfine's width ({:.2} to {:.2})",
            quantile(&shares, 0.0).unwrap_or(f64::NAN),
            quantile(&shares, 1.0).unwrap_or(f64::NAN)
        ),
        None => println!("SKIPPED: hyperfine is not installed (Debian: apt install hyperfine)"),
    }
}

/// Measures this program's own CPU time while a command runs, as a share of one CPU: with threads pinned to
/// one CPU each, which costs most.
fn cost() {
    let cpus = manycore_linux::affinity::allowed().expect("an affinity");
    let line = format!("sysbench cpu --threads={} --time=5 run", cpus.len());
    let place = manycore_control::placement::WorkerCpus {
        workers: cpus.iter().map(manycore_topology::CpuSet::single).collect(),
        memory: manycore_linux::memory_policy::MemoryPolicy::Default,
    };
    let side =
        Variant { command: split_command(&line).expect("a command"), copies: 1, place, ..Variant::default() };
    let mut subject = subject(vec![side]);
    let own = || manycore_linux::clock::process_cpu_ns(std::process::id()).unwrap_or(0);
    let shares: Vec<f64> = (0..3)
        .map(|_| {
            let (before, began) = (own(), now_ns());
            subject.measure(0).expect("it runs");
            (own() - before) as f64 / (now_ns() - began) as f64
        })
        .collect();
    println!(
        "own CPU time while a pinned command runs: {} of one CPU",
        percent(median(&shares).unwrap_or(f64::NAN))
    );
}
