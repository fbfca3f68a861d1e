//! What the records of a fleet show.
//!
//! Values are compared as natural logarithms. A `deficit` is the share by which a node is slower than the median of its
//! kind: 0.05 means that it does 5 % less work in the same time, or takes 5 % longer, whichever the figure states.
//! Negative deficits are those of faster nodes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`FleetEvaluation::schema`].
pub const FLEET_SCHEMA: &str = "manycore/fleet/1";

/// What the records of a fleet show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetEvaluation {
    /// Always [`FLEET_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = FLEET_SCHEMA)))]
    pub schema: String,
    /// Level of false discoveries: the expected share of wrong ones among the pairs of node and figure that are called slow.
    pub false_discovery_level: f64,
    /// The least deficit that counts as slow, as a share.
    pub least_deficit: f64,
    /// Kinds of nodes, the largest first.
    pub kinds: Vec<Kind>,
    /// The nodes with a record, by [`Kind`] and then by name.
    pub nodes: Vec<Node>,
    /// Nodes without a usable record: down, late, failed, another schema.
    pub missing: Vec<MissingNode>,
    /// Properties that differ between nodes of one kind, those that separate slow nodes first.
    pub drift: Vec<Drift>,
    /// Changes of nodes over dated runs. Empty without earlier runs.
    pub changes: Vec<Change>,
    /// When the runs began that were searched for changes, RFC 3339, ascending. Empty without earlier runs, or with too few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dated_runs: Vec<String>,
}

impl FleetEvaluation {
    /// Returns the kinds whose nodes were judged.
    pub fn judged_kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|kind| kind.not_judged.is_none())
    }

    /// Returns the least and the largest deficit, as shares, from which a node is called slow by a figure; `None` if no figure
    /// can show a slow node.
    pub fn detectable(&self) -> Option<(f64, f64)> {
        let all = self.judged_kinds().flat_map(|kind| &kind.figures).filter_map(|one| one.detectable);
        let known = all.filter(|share| share.is_finite());
        known.map(|share| (share, share)).reduce(|(low, high), (one, _)| (low.min(one), high.max(one)))
    }
}

/// Nodes that are compared with each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kind {
    /// What they have in common, in words: `AMD EPYC 9654, 192 CPUs, 768 GiB, Linux 6.8.0, microcode 0xa101148`.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Figures that were measured on at least two of its nodes.
    pub figures: Vec<KindFigure>,
    /// Why its nodes cannot be judged, in words: `3 nodes are too few: at least 4 are needed`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_judged: Option<String>,
    /// Whether the distribution of its figures is that of a kind of an earlier evaluation.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub from_baseline: bool,
    /// The most frequent value of each property that most of its nodes report; those of the earlier kind where it is judged
    /// against one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub properties: BTreeMap<String, String>,
}

/// A figure over the nodes of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindFigure {
    /// Section of the report of a node: `matrix`, `stream`, `latency`.
    pub topic: String,
    /// What was measured: `product, 2000 on all cores`. Unique in the kind. `stream as a whole` is the mean of all figures of
    /// the section, each relative to the centre of its kind.
    pub what: String,
    /// Unit of the values.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// What a unit of work is, in words. Nodes that measured another one lack the figure. Often empty.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub work: String,
    /// Number of nodes with the figure: of the earlier evaluation where the kind is judged against one.
    pub nodes: usize,
    /// Robust centre over the nodes, in `unit`: close to their median.
    pub median: f64,
    /// Robust standard deviation between nodes, without the scatter within them, as a share.
    pub spread: f64,
    /// The median standard error of a node, as a share.
    pub node_error: f64,
    /// Factor by which standard errors of nodes were reduced to that, because values scatter less than samples say: at most 1. 0
    /// counts as 1.
    #[serde(default)]
    pub error_factor: f64,
    /// The deficit from which a node with that error is called slow, as a share. `None` where no deficit would be, or
    /// only one above 10 (1,000 %).
    pub detectable: Option<f64>,
}

/// How a node compares with those of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is slower than its kind, beyond what chance explains.
    Slow,
    /// It may be slow: its own scatter is too wide to tell. To be measured again.
    Inconclusive,
    /// Slowness that would matter is excluded as far as its kind allows.
    #[default]
    Typical,
    /// It is faster than its kind, beyond what chance explains.
    Fast,
    /// Too few nodes of its kind.
    NotJudged,
}

/// A node with a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Its name in the fleet, printable.
    pub name: String,
    /// Index into [`FleetEvaluation::kinds`].
    pub kind: usize,
    /// Start of its measurement, RFC 3339.
    pub started: String,
    /// The worst verdict of its figures: one that is slow makes the node slow.
    pub verdict: Verdict,
    /// The mean deficit over its figures, sections as a whole excepted, as a share: the order of the ranking.
    pub mean_deficit: f64,
    /// Its figures, in the order of [`Kind::figures`]; `None` where it lacks one.
    pub figures: Vec<Option<NodeFigure>>,
    /// What may explain that it is slow, in words, the strongest first: `sysbench used 1.9 CPUs during the measurement`. Only
    /// what differs from the nodes that are not slow.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub causes: Vec<String>,
    /// Properties, by name: `governor` = `performance`.
    pub properties: BTreeMap<String, String>,
    /// The page of its record, relative to the folder of the fleet, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub page: Option<String>,
}

/// A figure of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeFigure {
    /// Median of its samples, in the unit of the figure.
    pub value: f64,
    /// Share by which it is slower than the median of its kind.
    pub deficit: f64,
    /// 95 % interval of the deficit, from the scatter within the node and the error of the median.
    pub interval: (f64, f64),
    /// Two-sided p-value of the deficit, against the scatter between nodes and within the node.
    pub p: f64,
    /// How it compares.
    pub verdict: Verdict,
}

/// A node without a usable record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingNode {
    /// Its name, printable.
    pub name: String,
    /// What happened, in one word: `down`, `late`, `failed`, `unreachable`, `unreadable`, `interrupted`.
    pub state: String,
    /// Why, in words.
    pub why: String,
}

/// A property that is not the same on all nodes of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// Index into [`FleetEvaluation::kinds`].
    pub kind: usize,
    /// Name of the property: `governor`.
    pub property: String,
    /// Its values and the nodes that have each, the most frequent first. Nodes are indices into [`FleetEvaluation::nodes`].
    pub values: Vec<(String, Vec<usize>)>,
    /// p-value of the most extreme split of slow and other nodes by one value (Fisher's exact test). `None` without slow nodes.
    pub slow_p: Option<f64>,
}

/// A change of a figure of a node from one run to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Name of the node; empty for the median of all nodes of the kind.
    pub node: String,
    /// Name of the kind, without what updates change: the kernel and the microcode.
    pub kind: String,
    /// [`KindFigure::what`].
    pub what: String,
    /// Start of the last run before the change and of the first after it, RFC 3339.
    pub between: (String, String),
    /// Share by which it is slower afterwards; negative where it is faster.
    pub deficit: f64,
    /// 95 % interval of the deficit.
    pub interval: (f64, f64),
    /// p-value, corrected for the choice of the moment.
    pub p: f64,
    /// Properties that changed at the same moment: name, before, after.
    pub properties: Vec<(String, String, String)>,
}
