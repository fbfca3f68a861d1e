//! Renders what a person or a program reads, from model types alone: nothing here measures.
//!
//! Records: `sections` turns judged ones into tables once; `eval_text` and `html` lay the same tables
//! out, and `html` adds the charts. Machines: `topo_text` and `topo_svg`. Plans: `plan_text`, and
//! `plan_marks` on the machine's picture. Virtual machines: `vm_text`
//! and `vm_top_text`. Limits: `qos_text` and `qos_watch_text`. The guard: `guard_text`.

mod csv;
mod eval_text;
mod html;
mod sections;

pub use csv::{NAMES as CSV_NAMES, csv};
pub use eval_text::text;
pub use html::html;

use manycore_analysis::Evaluation;
use manycore_experiment::Record;
use manycore_text::names::printable_json;
use serde_json::Value;

/// A record with its judgement, and the name by which the report tells it from others.
pub struct Named {
    /// Shown where several records stand side by side.
    pub name: String,
    /// What was measured.
    pub record: Record,
    /// What it means.
    pub evaluation: Evaluation,
}

impl Named {
    /// Judges `record`.
    pub fn judge(name: String, record: Record) -> Self {
        let evaluation = Evaluation::of(&record);
        Self { name, record, evaluation }
    }
}

/// The judgement as JSON: one object for one record, an array of objects for several, each with the
/// record's name as `record`.
pub fn json(all: &[Named]) -> String {
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
