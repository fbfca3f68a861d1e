//! The planned power is reached in four of five simulated runs, for several distributions of noise.

use super::*;
use manycore_stats::{Estimate, FAMILY_LEVEL};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

type Rng = Xoshiro256PlusPlus;
type Draw = fn(&mut Rng) -> f64;

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Distributions of noise with unit scale: normal, heavy tails (Student's with three degrees of freedom),
/// bimodal, and skewed.
const NOISES: [(&str, Draw); 4] = [
    ("normal", normal),
    ("t3", |rng| {
        let square: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
        normal(rng) / (square / 3.0).sqrt()
    }),
    ("bimodal", |rng| if rng.random::<bool>() { 0.8 } else { -0.8 } + 0.4 * normal(rng)),
    ("skewed", |rng| -rng.random::<f64>().ln() + rng.random::<f64>().ln() * 0.5),
];

/// Noise whose pseudo-median is 0, because effects are measured by the pseudo-median.
struct Noise {
    draw: Draw,
    centre: f64,
}

impl Noise {
    fn new(draw: Draw) -> Self {
        let mut rng = Rng::seed_from_u64(9);
        let many: Vec<f64> = (0..20_000).map(|_| draw(&mut rng)).collect();
        Self { draw, centre: Estimate::from_differences(&many, FAMILY_LEVEL).unwrap().median }
    }

    fn pairs(&self, (effect, sd): (f64, f64), count: usize, rng: &mut Rng) -> Vec<f64> {
        (0..count).map(|_| effect + sd * ((self.draw)(rng) - self.centre)).collect()
    }
}

/// Returns the verdict with which a run with the usual interim analyses ends.
fn run(pairs: &[f64], analyses: usize) -> Verdict {
    let at = |which: usize| {
        let so_far = &pairs[..pairs.len() * which / analyses];
        Verdict::new(so_far, DecisionRule::at_analysis(which, analyses), None).unwrap()
    };
    (1..analyses)
        .map(at)
        .find(|verdict| verdict.answer != Answer::Inconclusive)
        .unwrap_or_else(|| at(analyses))
}

#[test]
fn the_detectable_difference_is_found_in_four_of_five_runs() {
    let mut wrong = 0;
    for (name, noise) in NOISES {
        let noise = Noise::new(noise);
        for (count, analyses, sd) in [(12, 1, 0.05), (36, 3, 0.05), (36, 3, 0.4), (150, 3, 0.05)] {
            let mut rng = Rng::seed_from_u64(1);
            let found = (0..600)
                .filter(|_| {
                    let first = run(&noise.pairs((0.0, sd), count, &mut rng), analyses);
                    let effect = minimum_detectable_effect(&first).unwrap().ln_1p();
                    run(&noise.pairs((effect, sd), count, &mut rng), analyses).answer == Answer::BBetter
                })
                .count();
            let share = found as f64 / 600.0;
            println!("detectable: {name}, {count} pairs, {analyses} analyses: {share:.2}");
            // At most 0.93: otherwise the detectable effect is overestimated. With 150 pairs the margin is
            // the effect.
            let most = if count == 150 { 1.0 } else { 0.93 };
            wrong += usize::from(!(0.75..=most).contains(&share));
        }
    }
    assert_eq!(wrong, 0);
}

#[test]
fn as_many_pairs_as_advised_give_an_answer_in_four_of_five_runs() {
    let mut wrong = 0;
    for (name, noise) in NOISES {
        let noise = Noise::new(noise);
        for (effect, sd, count) in [
            (0.0, 0.05, 36),
            (0.01, 0.05, 36),
            (0.02, 0.05, 36),
            (0.05, 0.2, 36),
            (0.1, 0.2, 12),
            (0.4, 0.6, 12),
        ] {
            let mut rng = Rng::seed_from_u64(2);
            let analyses = if count < 36 { 1 } else { 3 };
            let advised = (0..1000)
                .filter_map(|_| pairs_needed(&run(&noise.pairs((effect, sd), count, &mut rng), analyses)))
                .take(100);
            let advised: Vec<usize> = advised.collect();
            let answered = advised
                .iter()
                .filter(|&&count| {
                    run(&noise.pairs((effect, sd), count, &mut rng), 3).answer != Answer::Inconclusive
                })
                .count();
            let share = answered as f64 / advised.len() as f64;
            println!(
                "pairs: {name}, effect {effect}, sd {sd}, {count} pairs: {share:.2} of {}",
                advised.len()
            );
            wrong += usize::from(share < 0.76);
        }
    }
    assert_eq!(wrong, 0);
}
