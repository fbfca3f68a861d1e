//! Fields of a truly shared line that could each be put on a line of its own.

use super::{
    Access, Field,
    judge::merged,
    spot::{Spot, is_negligible},
};
use std::collections::{BTreeMap, BTreeSet};

/// Separating fields is worthwhile if it saves at least one in this many transfers.
const WORTH: u64 = 10;

/// Threads, as indexes into the threads of the process.
type Threads = BTreeSet<usize>;

/// Bytes that are written together, or by writes that overlap.
struct Piece<'a> {
    /// The first byte, and the end (exclusive).
    bytes: (u32, u32),
    writes: Vec<&'a Access>,
}

/// Returns the fields of a line of which each has a writer that does not write another field, such as the
/// head and the tail of a queue. Returns none if separating them would save fewer than `threshold` transfers
/// or less than a tenth of all.
///
/// A thread that writes the data protected by a lock also writes the lock. Such fields are not separated,
/// because each lock holder would then need two lines.
pub(super) fn apart(spot: &Spot<'_>, needless: u64, hand_overs: u64, threshold: u64) -> Vec<Field> {
    if needless < threshold || needless < hand_overs / WORTH {
        return Vec::new();
    }
    let mut written: BTreeMap<Threads, Vec<Piece<'_>>> = BTreeMap::new();
    for piece in pieces(spot) {
        let writers = piece.writes.iter().map(|access| access.thread).collect();
        written.entry(writers).or_default().push(piece);
    }
    let has_own = |one: &Threads, other: &Threads| !one.is_subset(other) && !other.is_subset(one);
    let mut fields: Vec<Field> = written
        .iter()
        .filter(|(writers, _)| written.keys().any(|others| has_own(writers, others)))
        .filter_map(|(_, pieces)| {
            let busiest = pieces.iter().flat_map(|piece| &piece.writes).max_by_key(|access| access.writes)?;
            let bytes = merged(pieces.iter().map(|piece| piece.bytes).collect());
            Some(Field { bytes, frame: spot.code(busiest).0.clone() })
        })
        .collect();
    fields.sort_by(|one, other| one.bytes.cmp(&other.bytes));
    fields
}

/// Returns the pieces of a line that are written, by offset. Writers with very few writes are left out: they
/// only initialized the line.
fn pieces<'a>(spot: &'a Spot<'_>) -> Vec<Piece<'a>> {
    let accesses = &spot.line.accesses;
    let total = accesses.iter().fold(0_u64, |sum, access| sum.saturating_add(access.writes));
    let mut writes: Vec<&Access> =
        accesses.iter().filter(|access| access.writes > 0 && !is_negligible(access.writes, total)).collect();
    writes.sort_by_key(|access| access.offset);
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    for access in writes {
        let (start, end) = (access.offset, access.offset.saturating_add(access.bytes.max(1)));
        match pieces.last_mut() {
            Some(last) if start < last.bytes.1 => {
                last.bytes.1 = last.bytes.1.max(end);
                last.writes.push(access);
            }
            _ => pieces.push(Piece { bytes: (start, end), writes: vec![access] }),
        }
    }
    pieces
}
