//! A record reduced to what a fleet needs of it: 10,000 whole records would not fit into memory.

use crate::properties::{self, SizeFacts};
use crate::sections::is_section;
use crate::signs::Signs;
use manycore_analysis::differences::{RecordFigure, record_figures};
use manycore_experiment::{Record, record::Direction};
use manycore_text::names::printable;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of figures of a node. A standard record has about 30.
const MAX_FIGURES: usize = 512;

/// Maximum number of characters of a name, a unit or a value that is kept.
pub(crate) const MAX_TEXT: usize = 160;

/// What a fleet keeps of the record of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRecord {
    /// Name in the fleet, printable.
    pub name: String,
    /// Start of its measurement, RFC 3339.
    pub started: String,
    /// The page of its record, relative to the folder of the fleet. The caller sets it where there is one.
    pub page: Option<String>,
    /// Its figures, in the order of the record.
    pub figures: Vec<MeasuredFigure>,
    /// Properties by name: `governor` = `performance`. Those that the machine does not report are absent.
    pub properties: BTreeMap<String, String>,
    /// Sizes and flags that become properties once those of the other nodes are known.
    pub sizes: SizeFacts,
    /// What else happened on the node during the measurement.
    pub signs: Signs,
}

/// A figure of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredFigure {
    /// Section of the report: `matrix`, `stream`, `latency`.
    pub topic: String,
    /// What was measured: `product, 2000 on all cores`.
    pub what: String,
    /// Unit of the value.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// What a unit of work is, in words; values of different work are not compared. Often empty.
    pub work: String,
    /// Median of the samples, in `unit`; positive and finite.
    pub value: f64,
    /// Variance of the logarithm of the median, from the scatter of its samples, and its degrees of freedom. `None` where
    /// there is a single sample.
    pub within: Option<(f64, f64)>,
}

impl NodeRecord {
    /// Reduces the record of the node `name`. The record must have passed [`Record::check`].
    pub fn from_record(name: &str, record: &Record) -> Self {
        let figures = record_figures(record);
        let mut properties = properties::of_record(record);
        for figure in figures.iter().filter(|figure| !figure.work.is_empty()) {
            properties.insert(format!("work of {}", figure.topic), shown(&figure.work));
        }
        let mut known = BTreeSet::new();
        // A figure counts once, so that no node outvotes the others.
        let is_first = |one: &MeasuredFigure| {
            known.insert((one.topic.clone(), one.what.clone(), one.unit.clone(), one.higher_is_better))
        };
        Self {
            name: shown(name),
            started: shown(&record.started),
            page: None,
            figures: figures.iter().filter_map(measured).filter(is_first).take(MAX_FIGURES).collect(),
            properties,
            sizes: SizeFacts::of_record(record),
            signs: Signs::of_record(record),
        }
    }
}

/// Returns a text from a node as it may be shown, without its end where it is long.
pub(crate) fn shown(text: &str) -> String {
    let start: String = text.chars().take(MAX_TEXT).collect();
    printable(&start)
}

/// `None` where the median is not positive: it has no logarithm. Also for a name that a section as a whole has.
pub(crate) fn measured(figure: &RecordFigure) -> Option<MeasuredFigure> {
    let median = figure.median()?;
    let value = median.value.exp();
    let usable = |(variance, freedom): &(f64, f64)| variance.is_finite() && *freedom > 0.0;
    let is_comparable = manycore_stats::median(&figure.values)? > 0.0 && value.is_finite();
    (is_comparable && !is_section(figure.topic, &figure.what)).then(|| MeasuredFigure {
        topic: figure.topic.to_owned(),
        what: shown(&figure.what),
        unit: shown(&figure.unit),
        higher_is_better: figure.better == Direction::Higher,
        work: shown(&figure.work),
        value,
        within: median.within.filter(usable),
    })
}
