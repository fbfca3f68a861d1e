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
mod export;
mod html;
mod importance;
mod record_text;
mod sections;
mod session_comparison;

/// The parts of a page, for pages of other things than records.
pub mod page {
    pub use crate::html::{
        charts::ChartFigure,
        page::{Page, PageAddition, PageSection, dot},
        section::{figure_html, linked_table_html, table_html},
    };
}

pub use csv::{NAMES as CSV_NAMES, csv};
pub use export::{EXPORT_FORMATS, ExportFormat, Exported};
pub use html::html;
pub use record_text::document;
pub use session_comparison::{ChangedCondition, SESSIONS_SCHEMA, SessionComparison, SessionName};

use manycore_analysis::{
    Evaluation,
    differences::{RecordDifferences, SessionSides},
    gate::{self, Gate, GatedFigure},
};
use manycore_experiment::{Record, record::GateDecision};
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
    /// How the record differs from stored ones that are its baseline.
    pub baseline: Option<SessionComparison>,
    /// The decisions of the gates that were requested with this report. [`Self::gates`] has those of the record, too.
    pub decided: Vec<GateDecision>,
}

impl NamedEvaluation {
    /// Evaluates a record that is shown alone.
    pub fn new(name: String, record: Record) -> Self {
        let evaluation = Evaluation::from_record(&record);
        Self { name, record, evaluation, differences: None, baseline: None, decided: Vec::new() }
    }

    /// Returns the decisions of gates: of those that were requested now, otherwise of those that the run was to pass.
    pub fn gates(&self) -> &[GateDecision] {
        if self.decided.is_empty() { &self.record.gates } else { &self.decided }
    }

    /// Compares the record with stored ones, and adds the answers to its findings.
    pub fn compare_with(&mut self, comparison: SessionComparison) {
        self.evaluation.findings.splice(0..0, comparison.findings());
        self.baseline = Some(comparison);
    }

    /// Decides gates: on the difference from the baseline where there is one, on that from the first record of a report,
    /// or on the variants of the comparison.
    ///
    /// # Errors
    /// Those of [`gate::decide`]; there is nothing to compare.
    pub fn decide(&mut self, gates: &[Gate], inconclusive_fails: bool) -> Result<(), String> {
        let differences =
            self.baseline.as_ref().map(|baseline| &baseline.differences).or(self.differences.as_ref());
        let figures = match (differences, &self.evaluation.comparison) {
            (Some(differences), _) => GatedFigure::of_records(differences),
            (None, Some(comparison)) => GatedFigure::of_comparison(comparison),
            (None, None) => Vec::new(),
        };
        if figures.is_empty() {
            let why = differences.map(|found| found.not_compared.join("; ")).filter(|why| !why.is_empty());
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            return Err(format!("{} has no comparison to which a gate applies{why}", self.name));
        }
        self.decided = gate::decide(gates, &figures, inconclusive_fails)?;
        Ok(())
    }

    /// Evaluates records that are shown side by side, and how each differs from the first one. Records of `earlier`
    /// sessions of the same work on the same machine show how sessions scatter.
    pub fn side_by_side(
        records: impl IntoIterator<Item = (String, Record)>,
        earlier: &[Record],
    ) -> Vec<Self> {
        let earlier: Vec<&Record> = earlier.iter().collect();
        let mut all: Vec<Self> = records.into_iter().map(|(name, record)| Self::new(name, record)).collect();
        if let Some((first, others)) = all.split_first_mut() {
            for other in others {
                let sides = SessionSides {
                    baseline: &[&first.record],
                    new: &[&other.record],
                    earlier: &earlier,
                    margin: EQUIVALENCE_MARGIN,
                    estimator: None,
                };
                other.differences = Some(RecordDifferences::between(&sides));
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
    /// How the record differs from stored ones that are its baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<&'a SessionComparison>,
    /// The decisions of gates.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub gates: &'a [GateDecision],
}

/// Returns the evaluation as JSON: one object for one record, an array of objects for several, each with
/// the record's name as `record`.
pub fn json(all: &[NamedEvaluation]) -> String {
    let object = |one: &NamedEvaluation| {
        let differences = one.differences.as_ref();
        let printed = PrintedEvaluation {
            record: &one.name,
            evaluation: &one.evaluation,
            differences,
            baseline: one.baseline.as_ref(),
            gates: one.gates(),
        };
        serde_json::to_value(printed).unwrap_or_default()
    };
    let mut objects: Vec<Value> = all.iter().map(object).collect();
    let value = if objects.len() == 1 { objects.remove(0) } else { objects.into() };
    printable_json(&format!("{value:#}\n"))
}
