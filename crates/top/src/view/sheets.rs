//! The views beside CPUs and tasks, each a table of few rows.

mod findings;
mod groups;
mod guests;
mod interrupts;
mod latency;
mod nodes;

pub(super) use findings::draw_findings;
pub(super) use groups::groups;
pub(super) use guests::guests;
pub(super) use interrupts::interrupts;
pub(super) use latency::{draw_latency, latency_notes};
pub(super) use nodes::{draw_distances, nodes, notes as node_notes};

use manycore_text::units;

/// Formats KiB.
fn kib(value: f64) -> String {
    units::bytes((value as u64) << 10)
}

/// Formats bytes.
fn bytes(value: f64) -> String {
    units::bytes(value as u64)
}

/// Formats a share in percent without its sign.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}
