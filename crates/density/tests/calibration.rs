//! The honesty of the search, on invented hosts of known density: how often its interval holds the truth, its error, and its
//! cost, beside the ways in which a density is usually found.
//!
//! `cargo test -p manycore-density calibration:: -- --nocapture` prints the tables.

use manycore_stats::largest_count::{LargestCount, Search, SearchOptions};
use manycore_testkit::hosts::InstanceHost;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// At most 10 % above the lone instance.
const FACTOR: f64 = 1.1;
const MOST: usize = 512;
const HOSTS: usize = 400;

/// How the logarithm of the ratio grows with the count, relative to the density.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// ln(1 + 0.1 xᵏ).
    Power(f64),
    /// In proportion.
    Linear,
    /// Almost none up to the density, then steep: a resource that saturates.
    Saturation,
}

/// A host with a given growth and noise.
struct CurveHost {
    density: f64,
    growth: Growth,
    noise: f64,
    /// The noise at the density, and beyond, over that of few instances.
    noise_growth: f64,
    random: Xoshiro256PlusPlus,
}

impl CurveHost {
    fn new(noise: f64, noise_growth: f64, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let density = (random.random::<f64>() * 500f64.ln()).exp();
        let growth = match random.random_range(0..3) {
            0 => Growth::Power(1.5 + 4.5 * random.random::<f64>()),
            1 => Growth::Linear,
            _ => Growth::Saturation,
        };
        Self { density, growth, noise, noise_growth, random }
    }

    fn truth(&self) -> usize {
        self.density as usize
    }

    fn sample(&mut self, count: usize) -> f64 {
        let x = count as f64 / self.density;
        let bound = FACTOR.ln();
        let value = match self.growth {
            Growth::Power(k) => (1.0 + (FACTOR - 1.0) * x.powf(k)).ln(),
            Growth::Linear => bound * x,
            Growth::Saturation if x <= 1.0 => 0.02 * x,
            Growth::Saturation => bound + 0.01 + 0.6 * (x - 1.0),
        };
        let growth = 1.0 + (self.noise_growth - 1.0) * x.min(1.0);
        value + self.noise * growth * self.student()
    }

    /// A random number with the tails of Student's t with four degrees of freedom, and variance 1.
    fn student(&mut self) -> f64 {
        let mut normal = || {
            let radius = (-2.0 * (1.0 - self.random.random::<f64>()).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.random.random::<f64>()).cos()
        };
        let squares: f64 = (0..4).map(|_| normal().powi(2)).sum();
        normal() / (squares / 4.0).sqrt() / 2f64.sqrt()
    }
}

/// What a way of searching found on many hosts.
#[derive(Default)]
struct Tally {
    held: usize,
    /// Errors of the estimates, where there is one.
    errors: Vec<f64>,
    samples: Vec<f64>,
    widths: Vec<f64>,
    /// The truth, and the ends of the interval.
    ranges: Vec<(f64, f64, f64)>,
    /// Counts visited, above 2 log2(density) + 4.
    excess: f64,
}

impl Tally {
    fn add(&mut self, truth: usize, density: LargestCount, samples: usize, counts: usize) {
        let LargestCount { estimate, low, high } = density;
        self.held += usize::from(low <= truth && high.is_none_or(|high| truth <= high));
        let high_end = high.map_or(f64::INFINITY, |high| high as f64);
        self.ranges.push((truth as f64, low as f64, high_end));
        let error = estimate.map(|estimate| estimate.abs_diff(truth));
        // One instance more or less is no error.
        let error = error.map(|error| if error <= 1 { 0.0 } else { error as f64 / truth.max(1) as f64 });
        self.errors.extend(error);
        self.samples.push(samples as f64);
        self.widths.extend(high.map(|high| high as f64 / low.max(1) as f64));
        self.excess = self.excess.max(counts as f64 - 2.0 * (truth.max(1) as f64).log2() - 4.0);
    }

    /// Returns how often the interval of the difference of two hosts holds theirs, from the lower end of the one less the upper
    /// end of the other to the reverse.
    fn differences_held(&self) -> f64 {
        let holds = |pair: &&[(f64, f64, f64)]| {
            let (a, b) = (pair[0], pair[1]);
            (b.1 - a.2..=b.2 - a.1).contains(&(b.0 - a.0))
        };
        let pairs = self.ranges.chunks_exact(2);
        pairs.clone().filter(holds).count() as f64 / pairs.len() as f64
    }

    fn held(&self) -> f64 {
        self.held as f64 / self.ranges.len() as f64
    }
}

fn quantile(values: &[f64], q: f64) -> f64 {
    manycore_stats::quantile(values, q).unwrap_or(f64::NAN)
}

fn print(title: &str, tally: &Tally) {
    println!(
        "{title:44} held {:5.1} %  found {:5.1} %  error {:4.1} % (90 %: {:4.1})  samples {:3.0} (90 %: {:3.0})  width {:4.2}x  \
         counts beyond 2 log2(N) + 4: {:+.1}",
        100.0 * tally.held(),
        100.0 * tally.errors.len() as f64 / tally.ranges.len() as f64,
        100.0 * quantile(&tally.errors, 0.5),
        100.0 * quantile(&tally.errors, 0.9),
        quantile(&tally.samples, 0.5),
        quantile(&tally.samples, 0.9),
        quantile(&tally.widths, 0.5),
        tally.excess
    );
}

fn search(samples: usize, mut sample: impl FnMut(usize) -> f64) -> Search {
    let mut search = Search::new(SearchOptions { bound: FACTOR.ln(), first: 2, most: MOST, samples });
    while let Some(count) = search.next_count() {
        let value = sample(count);
        search.add(count, value);
    }
    search
}

fn on_curves(noise: f64, noise_growth: f64, limit: usize) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..HOSTS {
        let mut host = CurveHost::new(noise, noise_growth, seed as u64);
        let found = search(limit, |count| host.sample(count));
        tally.add(host.truth(), found.answer(), found.samples(), found.visits().len());
    }
    tally
}

#[test]
fn the_interval_holds_the_truth_on_curves_of_any_kind() {
    for noise in [0.02, 0.05, 0.1] {
        for limit in [60, 1000] {
            let tally = on_curves(noise, 1.0, limit);
            print(&format!("search, {:.0} % noise, up to {limit} samples", 100.0 * noise), &tally);
            assert!(tally.held() >= 0.95 && tally.differences_held() >= 0.95, "{}", tally.differences_held());
            assert!(tally.samples.iter().all(|&samples| samples <= limit as f64));
            if noise == 0.02 && limit == 60 {
                assert!(quantile(&tally.errors, 0.5) <= 0.03 && tally.excess <= 0.0);
            }
        }
    }
}

#[test]
fn the_interval_holds_the_truth_where_the_noise_grows_with_the_count() {
    for growth in [2.0, 5.0] {
        for limit in [60, 1000] {
            let tally = on_curves(0.02, growth, limit);
            let title = format!("search, 2 to {:.0} % noise, up to {limit} samples", 2.0 * growth);
            print(&title, &tally);
            assert!(tally.held() >= 0.95 && tally.differences_held() >= 0.93, "{}", tally.differences_held());
        }
    }
}

#[test]
fn the_interval_holds_the_truth_on_hosts_with_queues() {
    let mut tally = Tally::default();
    for seed in 0..60 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1000 + seed);
        let cpus = [8, 32, 64, 128, 320][random.random_range(0..5)];
        let load = 0.2 + 0.4 * random.random::<f64>();
        let bandwidth = cpus as f64 * (0.2 + 2.0 * random.random::<f64>());
        let mut host = InstanceHost::new(cpus, load, 0.6 * random.random::<f64>(), bandwidth, seed);
        let truth = host.true_density(FACTOR, MOST);
        let found = search(60, |count| (host.p99(count) / host.p99(1)).ln());
        tally.add(truth, found.answer(), found.samples(), found.visits().len());
    }
    print("search, queues, up to 60 samples", &tally);
    assert!(tally.held() >= 0.95);
}

/// The usual ways, for comparison: their errors, without an interval.
#[test]
fn the_usual_ways_answer_too_low_and_do_not_say_how_wrong_they_may_be() {
    for noise in [0.02, 0.05] {
        let (mut linear, mut bisection) = (Tally::default(), Tally::default());
        for seed in 0..HOSTS {
            let mut host = CurveHost::new(noise, 1.0, seed as u64);
            let above = (2..=MOST).find(|&count| host.sample(count) > FACTOR.ln()).unwrap_or(MOST + 1);
            linear.add(host.truth(), exactly(above - 1), above - 1, above - 1);
            let (mut low, mut high, mut visited) = (1, MOST + 1, 0);
            while high - low > 1 {
                let middle = usize::midpoint(low, high);
                visited += 1;
                if host.sample(middle) > FACTOR.ln() { high = middle } else { low = middle }
            }
            bisection.add(host.truth(), exactly(low), visited, visited);
        }
        print(&format!("one more until above, {:.0} % noise", 100.0 * noise), &linear);
        print(&format!("bisection, one sample each, {:.0} % noise", 100.0 * noise), &bisection);
        let ours = on_curves(noise, 1.0, 1000);
        assert!(quantile(&ours.errors, 0.9) < quantile(&bisection.errors, 0.9));
        assert!(quantile(&ours.errors, 0.9) < quantile(&linear.errors, 0.9));
        assert!(linear.held() < 0.7 && bisection.held() < 0.7);
    }
}

/// A way that says one number.
fn exactly(density: usize) -> LargestCount {
    LargestCount { estimate: Some(density), low: density, high: Some(density) }
}
