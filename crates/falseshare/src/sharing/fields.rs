//! Fields of a truly shared line that could each be put on a line of its own.

use super::{
    LineAccess, SeparableField,
    evaluate::merge_ranges,
    hot_line::{HotLine, is_negligible},
};
use std::collections::{BTreeMap, BTreeSet};

/// Separating fields is worthwhile if it saves at least one in this many transfers.
const MIN_SAVING_DIVISOR: u64 = 10;

/// Threads, as indexes into the threads of the process.
type Threads = BTreeSet<usize>;

/// Bytes that are written together, or by writes that overlap.
struct WrittenRange<'a> {
    /// The first byte, and the end (exclusive).
    bytes: (u32, u32),
    writes: Vec<&'a LineAccess>,
}

/// Returns the fields of a line of which each has a writer that does not write another field, such as the
/// head and the tail of a queue. Returns none if separating them would save fewer than `threshold` transfers
/// or less than a tenth of all.
///
/// A thread that writes the data protected by a lock also writes the lock. Such fields are not separated,
/// because each lock data would then need two lines.
pub(super) fn separable_fields(
    hot_line: &HotLine<'_>,
    false_transfers: u64,
    transfers: u64,
    threshold: u64,
) -> Vec<SeparableField> {
    if false_transfers < threshold || false_transfers < transfers / MIN_SAVING_DIVISOR {
        return Vec::new();
    }
    let mut written: BTreeMap<Threads, Vec<WrittenRange<'_>>> = BTreeMap::new();
    for piece in written_ranges(hot_line) {
        let writers = piece.writes.iter().map(|access| access.thread).collect();
        written.entry(writers).or_default().push(piece);
    }
    let has_own = |one: &Threads, other: &Threads| !one.is_subset(other) && !other.is_subset(one);
    let mut fields: Vec<SeparableField> = written
        .iter()
        .filter(|(writers, _)| written.keys().any(|others| has_own(writers, others)))
        .filter_map(|(_, pieces)| {
            let busiest = pieces.iter().flat_map(|piece| &piece.writes).max_by_key(|access| access.writes)?;
            let bytes = merge_ranges(pieces.iter().map(|piece| piece.bytes).collect());
            Some(SeparableField { bytes, frame: hot_line.code(busiest).0.clone() })
        })
        .collect();
    fields.sort_by(|one, other| one.bytes.cmp(&other.bytes));
    fields
}

/// Returns the pieces of a line that are written, by offset. Writers with very few writes are left out: they
/// only initialized the line.
fn written_ranges<'a>(hot_line: &'a HotLine<'_>) -> Vec<WrittenRange<'a>> {
    let accesses = &hot_line.line.accesses;
    let total = accesses.iter().fold(0_u64, |sum, access| sum.saturating_add(access.writes));
    let mut writes: Vec<&LineAccess> =
        accesses.iter().filter(|access| access.writes > 0 && !is_negligible(access.writes, total)).collect();
    writes.sort_by_key(|access| access.offset);
    let mut pieces: Vec<WrittenRange<'a>> = Vec::new();
    for access in writes {
        let (start, end) = (access.offset, access.offset.saturating_add(access.bytes.max(1)));
        match pieces.last_mut() {
            Some(last) if start < last.bytes.1 => {
                last.bytes.1 = last.bytes.1.max(end);
                last.writes.push(access);
            }
            _ => pieces.push(WrittenRange { bytes: (start, end), writes: vec![access] }),
        }
    }
    pieces
}
