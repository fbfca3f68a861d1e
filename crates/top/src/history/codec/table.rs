//! Lists of rows, of which only what has changed is written.
//!
//! A row has a key and up to 64 values, each of which may be absent. Rows keep their place unless rows end or begin.
//! The state after a sample is the same in [`Table::encode`] and [`Table::decode`], so that no error accumulates.

mod masks;
mod row;

use super::{
    Malformed,
    columns::{ColumnReader, Columns},
};
use masks::Masks;
pub(super) use row::{Entry, Kind};
use row::{Row, decode_key, decode_whole, encode_key, encode_whole};
use std::{collections::HashMap, ops::Range};

/// Most rows of any table. The kernel has at most 4 million tasks; a chunk must not take more memory than this allows.
pub(super) const MOST_ROWS: usize = 1 << 20;

const TOO_MANY: Malformed = Malformed("it has too many rows");

/// New rows that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a, T> {
    pub rows: &'a [T],
    /// The place of the first one in the table, if all of them are there and have not changed.
    pub former: Option<usize>,
}

/// Columns of a table, from its first one.
const EDITS: usize = 0;
const EDIT: usize = 1;
const CHANGES: usize = 2;
const GAP: usize = 3;
const MASK: usize = 4;
const WHOLE_MASK: usize = 5;
const NEW_MASK: usize = 6;
const KEY: usize = 7;
const VALUE: usize = 10;

/// Number of columns of a table with `n` values.
pub(super) const fn columns_of(n: usize) -> usize {
    VALUE + 2 * n
}

/// A list of rows.
#[derive(Clone, Debug)]
pub(super) struct Table<const N: usize> {
    first: usize,
    kinds: [Kind; N],
    /// Most rows. More are not written, and are an error if they are read.
    most: usize,
    rows: Vec<Row<N>>,
    masks: Masks,
}

impl<const N: usize> Table<N> {
    /// Returns an empty table of at most `most` rows whose columns begin at `first`.
    pub fn new(first: usize, kinds: [Kind; N], most: usize) -> Self {
        Self { first, kinds, most, rows: Vec::new(), masks: Masks::default() }
    }

    /// Returns the memory of the rows in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row<N>>()
    }

    /// Returns the rows.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry<N>> {
        self.rows.iter().map(|row| &row.entry)
    }

    /// Returns a row of a list that is ascending.
    pub fn find(&self, key: [u64; 3]) -> Option<&Entry<N>> {
        self.rows.binary_search_by_key(&key, |row| row.entry.key).ok().map(|at| &self.rows[at].entry)
    }

    /// Writes the differences to `new`, and keeps these rows.
    pub fn encode(&mut self, new: &[Entry<N>], out: &mut Columns) {
        let rows = &new[..new.len().min(self.most)];
        self.encode_spans(&[Span { rows, former: None }], |new| new.key, |new| *new, out);
    }

    /// As [`encode`](Self::encode) with the rows of spans, at most as many as the table may have. `key` returns the key of a row
    /// and `entry` the whole.
    pub fn encode_spans<T>(
        &mut self,
        spans: &[Span<'_, T>],
        key: impl Fn(&T) -> [u64; 3],
        mut entry: impl FnMut(&T) -> Entry<N>,
        out: &mut Columns,
    ) {
        let former = self.rows.len();
        let count: usize = spans.iter().map(|span| span.rows.len()).sum();
        let (before, after) = self.unchanged(spans, count, &key);
        if before == count && before == former {
            out.put(self.first + EDITS, 0);
        } else {
            let new = spans.iter().flat_map(|span| span.rows).skip(before).take(count - before - after);
            self.encode_edits(before..former - after, new.map(&mut entry), out);
        }
        let (mut at, mut next, mut changes) = (0, 0, 0);
        for span in spans {
            let end = at + span.rows.len();
            // Rows that have kept their key are where they were, from the begin or from the end.
            let is_begin = end <= before && span.former == Some(at);
            let is_end = at + after >= count && span.former.is_some_and(|was| was + count == at + former);
            if is_begin || is_end {
                at = end;
                continue;
            }
            for new in span.rows.iter().map(&mut entry) {
                if self.rows[at].entry != new {
                    out.put(self.first + GAP, (at - next) as u64);
                    (changes, next) = (changes + 1, at + 1);
                    self.encode_change(at, &new, out);
                }
                at += 1;
            }
        }
        out.put(self.first + CHANGES, changes);
    }

    /// Returns how many rows at the begin, and how many of the others at the end, have the keys of `count` new rows.
    fn unchanged<T>(
        &self,
        spans: &[Span<'_, T>],
        count: usize,
        key: impl Fn(&T) -> [u64; 3],
    ) -> (usize, usize) {
        let (former, mut before, mut after) = (self.rows.len(), 0, 0);
        for span in spans {
            if span.former == Some(before) {
                before += span.rows.len();
                continue;
            }
            let old = self.rows[before..].iter().zip(span.rows);
            let same = old.take_while(|(old, new)| old.entry.key == key(new)).count();
            before += same;
            if same < span.rows.len() {
                break;
            }
        }
        let most = count.min(former) - before;
        for span in spans.iter().rev() {
            let length = span.rows.len();
            if span.former.is_some_and(|was| was + length + after == former) && after + length <= most {
                after += length;
                continue;
            }
            let old = self.rows[..former - after].iter().rev().zip(span.rows.iter().rev()).take(most - after);
            let same = old.take_while(|(old, new)| old.entry.key == key(new)).count();
            after += same;
            if same < length {
                break;
            }
        }
        (before, after)
    }

    /// Reads the differences that [`encode`](Self::encode) wrote. The rows may take `room` bytes.
    pub fn decode(&mut self, from: &mut ColumnReader, room: usize) -> Result<(), Malformed> {
        // An older version wrote fewer tables.
        if !from.has(self.first) {
            return Ok(());
        }
        let edits = from.get(self.first + EDITS)?;
        if edits > 0 {
            self.decode_edits(edits, from, self.most.min(room / size_of::<Row<N>>()))?;
        }
        let mut next = 0;
        for _ in 0..from.get(self.first + CHANGES)? {
            let at = from.get(self.first + GAP)?.saturating_add(next);
            if at >= self.rows.len() as u64 {
                return Err(Malformed("a row that does not exist changes"));
            }
            self.decode_change(at as usize, from)?;
            next = at + 1;
        }
        Ok(())
    }

    /// Writes which rows of `range` end, and rows that begin, and replaces these rows by `new`. A row that has moved forward
    /// begins again.
    fn encode_edits(&mut self, range: Range<usize>, new: impl Iterator<Item = Entry<N>>, out: &mut Columns) {
        let old = &self.rows[range.clone()];
        let places: HashMap<[u64; 3], usize> =
            old.iter().enumerate().map(|(at, old)| (old.entry.key, at)).collect();
        let (mut place, mut gap, mut edits) = (0, range.start as u64, 0);
        let mut edit = |gap: &mut u64, is_new: bool, out: &mut Columns| {
            out.put(self.first + EDIT, *gap << 1 | u64::from(is_new));
            (*gap, edits) = (0, edits + 1);
        };
        let mut before = range.start.checked_sub(1).map(|before| self.rows[before].entry);
        let mut rows: Vec<Row<N>> = Vec::new();
        for new in new {
            let found = places.get(&new.key).filter(|&&at| at >= place);
            let end = found.map_or(place, |&at| at);
            (place..end).for_each(|_| edit(&mut gap, false, out));
            place = end;
            let row = if found.is_some() {
                (place, gap) = (place + 1, gap + 1);
                old[end]
            } else {
                edit(&mut gap, true, out);
                encode_key(self.first, before.as_ref(), &new, out);
                self.masks.put(self.first, WHOLE_MASK, new.present, out);
                encode_whole(self.first, &self.kinds, before.as_ref(), &new, out);
                Row::new(new)
            };
            before = Some(row.entry);
            rows.push(row);
        }
        (place..old.len()).for_each(|_| edit(&mut gap, false, out));
        out.put(self.first + EDITS, edits);
        self.rows.splice(range, rows);
    }

    fn decode_edits(&mut self, edits: u64, from: &mut ColumnReader, most: usize) -> Result<(), Malformed> {
        let mut old = std::mem::take(&mut self.rows).into_iter();
        for _ in 0..edits {
            let edit = from.get(self.first + EDIT)?;
            if edit >> 1 > old.len() as u64 {
                return Err(Malformed("it keeps rows that do not exist"));
            }
            self.rows.extend(old.by_ref().take((edit >> 1) as usize));
            if edit & 1 == 0 {
                old.next().ok_or(Malformed("a row ends that does not exist"))?;
                continue;
            }
            // Rows may end that follow: at the end, all are counted.
            if self.rows.len() >= most {
                return Err(TOO_MANY);
            }
            let before = self.rows.last().map(|row| row.entry);
            let key = decode_key(self.first, before.as_ref(), from)?;
            let present = self.masks.get(self.first, WHOLE_MASK, from)?;
            let values = decode_whole(self.first, &self.kinds, before.as_ref(), present, from)?;
            self.rows.push(Row::new(Entry { key, present, values }));
        }
        self.rows.extend(old);
        if self.rows.len() > most { Err(TOO_MANY) } else { Ok(()) }
    }

    fn encode_change(&mut self, at: usize, new: &Entry<N>, out: &mut Columns) {
        let before = at.checked_sub(1).map(|before| self.rows[before].entry);
        let row = &mut self.rows[at];
        if row.entry.present != new.present {
            out.put(self.first + MASK, 0);
            self.masks.put(self.first, WHOLE_MASK, new.present, out);
            encode_whole(self.first, &self.kinds, before.as_ref(), new, out);
            *row = Row::new(*new);
            return;
        }
        let differ = (0..N).filter(|&value| row.entry.values[value] != new.values[value]);
        let mask = differ.fold(0, |mask, value| mask | 1 << value);
        self.masks.put(self.first, MASK, mask, out);
        for value in (0..N).filter(|&value| mask >> value & 1 == 1) {
            let column = self.first + VALUE + value;
            let (old, new) = (row.entry.values[value], new.values[value]);
            let difference = new.wrapping_sub(old) as i64;
            match self.kinds[value] {
                Kind::Plain => out.put(column, new),
                Kind::Level => out.put_signed(column, difference),
                Kind::Counter => out.put_signed(column, row.unexpected(value, difference)),
            }
            row.update(value, new);
        }
    }

    fn decode_change(&mut self, at: usize, from: &mut ColumnReader) -> Result<(), Malformed> {
        let before = at.checked_sub(1).map(|before| self.rows[before].entry);
        let row = &mut self.rows[at];
        let mask = self.masks.get(self.first, MASK, from)?;
        if mask == 0 {
            let present = self.masks.get(self.first, WHOLE_MASK, from)?;
            let values = decode_whole(self.first, &self.kinds, before.as_ref(), present, from)?;
            *row = Row::new(Entry { present, values, ..row.entry });
            return Ok(());
        }
        for value in (0..N).filter(|&value| mask >> value & 1 == 1) {
            let column = self.first + VALUE + value;
            let old = row.entry.values[value];
            let new = match self.kinds[value] {
                Kind::Plain => from.get(column)?,
                Kind::Level => old.wrapping_add(from.get_signed(column)? as u64),
                Kind::Counter => {
                    let more = from.get_signed(column)?.wrapping_add(i64::from(row.growth[value]));
                    old.wrapping_add(more as u64)
                }
            };
            row.update(value, new);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
