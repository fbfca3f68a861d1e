//! The picture of a cache line: which thread accesses which bytes.

use super::{INDENT, MAX_ROWS};
use crate::sharing::{Finding, ThreadAccess};
use manycore_render::{
    terminal::padded,
    wrap::{columns_of, cut},
};
use manycore_text::names::printable;
use std::collections::BTreeMap;

/// Widths of the picture of a line, in columns: a column is one byte or several.
const WIDTHS: [u32; 3] = [64, 32, 16];

/// Maximum width of a thread's name.
const NAME_COLUMNS: usize = 16;

/// Draws the bytes of the worst line in several widths, one row for each thread: `w` for written bytes, `r` for bytes
/// that are only read.
pub(super) fn pictures(finding: &Finding) -> Vec<String> {
    WIDTHS.iter().map(|&columns| picture(finding, columns)).collect()
}

fn picture(finding: &Finding, columns: u32) -> String {
    let mut rows: BTreeMap<(i32, &str), Vec<&ThreadAccess>> = BTreeMap::new();
    for touch in &finding.accesses {
        rows.entry((touch.tid, &touch.name)).or_default().push(touch);
    }
    let line = finding.layout.line_bytes;
    let scale = line.div_ceil(columns).max(1);
    let label = |(tid, name): (i32, &str)| format!("{} {tid}", cut(&printable(name), NAME_COLUMNS));
    let width = rows.keys().map(|key| columns_of(&label(*key))).max().unwrap_or(0);
    let marks: Vec<String> =
        (0..line / scale).step_by(8).map(|column| format!("{:<8}", column * scale)).collect();
    let ruler = marks.concat();
    let mut text = format!("{:INDENT$}{:width$}  {}\n", "", "", ruler.trim_end());
    let more = rows.len().saturating_sub(MAX_ROWS);
    for (key, touches) in rows.into_iter().take(MAX_ROWS) {
        let cells: String = (0..line / scale).map(|column| cell(column * scale, scale, &touches)).collect();
        text.push_str(&format!("{:INDENT$}{}  {cells}\n", "", padded(&label(key), width)));
    }
    if more > 0 {
        text.push_str(&format!("{:INDENT$}and {more} more threads\n", ""));
    }
    text
}

/// Returns the letter for a range of bytes: `w` if the thread writes to them, `r` if it only reads, else `.`.
fn cell(first: u32, bytes: u32, touches: &[&ThreadAccess]) -> char {
    let here = touches.iter().filter(|touch| {
        touch.offset < first + bytes && first < touch.offset.saturating_add(touch.bytes.max(1))
    });
    here.map(|touch| if touch.writes > 0 { 'w' } else { 'r' }).max().unwrap_or('.')
}
