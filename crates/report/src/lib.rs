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
    /// How the record differs from the first one of the report. `None` for the first one.
    pub differences: Option<RecordDifferences>,
}

impl NamedEvaluation {
    /// Evaluates a record that is shown alone.
    pub fn new(name: String, record: Record) -> Self {
        let evaluation = Evaluation::from_record(&record);
        Self { name, record, evaluation, differences: None }
    }

    /// Evaluates records that are shown side by side, and how each differs from the first one.
    pub fn side_by_side(records: impl IntoIterator<Item = (String, Record)>) -> Vec<Self> {
        let mut all: Vec<Self> = records.into_iter().map(|(name, record)| Self::new(name, record)).collect();
        if let Some((first, others)) = all.split_first_mut() {
            for other in others {
                let differences =
                    RecordDifferences::between(&first.record, &other.record, EQUIVALENCE_MARGIN);
                other.differences = Some(differences);
            }
        }
        all
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
    pub differences: Option<&'a RecordDifferences>,
}

/// Returns the evaluation as JSON: one object for one record, an array of objects for several, each with
/// the record's name as `record`.
pub fn json(all: &[NamedEvaluation]) -> String {
    let object = |one: &NamedEvaluation| {
        let differences = one.differences.as_ref();
        let printed = PrintedEvaluation { record: &one.name, evaluation: &one.evaluation, differences };
        serde_json::to_value(printed).unwrap_or_default()
    };
    let mut objects: Vec<Value> = all.iter().map(object).collect();
    let value = if objects.len() == 1 { objects.remove(0) } else { objects.into() };
    printable_json(&format!("{value:#}\n"))
}
