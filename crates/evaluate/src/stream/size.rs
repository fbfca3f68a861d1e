//! The size of the arrays: large compared with the caches, and small compared with the memory.

use crate::error::{Error, LoadOption, Result};
use manycore_experiment::record::id::TIMES_CACHES;
use manycore_text::units::bytes;
use manycore_workload::stream::RUN_BYTES;

/// Parts of equal size on each node: three arrays, and the chain that loads follow.
const PARTS: u64 = 4;

/// Reciprocal of the largest share of the available memory that is used.
const MEMORY_DIVISOR: u64 = 4;

/// Bytes of an array if the caches are small or their size is unknown.
const DEFAULT_BYTES: u64 = 64 << 20;

/// The available memory and the caches.
#[derive(Clone, Debug)]
pub(super) struct MemoryBudget {
    /// Bytes available on each node that takes part; `None` if unknown.
    pub(super) nodes: Vec<(u32, Option<u64>)>,
    /// Bytes available on the whole machine.
    pub(super) total: u64,
    /// Bytes of last-level caches; `None` if unknown.
    pub(super) caches: Option<u64>,
    /// Maximum number of workers at once.
    pub(super) workers: usize,
}

impl MemoryBudget {
    /// Returns the bytes of an array: as many as `requested`, or [`TIMES_CACHES`] times the caches as far as the
    /// memory allows.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the requested size is too large or too small, [`Error::Unavailable`] if there
    /// is too little memory even for the smallest arrays.
    pub(super) fn array(&self, requested: Option<u64>) -> Result<u64> {
        let (most, why) = self.most();
        let least = self.least();
        let invalid = |reason: String| Err(Error::invalid(LoadOption::Array, reason));
        let needs = format!(
            "{} workers need arrays of at least {}, as each worker takes {} at a time",
            self.workers,
            bytes(least),
            bytes(RUN_BYTES)
        );
        match requested {
            Some(requested) if requested < least => {
                invalid(format!("{} is too small: {needs}", bytes(requested)))
            }
            Some(requested) if requested > most => invalid(format!(
                "{} is too large: three arrays and a chain of that size on each node take {}, but {why}; at most {} \
                 are possible",
                bytes(requested),
                bytes(requested.saturating_mul(PARTS)),
                bytes(most)
            )),
            Some(requested) => Ok(requested / RUN_BYTES * RUN_BYTES),
            None if most < least => Err(Error::unavailable(format!("too little memory: {needs}, but {why}"))),
            None => Ok(self.wanted().max(least).min(most)),
        }
    }

    /// Returns why arrays of `array` bytes are smaller than they should be; `None` if they are not.
    pub(super) fn shortfall(&self, array: u64) -> Option<String> {
        let wanted = self.caches? * TIMES_CACHES;
        (array < wanted).then(|| format!("{}, so the arrays have {}", self.most().1, bytes(array)))
    }

    fn wanted(&self) -> u64 {
        (self.caches.unwrap_or(0) * TIMES_CACHES).max(DEFAULT_BYTES).next_multiple_of(RUN_BYTES)
    }

    /// Returns the smallest array: every worker has a run, and another one to go on with after it.
    fn least(&self) -> u64 {
        2 * self.workers as u64 * RUN_BYTES
    }

    /// Returns the size of the largest array, and a sentence with the memory that limits it.
    fn most(&self) -> (u64, String) {
        let in_all = self.total / MEMORY_DIVISOR / PARTS / self.nodes.len().max(1) as u64;
        let limit = |available: u64, place: &str| {
            format!("a quarter of the available memory{place} is {}", bytes(available / MEMORY_DIVISOR))
        };
        let of_node = |&(node, available): &(u32, Option<u64>)| {
            let available = available?;
            Some((available / MEMORY_DIVISOR / PARTS, limit(available, &format!(" on node {node}"))))
        };
        let each = self.nodes.iter().filter_map(of_node);
        let least = each.chain([(in_all, limit(self.total, ""))]).min_by_key(|(most, _)| *most);
        least.map_or((0, String::new()), |(most, why)| (most / RUN_BYTES * RUN_BYTES, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn memory() -> MemoryBudget {
        MemoryBudget {
            nodes: vec![(0, Some(64 * GIB)), (1, Some(32 * GIB))],
            total: 100 * GIB,
            caches: Some(100 << 20),
            workers: 8,
        }
    }

    fn input(result: Result<u64>) -> String {
        match result {
            Err(Error::InvalidOption { option: LoadOption::Array, reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arrays_are_four_times_the_caches_where_memory_allows() {
        assert_eq!(memory().array(None).unwrap(), 400 << 20);
        assert_eq!(memory().shortfall(400 << 20), None);
        assert_eq!(MemoryBudget { caches: None, ..memory() }.array(None).unwrap(), DEFAULT_BYTES);
        assert_eq!(MemoryBudget { caches: Some(1), ..memory() }.array(None).unwrap(), DEFAULT_BYTES);
    }

    #[test]
    fn no_more_than_a_quarter_of_the_memory_is_taken() {
        let small = MemoryBudget { nodes: vec![(0, Some(4 * GIB)), (1, Some(GIB))], ..memory() };
        let array = small.array(None).unwrap();
        assert_eq!(array, GIB / 16);
        let why = small.shortfall(array).unwrap();
        assert_eq!(why, "a quarter of the available memory on node 1 is 256 MiB, so the arrays have 64 MiB");
        // The limit of a control group applies to all nodes together.
        let limited = MemoryBudget { total: GIB, ..memory() };
        assert_eq!(limited.array(None).unwrap(), GIB / 32);
        // Nodes of unknown memory are limited by the memory of the machine.
        let silent = MemoryBudget { nodes: vec![(0, None)], total: GIB, ..memory() };
        assert_eq!(silent.array(None).unwrap(), GIB / 16);
    }

    #[test]
    fn a_refused_size_is_reported_with_its_reason() {
        assert_eq!(memory().array(Some(9 << 20)).unwrap(), 9 << 20);
        assert_eq!(
            input(memory().array(Some(1 << 20))),
            "1 MiB is too small: 8 workers need arrays of at least 8 MiB, as each worker takes 512 KiB at a time"
        );
        assert_eq!(
            input(memory().array(Some(3 * GIB))),
            "3 GiB is too large: three arrays and a chain of that size on each node take 12 GiB, but a quarter \
             of the available memory on node 1 is 8 GiB; at most 2 GiB are possible"
        );
        assert!(input(memory().array(Some(u64::MAX))).contains("is too large"));
        let none = MemoryBudget { total: 1 << 20, ..memory() }.array(None);
        assert!(matches!(none, Err(Error::Unavailable(what)) if what.contains("too little memory")));
    }
}
