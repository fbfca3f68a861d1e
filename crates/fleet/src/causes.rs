//! What may explain that a node is slow. Only what differs from the nodes of its kind that are not slow is evidence.

use crate::evaluation::{Kind, Node, Verdict};
use crate::kinds::UNKNOWN;
use crate::signs::Signs;
use manycore_text::units::{bytes, gigahertz, percent};
use std::collections::BTreeMap;

/// Least number of other nodes to differ from.
const LEAST_OTHERS: usize = 3;

/// Number of other nodes from which one of twenty of them may have the same sign.
const MANY: usize = 20;

/// Maximum number of causes of a node.
const MAX_CAUSES: usize = 8;

/// Properties of the measurement and not of the node: they are no causes.
const OF_MEASUREMENT: [&str; 2] = ["budget", "manycore"];

/// A sign with a number: its evidence is a value that the other nodes do not reach.
struct NumberSign {
    of: fn(&Signs) -> Option<f64>,
    /// Least value, and least difference from the others, that matters.
    least: f64,
    /// Whether small values are the sign.
    is_low: bool,
    /// Whether it costs speed whatever the other nodes show.
    stands_alone: bool,
    /// What is said of a value.
    words: fn(f64) -> String,
    /// How strong a value is, as the share of the node's speed that it may cost; also given the others' value.
    cost: fn(f64, f64) -> f64,
    /// How a value of the others is shown.
    show: fn(f64) -> String,
}

fn share(value: f64, _: f64) -> f64 {
    value
}

const NUMBERS: [NumberSign; 7] = [
    NumberSign {
        of: |signs| signs.throttled,
        least: 0.01,
        is_low: false,
        stands_alone: true,
        words: |value| format!("its control group was throttled for {} of the time", percent(value)),
        cost: share,
        show: percent,
    },
    NumberSign {
        of: |signs| signs.steal,
        least: 0.01,
        is_low: false,
        stands_alone: true,
        words: |value| format!("the hypervisor took {} of the CPU time (steal)", percent(value)),
        cost: share,
        show: percent,
    },
    NumberSign {
        of: |signs| signs.thermal_events,
        least: 1.0,
        is_low: false,
        stands_alone: true,
        words: |value| format!("{value:.0} thermal throttling events"),
        cost: |_, _| 0.2,
        show: |value| format!("{value:.0}"),
    },
    NumberSign {
        of: |signs| signs.frequency_khz,
        least: 20_000.0,
        is_low: true,
        stands_alone: false,
        words: |value| format!("its busy CPUs ran at {}", gigahertz(value as u64)),
        cost: |value, others| 1.0 - value / others,
        show: |value| gigahertz(value as u64),
    },
    NumberSign {
        of: |signs| signs.other_work,
        least: 0.02,
        is_low: false,
        stands_alone: true,
        words: |value| format!("other work took {} of the CPU time", percent(value)),
        // A process that used most of what the others do not have says more.
        cost: |value, others| (value - others) / 2.0,
        show: percent,
    },
    NumberSign {
        of: |signs| signs.pressure,
        least: 0.05,
        is_low: false,
        stands_alone: false,
        words: |value| format!("tasks waited for a CPU in {} of the time", percent(value)),
        cost: |value, _| 0.1 * value,
        show: percent,
    },
    NumberSign {
        of: |signs| signs.swap_bytes,
        least: (1_u64 << 30) as f64,
        is_low: false,
        stands_alone: false,
        words: |value| format!("{} of swap were in use", bytes(value as u64)),
        cost: |_, _| 0.01,
        show: |value| bytes(value as u64),
    },
];

/// What the nodes that are not slow show.
struct Others<'a> {
    signs: Vec<&'a Signs>,
    /// Number of nodes with each value of each property.
    properties: BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
    count: usize,
}

/// Returns the causes of each node of a kind, the strongest first. Empty for nodes that are not slow. `signs` has one entry
/// for each node.
pub(crate) fn causes(nodes: &[Node], signs: &[&Signs], kind: &Kind) -> Vec<Vec<String>> {
    let others = Others::of(nodes, signs);
    let of_node = |(node, signs): (&Node, &&Signs)| {
        if node.verdict != Verdict::Slow {
            return Vec::new();
        }
        let mut found = if others.count >= LEAST_OTHERS {
            [others.processes(signs), others.numbers(signs), others.properties(node)].concat()
        } else if kind.from_baseline {
            against_baseline(node, signs, kind)
        } else {
            Vec::new()
        };
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().take(MAX_CAUSES).map(|(_, words)| words).collect()
    };
    nodes.iter().zip(signs).map(of_node).collect()
}

impl<'a> Others<'a> {
    fn of(nodes: &'a [Node], signs: &[&'a Signs]) -> Self {
        let all: Vec<(&Node, &Signs)> = nodes
            .iter()
            .zip(signs.iter().copied())
            .filter(|(node, _)| matches!(node.verdict, Verdict::Typical | Verdict::Fast))
            .collect();
        let mut properties: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (name, value) in all.iter().flat_map(|(node, _)| &node.properties) {
            *properties.entry(name).or_default().entry(value).or_default() += 1;
        }
        Self { count: all.len(), signs: all.into_iter().map(|(_, signs)| signs).collect(), properties }
    }

    /// Returns what most of the others do not exceed, and which of them that are, in words.
    fn most(&self, of: impl Fn(&Signs) -> Option<f64>, is_low: bool) -> Option<(f64, &'static str)> {
        let mut values: Vec<f64> = self.signs.iter().filter_map(|signs| of(signs)).collect();
        values.sort_by(|a, b| if is_low { b.total_cmp(a) } else { a.total_cmp(b) });
        if values.len() < LEAST_OTHERS {
            return None;
        }
        let (rank, which) = if values.len() < MANY {
            (values.len() - 1, "on the nodes that are not slow")
        } else {
            ((values.len() - 1) * 19 / 20, "on 19 of 20 nodes that are not slow")
        };
        Some((values[rank], which))
    }

    fn processes(&self, signs: &Signs) -> Vec<(f64, String)> {
        let least = least_cpus(signs);
        let cause = |process: &(String, f64)| {
            let (name, cpus) = process;
            let (others, which) = self.most(|signs| Some(signs.process(name)), false)?;
            (*cpus >= least && *cpus > 1.5 * others + least).then(|| {
                (process_cost(process, signs), format!("{}; at most {others:.1} {which}", used(process)))
            })
        };
        signs.processes.iter().filter_map(cause).collect()
    }

    fn numbers(&self, signs: &Signs) -> Vec<(f64, String)> {
        let cause = |sign: &NumberSign| {
            let value = (sign.of)(signs).filter(|value| value.is_finite())?;
            let (others, which) = self.most(sign.of, sign.is_low)?;
            let differs = if sign.is_low {
                value < others - sign.least && value < 0.98 * others
            } else {
                value >= sign.least && value > 1.5 * others + sign.least / 2.0
            };
            let bound = if sign.is_low { "at least" } else { "at most" };
            differs.then(|| {
                let words = format!("{}; {bound} {} {which}", (sign.words)(value), (sign.show)(others));
                ((sign.cost)(value, others), words)
            })
        };
        NUMBERS.iter().filter_map(cause).collect()
    }

    /// Returns the properties of which the others agree on another value.
    fn properties(&self, node: &Node) -> Vec<(f64, String)> {
        let cause = |(name, values): (&&str, &BTreeMap<&str, usize>)| {
            let own = node.properties.get(*name).map_or(UNKNOWN, String::as_str);
            let known: usize = values.values().sum();
            let with =
                if own == UNKNOWN { self.count - known } else { values.get(own).copied().unwrap_or(0) };
            let (usual, count) = values.iter().max_by_key(|(_, count)| **count)?;
            let is_rare = with as f64 <= 0.05 * self.count as f64;
            let is_agreed = *count as f64 >= 0.8 * self.count as f64;
            (is_rare && is_agreed).then(|| {
                let words = format!(
                    "different {name}: {own}; {usual} on {count} of {} nodes that are not slow",
                    self.count
                );
                (property_cost(name), words)
            })
        };
        let of_node = self.properties.iter().filter(|(name, _)| !OF_MEASUREMENT.contains(name));
        of_node.filter_map(cause).collect()
    }
}

fn property_cost(name: &str) -> f64 {
    if name == "governor" { 0.2 } else { 0.02 }
}

/// Returns what is evidence without the other nodes, and the properties that most nodes of the baseline have not.
fn against_baseline(node: &Node, signs: &Signs, kind: &Kind) -> Vec<(f64, String)> {
    let least = least_cpus(signs);
    let processes = signs
        .processes
        .iter()
        .filter(|(_, cpus)| *cpus >= least)
        .map(|process| (process_cost(process, signs), used(process)));
    let numbers = NUMBERS.iter().filter(|sign| sign.stands_alone).filter_map(|sign| {
        let value = (sign.of)(signs).filter(|value| value.is_finite() && *value >= sign.least)?;
        Some(((sign.cost)(value, 0.0), (sign.words)(value)))
    });
    let of_node = kind.properties.iter().filter(|(name, _)| !OF_MEASUREMENT.contains(&name.as_str()));
    let differing = of_node.filter_map(|(name, usual)| {
        let own = node.properties.get(name)?;
        let words = || format!("different {name}: {own}; {usual} on most nodes of the baseline");
        (own != usual).then(|| (property_cost(name), words()))
    });
    processes.chain(numbers).chain(differing).collect()
}

/// Returns the CPU time of a process that may slow down a node, in CPUs.
fn least_cpus(signs: &Signs) -> f64 {
    f64::max(0.05, 0.002 * signs.cpus)
}

fn process_cost((_, cpus): &(String, f64), signs: &Signs) -> f64 {
    cpus / signs.cpus.max(1.0)
}

fn used((name, cpus): &(String, f64)) -> String {
    format!("{name} used {cpus:.1} CPUs during the measurement")
}
