//! Names, paths and sets of CPUs: each different one is written once, and rows have its number.

use super::{
    MOST_CPUS, Malformed,
    columns::{ColumnReader, Columns},
};
use crate::sample::TaskName;
use manycore_text::names::printable;
use manycore_topology::CpuSet;
use std::{collections::HashMap, sync::Arc};

/// Most different texts between two samples that stand alone.
const MOST_TEXTS: usize = 1 << 20;
/// Longest text in bytes. A path of a control group has up to 4,096.
const LONGEST: usize = 16 << 10;

/// Most bytes of all texts between two samples that stand alone: names and paths of a million tasks and groups.
const MOST_BYTES: usize = 64 << 20;

/// Columns of the texts, from their first one.
const COUNT: usize = 0;
const LENGTH: usize = 1;
const BYTES: usize = 2;
/// Number of these columns.
pub(super) const COLUMNS: usize = 3;

/// A text as it is used.
#[derive(Clone, Debug)]
struct Text {
    bytes: Box<[u8]>,
    shown: Option<Arc<str>>,
    set: Option<Arc<CpuSet>>,
}

/// The texts that were seen, by number.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    first: usize,
    seen: Vec<Text>,
    /// The bytes of all.
    bytes: usize,
    numbers: HashMap<Box<[u8]>, u64>,
    /// The sets of tasks, as most tasks share one.
    sets: HashMap<Arc<CpuSet>, u64>,
    /// How many of the texts were written.
    written: usize,
}

impl Texts {
    /// Returns no texts; their columns begin at `first`.
    pub fn new(first: usize) -> Self {
        Self { first, seen: Vec::new(), bytes: 0, numbers: HashMap::new(), sets: HashMap::new(), written: 0 }
    }

    /// Returns how many different texts there are.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Returns the bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of a text.
    pub fn number(&mut self, bytes: &[u8]) -> u64 {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        if let Some(&number) = self.numbers.get(bytes) {
            return number;
        }
        let number = self.seen.len() as u64;
        self.bytes += bytes.len();
        self.numbers.insert(bytes.into(), number);
        self.seen.push(Text { bytes: bytes.into(), shown: None, set: None });
        number
    }

    /// Returns the number of a set.
    pub fn number_of_set(&mut self, set: &Arc<CpuSet>) -> u64 {
        if let Some(&number) = self.sets.get(set) {
            return number;
        }
        let number = self.number(set.to_string().as_bytes());
        self.sets.insert(Arc::clone(set), number);
        number
    }

    /// Writes the texts that are new since the last call.
    pub fn encode(&mut self, out: &mut Columns) {
        out.put(self.first + COUNT, (self.seen.len() - self.written) as u64);
        for text in &self.seen[self.written..] {
            out.put(self.first + LENGTH, text.bytes.len() as u64);
            out.put_bytes(self.first + BYTES, &text.bytes);
        }
        self.written = self.seen.len();
    }

    /// Reads new texts.
    pub fn decode(&mut self, from: &mut ColumnReader) -> Result<(), Malformed> {
        for _ in 0..from.get(self.first + COUNT)? {
            let length = from.get(self.first + LENGTH)?;
            self.bytes += length.min(LONGEST as u64) as usize;
            if length > LONGEST as u64 || self.seen.len() >= MOST_TEXTS || self.bytes > MOST_BYTES {
                return Err(Malformed("it has texts that are too long or too many"));
            }
            let bytes = from.get_bytes(self.first + BYTES, length as usize)?.into();
            self.seen.push(Text { bytes, shown: None, set: None });
        }
        Ok(())
    }

    fn text(&mut self, number: u64) -> Result<&mut Text, Malformed> {
        self.seen.get_mut(number as usize).ok_or(Malformed("a name is not in it"))
    }

    /// Returns the name of a task.
    pub fn name(&mut self, number: u64) -> Result<TaskName, Malformed> {
        Ok(TaskName::new(&self.text(number)?.bytes))
    }

    /// Returns a text, with unprintable characters replaced: a file may contain any.
    pub fn shown(&mut self, number: u64) -> Result<Arc<str>, Malformed> {
        let text = self.text(number)?;
        let shown = text.shown.get_or_insert_with(|| printable(&String::from_utf8_lossy(&text.bytes)).into());
        Ok(Arc::clone(shown))
    }

    /// Returns a set. Equal sets are shared.
    pub fn set(&mut self, number: u64) -> Result<Arc<CpuSet>, Malformed> {
        let text = self.text(number)?;
        if text.set.is_none() {
            let set = std::str::from_utf8(&text.bytes).ok().and_then(|list| list.parse::<CpuSet>().ok());
            let set = set.filter(|set| set.last().is_none_or(|last| (last as usize) < MOST_CPUS));
            text.set = Some(Arc::new(set.ok_or(Malformed("a set of CPUs is none"))?));
        }
        text.set.clone().ok_or(Malformed("a set of CPUs is none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_many_chunks_stay_bounded() {
        let mut texts = Texts::new(0);
        let read = |texts: &mut Texts, chunk: u8| {
            let mut out = Columns::default();
            let mut new = Texts::new(0);
            for at in 0..1000_u32 {
                new.number(&[&at.to_le_bytes()[..], &[chunk; LONGEST - 4]].concat());
            }
            new.encode(&mut out);
            texts.decode(&mut out.reader().unwrap())
        };
        let chunks = (0..=u8::MAX).take_while(|&chunk| read(&mut texts, chunk).is_ok()).count();
        assert_eq!(chunks, MOST_BYTES / (1000 * LONGEST));
        assert!(texts.seen.iter().map(|text| text.bytes.len()).sum::<usize>() <= MOST_BYTES);
    }
}
