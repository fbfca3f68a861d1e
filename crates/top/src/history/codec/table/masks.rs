//! Which values of a row have changed or are present.

use super::{
    super::{
        Malformed,
        columns::{ColumnReader, Columns},
    },
    NEW_MASK,
};
use std::collections::HashMap;

/// Most different sets of changed or present values.
const MOST_MASKS: usize = 1 << 16;

/// Sets of values, by number. 0 is no set: that of a row that is replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    masks: Vec<u64>,
    numbers: HashMap<u64, u64>,
}

impl Masks {
    /// Writes a set to a column.
    pub fn put(&mut self, first: usize, column: usize, mask: u64, out: &mut Columns) {
        if let Some(&number) = self.numbers.get(&mask) {
            return out.put(first + column, number);
        }
        out.put(first + column, self.masks.len() as u64 + 1);
        out.put(first + NEW_MASK, mask);
        self.add(mask);
    }

    /// Reads a set from a column.
    pub fn get(&mut self, first: usize, column: usize, from: &mut ColumnReader) -> Result<u64, Malformed> {
        let Some(at) = from.get(first + column)?.checked_sub(1) else { return Ok(0) };
        if let Some(&mask) = self.masks.get(at as usize) {
            return Ok(mask);
        }
        let mask = from.get(first + NEW_MASK)?;
        self.add(mask);
        Ok(mask)
    }

    fn add(&mut self, mask: u64) {
        if self.masks.len() < MOST_MASKS {
            self.masks.push(mask);
            self.numbers.insert(mask, self.masks.len() as u64);
        }
    }
}
