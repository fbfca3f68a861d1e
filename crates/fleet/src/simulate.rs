//! Invented fleets, of which it is known what is slow: for tests, examples and measurements of the evaluation.
//!
//! The scatter within a node is given per sample. That between nodes is an assumption, because one machine does not show
//! it: a part that all figures of a section share, and a part of each figure.

use crate::evaluation::{FleetEvaluation, Verdict};
use crate::figures::{MeasuredFigure, NodeRecord};
use crate::properties::SizeFacts;
use crate::reference;
use crate::robust::Spread;
use crate::signs::Signs;
use manycore_analysis::differences::RecordFigure;
use manycore_experiment::record::Direction;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

/// How healthy nodes differ from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Noise {
    /// Normal in logarithms.
    #[default]
    Normal,
    /// Student's t with 4 degrees of freedom, with the same standard deviation.
    HeavyTailed,
    /// Exponential towards slow, with the same standard deviation.
    Skewed,
}

/// A figure that all nodes have.
#[derive(Clone, Copy, Debug)]
pub struct InventedFigure {
    /// Section of the report.
    pub topic: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Direction,
    /// Typical value.
    pub typical: f64,
    /// Standard deviation of the logarithm of a sample within a node.
    pub within: f64,
    /// Number of samples of a node.
    pub samples: usize,
}

/// An invented fleet.
#[derive(Clone, Debug)]
pub struct FleetPlan {
    /// Number of nodes, all of one kind.
    pub nodes: usize,
    /// Number of slow nodes among them: the first ones.
    pub slow: usize,
    /// Share by which all figures of one section of a slow node are slower; the sections alternate.
    pub deficit: f64,
    /// Standard deviation between healthy nodes: the part that the figures of a section share, and that of each figure.
    pub between: (f64, f64),
    /// Its distribution.
    pub noise: Noise,
    /// Share of nodes whose samples scatter four times as much.
    pub noisy: f64,
    /// Whether slow nodes have a reason that shows: another governor, a process, steal time.
    pub reasons: bool,
    /// The figures.
    pub figures: Vec<InventedFigure>,
    /// Seed.
    pub seed: u64,
}

impl Default for FleetPlan {
    fn default() -> Self {
        Self {
            nodes: 100,
            slow: 0,
            deficit: 0.05,
            between: (0.005, 0.005),
            noise: Noise::Normal,
            noisy: 0.0,
            reasons: false,
            figures: standard_figures(),
            seed: 1,
        }
    }
}

/// Returns the figures of `eval --standard --only matrix,stream,latency`.
pub fn standard_figures() -> Vec<InventedFigure> {
    figures_of(&STANDARD)
}

/// Returns those of `eval --quick --only matrix,stream,latency`.
pub fn quick_figures() -> Vec<InventedFigure> {
    figures_of(&QUICK)
}

/// Samples and scatter of the sections.
struct Budget {
    matrix: (f64, usize),
    stream: (f64, usize),
    latency: (f64, usize),
}

/// The numbers of samples are those of a record of `--standard`. The scatter of a sample is 1.4 % for latency in that record;
/// for the others it is what slices and runs of a second showed on an otherwise idle machine, 0.5 to 1 %, rounded up.
const STANDARD: Budget = Budget { matrix: (0.01, 2), stream: (0.02, 13), latency: (0.014, 20) };
const QUICK: Budget = Budget { matrix: (0.01, 2), stream: (0.02, 6), latency: (0.014, 11) };

fn figures_of(budget: &Budget) -> Vec<InventedFigure> {
    let matrix = [
        ("product, 1000 on one core", 4.6e10),
        ("product, 2000 on one core", 5e10),
        ("product, 1000 on all cores", 1.9e12),
        ("product, 2000 on all cores", 2.4e12),
    ];
    let stream = [
        ("bandwidth, copy, ordinary, 64", 2.9e11),
        ("bandwidth, scale, ordinary, 64", 2.8e11),
        ("bandwidth, add, ordinary, 64", 3.1e11),
        ("bandwidth, triad, ordinary, 64", 3.1e11),
        ("bandwidth, triad, non-temporal, 64", 3.6e11),
        ("bandwidth, read, 64", 3.8e11),
        ("bandwidth, read, 1", 2.1e10),
        ("bandwidth between nodes, node 0 to 1", 1.2e11),
    ];
    let latency = [("latency, llc", 28.0), ("latency, package", 96.0), ("latency, machine", 210.0)];
    let one = |topic, unit, better, (within, samples)| {
        move |&(what, typical): &(&'static str, f64)| InventedFigure {
            topic,
            what,
            unit,
            better,
            typical,
            within,
            samples,
        }
    };
    let matrix = matrix.iter().map(one("matrix", "flop/s", Direction::Higher, budget.matrix));
    let stream = stream.iter().map(one("stream", "bytes/s", Direction::Higher, budget.stream));
    let latency = latency.iter().map(one("latency", "ns", Direction::Lower, budget.latency));
    matrix.chain(stream).chain(latency).collect()
}

/// Returns a normal random number (Box and Muller).
pub fn normal(rng: &mut impl RngExt) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()
}

impl Noise {
    /// Returns how much slower a healthy node is, with a standard deviation of 1.
    fn draw(self, rng: &mut impl RngExt) -> f64 {
        match self {
            Self::Normal => normal(rng),
            Self::HeavyTailed => {
                let squares: f64 = (0..4).map(|_| normal(rng).powi(2)).sum();
                normal(rng) / (squares / 4.0).sqrt() / std::f64::consts::SQRT_2
            }
            Self::Skewed => -(1.0 - rng.random::<f64>()).ln() - 1.0,
        }
    }
}

impl FleetPlan {
    /// Returns the records. Node `n00000` is the first.
    pub fn records(&self) -> Vec<NodeRecord> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        (0..self.nodes).map(|index| self.record(index, &mut rng)).collect()
    }

    /// Returns the names of the slow nodes.
    pub fn slow_names(&self) -> BTreeSet<String> {
        (0..self.slow).map(name).collect()
    }

    fn topics(&self) -> Vec<&'static str> {
        let mut topics: Vec<&str> = self.figures.iter().map(|figure| figure.topic).collect();
        topics.dedup();
        topics
    }

    fn record(&self, index: usize, rng: &mut Xoshiro256PlusPlus) -> NodeRecord {
        let topics = self.topics();
        let slow_topic = (index < self.slow && !topics.is_empty()).then(|| topics[index % topics.len()]);
        let noisy = if rng.random::<f64>() < self.noisy { 4.0 } else { 1.0 };
        let shared: Vec<f64> = topics.iter().map(|_| self.between.0 * self.noise.draw(rng)).collect();
        let mut figures = Vec::with_capacity(self.figures.len());
        for figure in &self.figures {
            let of_topic =
                topics.iter().position(|topic| *topic == figure.topic).map_or(0.0, |at| shared[at]);
            let mut slowness = of_topic + self.between.1 * self.noise.draw(rng);
            if slow_topic == Some(figure.topic) {
                slowness += match figure.better {
                    Direction::Higher => -(-self.deficit).ln_1p(),
                    Direction::Lower => self.deficit.ln_1p(),
                };
            }
            figures.push(measured(figure, slowness, noisy, rng));
        }
        let mut record = NodeRecord {
            name: name(index),
            started: "2026-11-20T08:00:00Z".to_owned(),
            page: None,
            figures,
            properties: properties(),
            sizes: SizeFacts {
                memory: Some((768 << 30) - (rng.random::<u64>() % (8 << 20))),
                ..SizeFacts::default()
            },
            signs: Signs { cpus: 64.0, steal: Some(0.0), other_work: Some(0.002), ..Signs::default() },
        };
        if self.reasons && index < self.slow {
            give_reason(&mut record, index);
        }
        record
    }
}

/// Returns the name of an invented node.
pub fn name(index: usize) -> String {
    format!("n{index:05}")
}

fn measured(
    figure: &InventedFigure,
    slowness: f64,
    noisy: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> MeasuredFigure {
    let sign = if figure.better == Direction::Higher { -1.0 } else { 1.0 };
    let values = (0..figure.samples.max(1))
        .map(|_| figure.typical * (sign * (slowness + noisy * figure.within * normal(rng))).exp())
        .collect();
    let figure = RecordFigure {
        topic: figure.topic,
        what: figure.what.to_owned(),
        unit: figure.unit.to_owned(),
        better: figure.better,
        work: String::new(),
        values,
    };
    crate::figures::measured(&figure).unwrap_or_default()
}

fn properties() -> std::collections::BTreeMap<String, String> {
    [
        (crate::properties::CPU_MODEL, "AMD EPYC 9354 32-Core Processor"),
        (crate::properties::CPUS, "64"),
        (crate::properties::KERNEL, "6.8.0-48-generic"),
        (crate::properties::MICROCODE, "0xa101148"),
        ("governor", "performance"),
        ("thp", "madvise"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn give_reason(record: &mut NodeRecord, index: usize) {
    match index % 3 {
        0 => drop(record.properties.insert("governor".to_owned(), "powersave".to_owned())),
        1 => record.signs.processes = vec![("stress-ng".to_owned(), 1.9)],
        _ => record.signs.steal = Some(0.06),
    }
}

/// What an evaluation found of an invented fleet, counted by nodes and by pairs of node and figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Share of wrong ones among the pairs that are called slow; 0 where none is.
    pub false_pairs: f64,
    /// Share of wrong ones among the nodes that are called slow; 0 where none is.
    pub false_nodes: f64,
    /// Share of the slow nodes that are called slow. 1 without slow nodes.
    pub found: f64,
    /// Share of all nodes that are inconclusive.
    pub inconclusive: f64,
}

impl FleetPlan {
    /// Compares an evaluation with the truth.
    pub fn outcome(&self, evaluation: &FleetEvaluation) -> Outcome {
        let slow = self.slow_names();
        let topics = self.topics();
        let mut wrong = [0_usize; 2];
        let mut called = [0_usize; 2];
        let mut inconclusive = 0;
        for node in &evaluation.nodes {
            let index: usize = node.name[1..].parse().unwrap_or(usize::MAX);
            let is_slow = slow.contains(&node.name);
            let kind = &evaluation.kinds[node.kind];
            for (figure, known) in kind.figures.iter().zip(&node.figures) {
                if known.is_some_and(|known| known.verdict == Verdict::Slow) {
                    called[0] += 1;
                    let is_right = is_slow && topics[index % topics.len()] == figure.topic;
                    wrong[0] += usize::from(!is_right);
                }
            }
            called[1] += usize::from(node.verdict == Verdict::Slow);
            wrong[1] += usize::from(node.verdict == Verdict::Slow && !is_slow);
            inconclusive += usize::from(node.verdict == Verdict::Inconclusive);
        }
        let share =
            |part: usize, whole: usize, none: f64| if whole == 0 { none } else { part as f64 / whole as f64 };
        Outcome {
            false_pairs: share(wrong[0], called[0], 0.0),
            false_nodes: share(wrong[1], called[1], 0.0),
            found: share(called[1] - wrong[1], slow.len(), 1.0),
            inconclusive: share(inconclusive, evaluation.nodes.len(), 0.0),
        }
    }

    /// Returns the outcome of the usual rule on the same records: a node is slow where one of its figures is worse than the
    /// mean minus two standard deviations over all nodes.
    pub fn outcome_of_two_sigma(&self, records: &[NodeRecord]) -> Outcome {
        let slow = self.slow_names();
        let topics = self.topics();
        let (mut called, mut wrong) = ([0_usize; 2], [0_usize; 2]);
        let mut slow_nodes: BTreeSet<usize> = BTreeSet::new();
        for (at, figure) in self.figures.iter().enumerate() {
            let values: Vec<f64> = records.iter().map(|record| record.figures[at].value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            let sd = (squares / (values.len() as f64 - 1.0)).sqrt();
            let sign = if figure.better == Direction::Higher { -1.0 } else { 1.0 };
            for (node, value) in
                values.iter().enumerate().filter(|(_, value)| sign * (*value - mean) > 2.0 * sd)
            {
                let _ = value;
                called[0] += 1;
                wrong[0] += usize::from(node >= self.slow || topics[node % topics.len()] != figure.topic);
                slow_nodes.insert(node);
            }
        }
        called[1] = slow_nodes.len();
        wrong[1] = slow_nodes.iter().filter(|&&node| node >= self.slow).count();
        let share =
            |part: usize, whole: usize, none: f64| if whole == 0 { none } else { part as f64 / whole as f64 };
        Outcome {
            false_pairs: share(wrong[0], called[0], 0.0),
            false_nodes: share(wrong[1], called[1], 0.0),
            found: share(called[1] - wrong[1], slow.len(), 1.0),
            inconclusive: 0.0,
        }
    }
}

/// Returns the absolute standardised values of healthy fleets with normal scatter, before the factor of the reference
/// distribution: for its calibration.
pub fn standardised(nodes: usize, fleets: usize, seed: u64) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let errors = vec![0.003; nodes];
    let mut all = Vec::with_capacity(nodes * fleets);
    for _ in 0..fleets {
        let values: Vec<f64> = (0..nodes).map(|_| 0.01 * normal(&mut rng)).collect();
        let spread = Spread::fit(&values, &errors);
        let standard = |value: &f64| ((value - spread.centre) / spread.deviation(0.003)).abs();
        all.extend(values.iter().map(standard));
    }
    all
}

/// Returns the absolute standardised value that a healthy node of a kind of so many exceeds with the probability `p`.
pub fn reference_critical(nodes: usize, p: f64) -> f64 {
    reference::Reference::of(nodes).critical(p)
}
