//! Rows, and how all of their values are written.

use super::{KEY, VALUE};
use crate::history::codec::{
    Malformed,
    columns::{ColumnReader, Columns},
};

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history::codec) enum Kind {
    /// An identifier: as it is.
    Plain,
    /// A level: its difference from the one before; of a new row, from that of the row before.
    Level,
    /// A counter: how much faster or slower it grows than it did. Of a new row, as it is.
    Counter,
}

/// The key and values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history::codec) struct Entry<const N: usize> {
    pub key: [u64; 3],
    /// Bit `i` is set if value `i` is present. A value that is absent is 0.
    pub present: u64,
    pub values: [u64; N],
}

impl<const N: usize> Entry<N> {
    /// Returns a row.
    pub fn new(key: [u64; 3], values: [Option<u64>; N]) -> Self {
        let present = values.iter().enumerate().filter(|(_, value)| value.is_some());
        let present = present.fold(0, |mask, (at, _)| mask | 1 << at);
        Self { key, present, values: values.map(Option::unwrap_or_default) }
    }

    /// Returns a value; `None` if it is absent.
    pub fn value(&self, at: usize) -> Option<u64> {
        (self.present >> at & 1 == 1).then_some(self.values[at])
    }

    /// Returns a value that is never absent in a row that this version writes, and fits `T`.
    pub fn must<T: TryFrom<u64>>(&self, at: usize) -> Result<T, Malformed> {
        self.values[at].try_into().map_err(|_| Malformed("a value is too large"))
    }

    /// Returns a part of the key.
    pub fn key<T: TryFrom<u64>>(&self, at: usize) -> Result<T, Malformed> {
        self.key[at].try_into().map_err(|_| Malformed("an id is too large"))
    }
}

/// A row, and by how much its counters grow from sample to sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<const N: usize> {
    pub entry: Entry<N>,
    pub growth: [i32; N],
}

impl<const N: usize> Row<N> {
    pub fn new(entry: Entry<N>) -> Self {
        Self { entry, growth: [0; N] }
    }

    /// Returns by how much a counter has grown more than before.
    pub fn unexpected(&self, value: usize, difference: i64) -> i64 {
        difference.wrapping_sub(i64::from(self.growth[value]))
    }

    /// Sets a value, and moves the growth that is expected a quarter of the way to the one that was seen.
    pub fn update(&mut self, value: usize, new: u64) {
        let difference = new.wrapping_sub(self.entry.values[value]) as i64;
        let growth = i64::from(self.growth[value]);
        let next = if growth == 0 { difference } else { growth + self.unexpected(value, difference) / 4 };
        self.growth[value] = next.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        self.entry.values[value] = new;
    }
}

/// Writes the key of a row that is new, beside that of the row before.
pub(super) fn encode_key<const N: usize>(
    first: usize,
    before: Option<&Entry<N>>,
    new: &Entry<N>,
    out: &mut Columns,
) {
    let before = before.map_or([0; 3], |before| before.key);
    for (part, (new, before)) in new.key.iter().zip(before).enumerate() {
        out.put_signed(first + KEY + part, new.wrapping_sub(before) as i64);
    }
}

/// Reads what [`encode_key`] wrote.
pub(super) fn decode_key<const N: usize>(
    first: usize,
    before: Option<&Entry<N>>,
    from: &mut ColumnReader,
) -> Result<[u64; 3], Malformed> {
    let mut key = before.map_or([0; 3], |before| before.key);
    for (part, value) in key.iter_mut().enumerate() {
        *value = value.wrapping_add(from.get_signed(first + KEY + part)? as u64);
    }
    Ok(key)
}

/// Writes all values of a row that is new, beside those of the row before.
pub(super) fn encode_whole<const N: usize>(
    first: usize,
    kinds: &[Kind; N],
    before: Option<&Entry<N>>,
    new: &Entry<N>,
    out: &mut Columns,
) {
    for value in (0..N).filter(|&value| new.present >> value & 1 == 1) {
        let column = first + VALUE + N + value;
        match kinds[value] {
            Kind::Level => {
                let before = before.map_or(0, |before| before.values[value]);
                out.put_signed(column, new.values[value].wrapping_sub(before) as i64);
            }
            Kind::Plain | Kind::Counter => out.put(column, new.values[value]),
        }
    }
}

/// Reads what [`encode_whole`] wrote.
pub(super) fn decode_whole<const N: usize>(
    first: usize,
    kinds: &[Kind; N],
    before: Option<&Entry<N>>,
    present: u64,
    from: &mut ColumnReader,
) -> Result<[u64; N], Malformed> {
    let mut values = [0; N];
    for value in (0..N).filter(|&value| present >> value & 1 == 1) {
        let column = first + VALUE + N + value;
        values[value] = match kinds[value] {
            Kind::Level => {
                let before = before.map_or(0, |before| before.values[value]);
                before.wrapping_add(from.get_signed(column)? as u64)
            }
            Kind::Plain | Kind::Counter => from.get(column)?,
        };
    }
    Ok(values)
}
