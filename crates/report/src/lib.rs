//! A record with its evaluation as text, JSON, CSV and an HTML page.
//!
//! `sections` turns evaluated records into tables, for one record or for several side by side. `record_text` and `html`
//! lay out the same tables; `html` adds the charts. `csv` writes all samples and all results for other programs.
//! Nothing in this crate measures or evaluates. The page is one file without scripts, fonts or pictures from
//! elsewhere.
//!
//! `compare`, `scale`, `tune`, `eval`, `bench`, `qos prove` and `spawn` all end in a record, and all are shown by
//! this crate.

mod csv;
mod html;
mod record_text;
mod sections;

pub use csv::{NAMES as CSV_NAMES, csv};
pub use html::html;
pub use record_text::text;

use manycore_analysis::Evaluation;
use manycore_experiment::Record;
use manycore_text::names::printable_json;
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
        let evaluation = Evaluation::of(&record);
        Self { name, record, evaluation }
    }
}

/// Returns the evaluation as JSON: one object for one record, an array of objects for several, each with
/// the record's name as `record`.
pub fn json(all: &[NamedEvaluation]) -> String {
    let mut objects: Vec<Value> = all
        .iter()
        .map(|named| {
            let mut value = serde_json::to_value(&named.evaluation).unwrap_or_default();
            value["record"] = named.name.clone().into();
            value
        })
        .collect();
    let value = if objects.len() == 1 { objects.remove(0) } else { objects.into() };
    printable_json(&format!("{value:#}\n"))
}
