//! An evaluation of a fleet as text, Markdown, CSV, JSON, a page, and lines for other programs. Pure functions: they return
//! values or strings.
//!
//! What comes from nodes (names, models, processes) is not trusted: documents and pages show control characters as U+FFFD
//! and escape the rest, and lines for shells ([`node_list`], [`drain`]) hold safe characters only.

mod csv;
mod drain;
mod page;
mod prometheus;
mod tables;
mod text;
mod view;
mod words;

pub use csv::csv;
pub use drain::{DrainLines, NodeList, drain, node_list};
pub use page::page;
pub use prometheus::{MAX_SERIES, prometheus};
pub use text::document;
pub use words::answer;

use crate::evaluation::FleetEvaluation;
use manycore_text::names::printable_json;

/// Returns the evaluation as JSON, one object.
pub fn json(evaluation: &FleetEvaluation) -> String {
    // A map with keys that are no strings would fail, and there is none.
    let value = serde_json::to_value(evaluation).unwrap_or_default();
    printable_json(&format!("{value:#}\n"))
}
