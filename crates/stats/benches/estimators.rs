//! Calibration of the estimators by simulation: how often identical variants are reported as different, how often a
//! worse mean is found, and how often a trade-off is seen. It prints figures and asserts nothing; it takes seconds of
//! pure computation.
//!
//! Usage: `estimators [TRIALS]`; 200 trials by default.

use manycore_stats::{
    Estimator, WorseTail, holm_divisors, interim_level,
    verdict::{Answer, DecisionRule, Verdict},
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{hint::black_box, time::Instant};

type Rng = Xoshiro256PlusPlus;

/// The noise of a run and its name.
type Noise = (&'static str, fn(&mut Rng) -> f64);

/// Kinds of noise: times of runs whose typical value is 1.
const NOISES: [Noise; 5] = [
    ("normal 5 %", |rng| 1.0 + 0.05 * normal(rng)),
    ("lognormal 0.5", |rng| (0.5 * normal(rng)).exp()),
    ("heavy tails (t3, 5 %)", |rng| (0.05 * student3(rng)).exp()),
    ("a fifth 5 times slower", |rng| mixture(rng, 0.2, 5.0)),
    ("2 % 20 times slower", |rng| mixture(rng, 0.02, 20.0)),
];

/// The number of planned interim analyses.
const ANALYSES: usize = 3;

fn main() {
    let trials = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(200);
    false_claims(trials);
    worse_means(trials);
    trade_offs(trials);
    coverage(trials * 5);
    cost();
}

/// Prints a line for each noise, with a cell for each estimator with its number of pairs. Each cell has the same runs.
fn print_lines<const N: usize>(
    cases: [(Estimator, usize); N],
    seed: u64,
    cell: impl Fn(Estimator, usize, fn(&mut Rng) -> f64, &mut Rng) -> String,
) {
    for (name, noise) in NOISES {
        let cells = cases.map(|(estimator, pairs)| {
            let figure = cell(estimator, pairs, noise, &mut Rng::seed_from_u64(seed));
            format!("{estimator} ({pairs} pairs) {figure}")
        });
        println!("  {name}: {}", cells.join(", "));
    }
}

/// How often any of five identical variants is reported as different, as times and as rates.
fn false_claims(trials: usize) {
    let cases = [
        (Estimator::Median, 60),
        (Estimator::Mean, 60),
        (Estimator::P90, 300),
        (Estimator::P99, 3_200),
        (Estimator::Max, 400),
    ];
    for (what, worse) in [("times", WorseTail::Upper), ("rates", WorseTail::Lower)] {
        println!(
            "False claims about {what}: any of five identical variants against the first, three analyses, of {trials}"
        );
        print_lines(cases, 1, |estimator, pairs, noise, rng| {
            let trials = if estimator == Estimator::P99 { trials.min(200) } else { trials };
            let claimed = (0..trials).filter(|_| any_claim(estimator, pairs, noise, worse, rng));
            claimed.count().to_string()
        });
    }
}

/// Five variants in blocks; a share of the noise is common to a block, as neighbours in time have it.
fn any_claim(
    estimator: Estimator,
    pairs: usize,
    noise: fn(&mut Rng) -> f64,
    worse: WorseTail,
    rng: &mut Rng,
) -> bool {
    let value = |time: f64| if worse == WorseTail::Upper { time } else { 1.0 / time };
    let blocks: Vec<[f64; 5]> = (0..pairs)
        .map(|_| {
            let common = (0.02 * normal(rng)).exp();
            [(); 5].map(|()| value(common * noise(rng)))
        })
        .collect();
    (1..=ANALYSES).any(|which| {
        let so_far = &blocks[..pairs * which / ANALYSES];
        let p: Vec<f64> = (1..5)
            .map(|variant| {
                let pairs: Vec<(f64, f64)> = so_far.iter().map(|block| (block[0], block[variant])).collect();
                estimator.p(&pairs, worse)
            })
            .collect();
        let level = interim_level(which, ANALYSES);
        holm_divisors(&p, level).iter().zip(&p).any(|(divisor, p)| p * *divisor as f64 <= level)
    })
}

/// A mean that is 2 % worse with an equal median: 4 % of the runs of B take half as long again.
fn worse_means(trials: usize) {
    let slow = |rng: &mut Rng| if rng.random::<f64>() < 0.04 { 1.5 } else { 1.0 };
    println!(
        "Means 2 % worse, medians equal (4 % of the runs take 1.5 times as long, noise 2 %): found of {trials}"
    );
    for pairs in [120, 300, 600, 1_200] {
        let found = |estimator| {
            let mut rng = Rng::seed_from_u64(2);
            let is_found = |_: &usize| {
                let pairs: Vec<(f64, f64)> =
                    (0..pairs).map(|_| (noisy(&mut rng), slow(&mut rng) * noisy(&mut rng))).collect();
                decided(estimator, &pairs).is_some_and(|verdict| verdict.answer == Answer::ABetter)
            };
            (0..trials).filter(is_found).count()
        };
        println!("  {pairs} pairs: mean {}, median {}", found(Estimator::Mean), found(Estimator::Median));
    }
}

/// B is 3 % faster, and a fifth of its runs take five times as long.
fn trade_offs(trials: usize) {
    println!("3 % faster, five times slower in a fifth of the runs: of {trials}");
    for count in [36, 60, 100, 200] {
        let mut rng = Rng::seed_from_u64(3);
        let (mut faster, mut mean_worse) = (0, 0);
        for _ in 0..trials {
            let pairs: Vec<(f64, f64)> = (0..count)
                .map(|_| {
                    let b = if rng.random::<f64>() < 0.2 { 4.85 } else { 0.97 };
                    (noisy(&mut rng), b * noisy(&mut rng))
                })
                .collect();
            let of =
                |estimator| Verdict::by(estimator, &pairs, WorseTail::Upper, DecisionRule::default(), None);
            let is = |estimator, answer| of(estimator).is_some_and(|verdict| verdict.answer == answer);
            faster += usize::from(is(Estimator::Median, Answer::BBetter));
            mean_worse += usize::from(is(Estimator::Mean, Answer::ABetter));
        }
        println!("  {count} pairs: median better {faster}, mean worse {mean_worse}");
    }
}

/// How often the interval of the ratio of two identical distributions contains 1, at 95 %.
fn coverage(trials: usize) {
    println!("Intervals of 95 % that contain the ratio, of {trials}");
    let cases = [
        (Estimator::Mean, 12),
        (Estimator::Mean, 50),
        (Estimator::P90, 40),
        (Estimator::P95, 100),
        (Estimator::P99, 400),
        (Estimator::Max, 100),
    ];
    print_lines(cases, 4, |estimator, count, noise, rng| {
        covered(trials, estimator, count, [noise, noise], rng)
    });
    println!("The same of means that are equal, of A with normal noise of 5 % and of another B");
    print_lines(
        [(Estimator::Mean, 12), (Estimator::Mean, 50), (Estimator::Mean, 300)],
        5,
        |estimator, count, noise, rng| covered(trials, estimator, count, [NOISES[0].1, noise], rng),
    );
}

/// Returns the share of intervals that contain the ratio of the means of two noises.
fn covered(
    trials: usize,
    estimator: Estimator,
    count: usize,
    noises: [fn(&mut Rng) -> f64; 2],
    rng: &mut Rng,
) -> String {
    let [a, b] = noises.map(true_mean);
    let covered = (0..trials).filter(|_| {
        let pairs: Vec<(f64, f64)> = (0..count).map(|_| (noises[0](rng) / a, noises[1](rng) / b)).collect();
        let ratio = estimator.log_ratio(&pairs, WorseTail::Upper, 0.05);
        ratio.and_then(|ratio| ratio.interval).is_some_and(|(low, high)| low <= 0.0 && 0.0 <= high)
    });
    format!("{:.3}", covered.count() as f64 / trials as f64)
}

/// Returns the mean of a noise to about 0.1 %.
fn true_mean(noise: fn(&mut Rng) -> f64) -> f64 {
    let mut rng = Rng::seed_from_u64(6);
    let count = 1_000_000;
    (0..count).map(|_| noise(&mut rng)).sum::<f64>() / f64::from(count)
}

/// Prints the time of one interval with its p-value.
fn cost() {
    println!("Milliseconds of an interval with its p-value");
    print_lines(
        [(Estimator::Median, 1_000), (Estimator::Mean, 1_000), (Estimator::P99, 1_000)],
        7,
        |estimator, count, noise, rng| {
            let pairs: Vec<(f64, f64)> = (0..count).map(|_| (noise(rng), noise(rng))).collect();
            let (start, repeats) = (Instant::now(), 20);
            for _ in 0..repeats {
                black_box(Verdict::by(
                    estimator,
                    black_box(&pairs),
                    WorseTail::Upper,
                    DecisionRule::default(),
                    None,
                ));
            }
            format!("{:.2}", start.elapsed().as_secs_f64() * 1e3 / f64::from(repeats))
        },
    );
}

/// The verdict at the first of three analyses that gives one, or at the last.
fn decided(estimator: Estimator, pairs: &[(f64, f64)]) -> Option<Verdict> {
    let verdicts = (1..=ANALYSES).filter_map(|which| {
        let so_far = &pairs[..pairs.len() * which / ANALYSES];
        Verdict::by(estimator, so_far, WorseTail::Upper, DecisionRule::at_analysis(which, ANALYSES), None)
    });
    let mut last = None;
    for verdict in verdicts {
        let is_decided = verdict.answer != Answer::Inconclusive;
        last = Some(verdict);
        if is_decided {
            break;
        }
    }
    last
}

/// A time of 1 with noise of 2 %.
fn noisy(rng: &mut Rng) -> f64 {
    (0.02 * normal(rng)).exp()
}

fn mixture(rng: &mut Rng, share: f64, factor: f64) -> f64 {
    let slow = if rng.random::<f64>() < share { factor } else { 1.0 };
    slow * noisy(rng)
}

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()
}

fn student3(rng: &mut Rng) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / (squares / 3.0).sqrt()
}
