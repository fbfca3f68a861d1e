//! A bounded queue of numbers for many producers and one consumer, as a circular array.
//!
//! The turn of a cell is the operation that it is ready for: `n` to be filled as the n-th, `n + 1` to be emptied
//! (Vyukov's bounded queue).

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

struct Cell {
    turn: AtomicU64,
    value: AtomicU64,
}

/// A value that shares its cache lines with no other.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded(AtomicU64);

/// The queue; its length is a power of two.
pub(super) struct BoundedRing {
    cells: Vec<Cell>,
    filled: CachePadded,
    emptied: CachePadded,
}

impl BoundedRing {
    pub(super) fn new(length: u64) -> Self {
        let cell = |turn| Cell { turn: AtomicU64::new(turn), value: AtomicU64::new(0) };
        Self {
            cells: (0..length.next_power_of_two()).map(cell).collect(),
            filled: CachePadded::default(),
            emptied: CachePadded::default(),
        }
    }

    fn cell(&self, place: u64) -> &Cell {
        &self.cells[place as usize & (self.cells.len() - 1)]
    }

    /// Puts in `value`. Returns false if the queue is full.
    pub(super) fn push(&self, value: u64) -> bool {
        let mut place = self.filled.0.load(Relaxed);
        loop {
            let cell = self.cell(place);
            let turn = cell.turn.load(Acquire);
            if turn < place {
                return false;
            }
            if turn > place {
                place = self.filled.0.load(Relaxed);
                continue;
            }
            match self.filled.0.compare_exchange_weak(place, place + 1, Relaxed, Relaxed) {
                Ok(_) => {
                    cell.value.store(value, Relaxed);
                    cell.turn.store(place + 1, Release);
                    return true;
                }
                Err(newer) => place = newer,
            }
        }
    }

    /// Takes the oldest value. There must be only one consumer.
    pub(super) fn pop(&self) -> Option<u64> {
        let place = self.emptied.0.load(Relaxed);
        let cell = self.cell(place);
        if cell.turn.load(Acquire) != place + 1 {
            return None;
        }
        let value = cell.value.load(Relaxed);
        cell.turn.store(place + self.cells.len() as u64, Release);
        self.emptied.0.store(place + 1, Relaxed);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_first_in_first_out_and_refuses_values_when_full() {
        let ring = BoundedRing::new(4);
        for round in 0..5 {
            assert_eq!(ring.pop(), None);
            for value in 0..4 {
                assert!(ring.push(round * 10 + value));
            }
            assert!(!ring.push(99));
            for value in 0..4 {
                assert_eq!(ring.pop(), Some(round * 10 + value));
            }
        }
    }
}
