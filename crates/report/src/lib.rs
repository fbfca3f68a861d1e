//! A record with its evaluation as text, JSON, CSV and an HTML page.
//!
//! `sections` turns evaluated records into tables, for one record or for several side by side. `record_text` and `html`
//! lay out the same tables; `html` adds the charts. `csv` writes all samples and all results for other programs.
//! Nothing in this crate measures or evaluates. The page is one file without scripts, fonts or pictures from
//! elsewhere.
//!
//! `compare`, `scale`, `tune`, `eval`, `bench`, `qos prove` and `spawn` all end in a record, and all are shown by
//! this crate.
#![forbid(unsafe_code)]

mod csv;
mod html;
mod importance;
mod record_text;
mod sections;

pub use csv::{NAMES as CSV_NAMES, csv};
pub use html::html;
pub use record_text::document;

use manycore_analysis::{Evaluation, differences::RecordDifferences};
use manycore_experiment::Record;
use manycore_stats::verdict::EQUIVALENCE_MARGIN;
use manycore_text::names::printable_json;
use serde::Serialize;
use serde_json::Value;

/// A record with its evaluation, and the name that distinguishes it in the report.
pub struct NamedEvaluation {
    /// Shown where several records are side by side.
    pub name: String,
    /// The measurements.
    pub record: Record,
    /// The evaluation of the record.
    pub evaluation: Evaluation,
}

impl NamedEvaluation {
    /// Evaluates `record`.
    pub fn new(name: String, record: Record) -> Self {
        let evaluation = Evaluation::from_record(&record);
        Self { name, record, evaluation }
    }
}

/// An evaluation as it is printed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrintedEvaluation<'a> {
    /// Name of the record's file.
    pub record: &'a str,
    /// The evaluation of the record.
    #[serde(flatten)]
    pub evaluation: &'a Evaluation,
    /// With several records: how this one differs from the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<RecordDifferences>,
}

/// Returns the evaluation as JSON: one object for one record, an array of objects for several, each with
/// the record's name as `record`.
pub fn json(all: &[NamedEvaluation]) -> String {
    let differences =
        |one: &NamedEvaluation| RecordDifferences::between(&all[0].record, &one.record, EQUIVALENCE_MARGIN);
    let object = |(index, one): (usize, &NamedEvaluation)| {
        let differences = (index > 0).then(|| differences(one));
        let printed = PrintedEvaluation { record: &one.name, evaluation: &one.evaluation, differences };
        serde_json::to_value(printed).unwrap_or_default()
    };
    let mut objects: Vec<Value> = all.iter().enumerate().map(object).collect();
    let value = if objects.len() == 1 { objects.remove(0) } else { objects.into() };
    printable_json(&format!("{value:#}\n"))
}
