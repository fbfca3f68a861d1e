//! How often sessions of different days are reported as different: `cargo run --release --example sessions`.
//!
//! A session has a value of its own, which scatters from day to day, and samples around it. Printed are the rates of
//! false claims for the same build, and of slow-downs of 5 % that are found.

use manycore_stats::sessions::{KnownSpread, SessionDifference, SessionValue};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;

const RUNS: usize = 5_000;
const LEVEL: f64 = 0.05;
/// Standard deviation of a session's median from the scatter of its samples.
const WITHIN: f64 = 0.005;

/// Noise with a standard deviation of 1.
type Noise = fn(&mut Rng) -> f64;

fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

/// Student's t with five degrees of freedom.
fn heavy(rng: &mut Rng) -> f64 {
    let squares: f64 = (0..5).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / (squares / 5.0).sqrt() * (3.0_f64 / 5.0).sqrt()
}

/// One session in five is slow.
fn bimodal(rng: &mut Rng) -> f64 {
    if rng.random::<f64>() < 0.2 { 2.0 } else { -0.5 }
}

fn skewed(rng: &mut Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() - 1.0
}

fn sessions(rng: &mut Rng, count: usize, shift: f64, sd: f64, noise: Noise) -> Vec<SessionValue> {
    let one = |_| SessionValue {
        value: shift + sd * noise(rng) + WITHIN * normal(rng),
        within: Some((WITHIN * WITHIN, 11.0)),
        speed: None,
    };
    (0..count).map(one).collect()
}

/// Makes sessions of which the speed of the machine explains four fifths of the variance.
fn sessions_with_speed(rng: &mut Rng, shift: f64, sd: f64, noise: Noise) -> Vec<SessionValue> {
    let one = |_| {
        let speed = sd * 0.8_f64.sqrt() * noise(rng);
        let value = shift + speed + sd * 0.2_f64.sqrt() * noise(rng) + WITHIN * normal(rng);
        SessionValue { value, within: Some((WITHIN * WITHIN, 11.0)), speed: Some(speed) }
    };
    (0..5).map(one).collect()
}

/// Returns the share of runs in which a difference of five and five such sessions is claimed.
fn claimed_at_same_speed(shift: f64, sd: f64, noise: Noise) -> f64 {
    let mut rng = Rng::seed_from_u64(1);
    let different = (0..RUNS).filter(|_| {
        let sides = [0.0, shift].map(|shift| sessions_with_speed(&mut rng, shift, sd, noise));
        let found = SessionDifference::between(&sides[0], &sides[1], None);
        found.map(|found| found.interval(LEVEL)).is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    });
    different.count() as f64 / RUNS as f64
}

/// Returns the share of runs in which a difference is claimed; `earlier` sessions of the same work are known.
fn claimed(counts: [usize; 2], earlier: usize, shift: f64, sd: f64, noise: Noise) -> f64 {
    let mut rng = Rng::seed_from_u64(1);
    let different = (0..RUNS).filter(|_| {
        let history: Vec<f64> =
            sessions(&mut rng, earlier, 0.0, sd, noise).iter().map(|session| session.value).collect();
        let first = sessions(&mut rng, counts[0], 0.0, sd, noise);
        let second = sessions(&mut rng, counts[1], shift, sd, noise);
        let known = KnownSpread::of_groups([history.as_slice()]);
        let found = SessionDifference::between(&first, &second, known);
        found.map(|found| found.interval(LEVEL)).is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    });
    different.count() as f64 / RUNS as f64
}

fn main() {
    let kinds: [(&str, Noise); 4] =
        [("normal", normal), ("heavy tails", heavy), ("bimodal", bimodal), ("skewed", skewed)];
    let designs = [([5, 5], 0), ([3, 3], 0), ([2, 2], 0), ([1, 5], 0), ([1, 1], 8), ([1, 1], 0)];
    println!("sessions   earlier  scatter  noise        false claims  5 % slower found");
    for (counts, earlier) in designs {
        for sd in [0.01, 0.018, 0.02, 0.05] {
            for (name, noise) in kinds {
                let rate = |shift: f64| claimed(counts, earlier, shift, sd, noise) * 100.0;
                println!(
                    "{} and {}    {earlier}        {:.1} %    {name:<12} {:>6.1} %      {:>6.1} %",
                    counts[0],
                    counts[1],
                    sd * 100.0,
                    rate(0.0),
                    rate(1.05_f64.ln())
                );
            }
        }
    }
    for sd in [0.01, 0.02, 0.03, 0.05] {
        for (name, noise) in kinds {
            let rate = |shift: f64| claimed_at_same_speed(shift, sd, noise) * 100.0;
            println!(
                "5 and 5 at the same speed  {:.1} %    {name:<12} {:>6.1} %      {:>6.1} %",
                sd * 100.0,
                rate(0.0),
                rate(1.05_f64.ln())
            );
        }
    }
}
