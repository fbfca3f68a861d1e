//! The scheduler for reading.

use super::SchedulerReport;
use manycore_render::document::Document;
use manycore_text::names::printable;

/// Returns the scheduler in force as text.
pub fn document(report: &SchedulerReport) -> Document {
    let mut document = Document::new();
    let name = report.loaded.as_deref().map_or_else(|| "the kernel's own".to_owned(), printable);
    document.field("scheduler", name);
    document.field("kernel", printable(report.kernel.as_deref().unwrap_or("unknown")));
    document
}
