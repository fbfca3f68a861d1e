//! A text file for the textfile collector of `node_exporter`. The collector refuses times on samples: when nodes were measured
//! is a metric of its own.

use super::view::figures;
use crate::evaluation::{FleetEvaluation, Node, Verdict};
use manycore_text::names::printable;
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

/// Most series of the text, apart from the counts.
pub const MAX_SERIES: usize = 20_000;

/// Longest value of a label, in characters.
const LABEL: usize = 120;

/// A family of gauges, as labels and values.
struct Family {
    name: &'static str,
    help: &'static str,
    series: Vec<(String, f64)>,
}

/// How many series there is room for, and how many were left out.
struct Budget {
    room: usize,
    omitted: usize,
}

/// Returns the metrics of an evaluation. Slow and inconclusive nodes come first: where there are more than [`MAX_SERIES`]
/// series, others are left out, and a metric says how many.
pub fn prometheus(evaluation: &FleetEvaluation) -> String {
    let nodes = ordered(evaluation);
    let mut budget = Budget { room: MAX_SERIES, omitted: 0 };
    let mut families = vec![counts(evaluation), last_measured(evaluation)];
    families.extend(per_node(evaluation, &nodes, &mut budget));
    families.push(Family {
        name: "manycore_fleet_omitted_series",
        help: "Series that are left out because there are too many.",
        series: vec![(String::new(), budget.omitted as f64)],
    });
    families.iter().map(Family::text).collect()
}

/// Returns the nodes, each name once: those that are slow first, then inconclusive ones.
fn ordered(evaluation: &FleetEvaluation) -> BTreeMap<(Verdict, String), &Node> {
    let mut names = HashSet::new();
    let mut nodes: Vec<(Verdict, String, &Node)> =
        evaluation.nodes.iter().map(|node| (node.verdict, value(&node.name), node)).collect();
    nodes.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    nodes.retain(|(_, name, _)| names.insert(name.clone()));
    nodes.into_iter().map(|(verdict, name, node)| ((verdict, name), node)).collect()
}

fn counts(evaluation: &FleetEvaluation) -> Family {
    let of = |verdict| evaluation.nodes.iter().filter(|node| node.verdict == verdict).count();
    let states = [
        ("slow", of(Verdict::Slow)),
        ("inconclusive", of(Verdict::Inconclusive)),
        ("typical", of(Verdict::Typical)),
        ("fast", of(Verdict::Fast)),
        ("not_judged", of(Verdict::NotJudged)),
        ("missing", evaluation.missing.len()),
    ];
    Family {
        name: "manycore_fleet_nodes",
        help: "Nodes by verdict; missing are those without a usable record.",
        series: states.map(|(state, count)| (format!("verdict=\"{state}\""), count as f64)).to_vec(),
    }
}

fn last_measured(evaluation: &FleetEvaluation) -> Family {
    let last = evaluation.nodes.iter().filter_map(|node| seconds(&node.started)).reduce(f64::max);
    Family {
        name: "manycore_fleet_last_measured_timestamp_seconds",
        help: "Start of the latest measurement of a node.",
        series: last.map(|time| (String::new(), time)).into_iter().collect(),
    }
}

fn per_node(
    evaluation: &FleetEvaluation,
    nodes: &BTreeMap<(Verdict, String), &Node>,
    budget: &mut Budget,
) -> Vec<Family> {
    let mut slow = Family::new(
        "manycore_fleet_node_slow",
        "1 for a node that is slower than its kind beyond chance, 0 for others.",
    );
    let mut measured =
        Family::new("manycore_fleet_node_measured_timestamp_seconds", "Start of the measurement of a node.");
    let mut deficit = Family::new(
        "manycore_fleet_node_deficit_ratio",
        "Share by which a node is slower than the median of its kind; negative where it is faster.",
    );
    let mut low = Family::new(
        "manycore_fleet_node_deficit_lower_ratio",
        "Lower end of the 95 % interval of the deficit.",
    );
    let mut deficits = |budget: &mut Budget, is_wanted: fn(Verdict) -> bool| {
        for ((_, name), node) in nodes.iter().filter(|((verdict, _), _)| is_wanted(*verdict)) {
            // Long names are shortened, and may be the same then: a series that is there twice makes the file unreadable.
            let mut seen = HashSet::new();
            for (figure, one) in figures(evaluation, node) {
                let (topic, what) = (value(&figure.topic), value(&figure.what));
                let labels = format!("node=\"{name}\",topic=\"{topic}\",figure=\"{what}\"");
                if seen.insert(labels.clone()) {
                    deficit.push(budget, labels.clone(), one.deficit);
                    low.push(budget, labels, one.interval.0);
                }
            }
        }
    };
    let is_flagged = |verdict| matches!(verdict, Verdict::Slow | Verdict::Inconclusive);
    // What matters most gets its room first.
    for (verdict, name) in nodes.keys() {
        slow.push(budget, format!("node=\"{name}\""), f64::from(u8::from(*verdict == Verdict::Slow)));
    }
    deficits(budget, is_flagged);
    for ((_, name), node) in nodes {
        if let Some(time) = seconds(&node.started) {
            measured.push(budget, format!("node=\"{name}\""), time);
        }
    }
    deficits(budget, |verdict| !matches!(verdict, Verdict::Slow | Verdict::Inconclusive));
    vec![slow, measured, deficit, low]
}

impl Family {
    fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, series: Vec::new() }
    }

    /// Adds a series while there is room. Values that are no numbers are dropped.
    fn push(&mut self, budget: &mut Budget, labels: String, value: f64) {
        if !value.is_finite() {
            return;
        }
        if budget.room == 0 {
            budget.omitted += 1;
            return;
        }
        budget.room -= 1;
        self.series.push((labels, value));
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.series.is_empty() {
            return text;
        }
        let _infallible = writeln!(text, "# HELP {} {}\n# TYPE {0} gauge", self.name, self.help);
        for (labels, value) in &self.series {
            let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _infallible = writeln!(text, "{}{labels} {value}", self.name);
        }
        text
    }
}

/// Escapes the value of a label.
fn value(text: &str) -> String {
    let short: String = printable(text).chars().take(LABEL).collect();
    short.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns a time of RFC 3339 as seconds since 1970.
fn seconds(time: &str) -> Option<f64> {
    let time: SystemTime = humantime::parse_rfc3339_weak(time).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
}
