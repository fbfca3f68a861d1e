//! The built-in loads, one file each, behind the trait `Load`.
//!
//! A load does its work in ticks, of a few microseconds if possible. A worker can then be paused at once, and the
//! work of a slice of 50 ms is counted to a fraction of an event. Loads whose workers share an object are in
//! `contention`, behind the trait `SharedObject`.
//!
//! # Contention
//!
//! An object (a counter, a lock, a queue, a semaphore, a pipe) is created once and used for all its variants. Its
//! members stay alive. Some members work, in ticks. Others serve: they wait for what the workers give them, until the
//! object is closed. A serving member never has to be stopped for a worker to end its tick, so stopping cannot
//! deadlock. An object reports its own count of operations, which must equal the sum of the workers' counts, and the
//! names of kernel objects that would outlive all processes.
//!
//! # Memory bandwidth and latency
//!
//! Workers of `stream` share arrays on each NUMA node. An array is a ring of runs of half a mebibyte. A worker that
//! has finished a run takes the next run that no other worker has. Between two uses of the same run lies the whole
//! ring, however treatments alternate, so caches hold nothing that a later treatment could use. A run belongs to one
//! worker at a time, which makes the sharing sound. The fence that non-temporal stores need is executed at the change
//! of runs, where it costs nothing.
//!
//! The kernels are written for vectors, store by store. A compiler turns a copy into a call of `memcpy`, which
//! chooses between ordinary and non-temporal stores by the size of the copy. The two differ by a third.
//!
//! Latency is measured on one chain through every pair of cache lines, in an order that prefetchers do not predict. A
//! treatment continues where the previous one stopped.
//!
//! Memory is bound to its node with `mbind(2)` and not by first touch. Any thread can then initialise it, and the
//! kernel does not fall back to another node when the node is full. On machines with one node nothing is bound,
//! because containers often forbid the call.
#![deny(unsafe_code)]

pub mod contention;
mod cycles;
pub mod latency;
mod matrix;
mod prime;
pub mod stream;
mod sum;

pub use cycles::ADDITIONS_PER_TICK;
pub use matrix::product::operations as product_operations;
pub use prime::{DEFAULT_MAX_PRIME, Prime};

/// Work that one worker repeats.
pub trait Load {
    /// Prepares for a parameter, whose meaning depends on the load (a size, a limit). Not part of the
    /// measured time.
    fn prepare(&mut self, parameter: u64);

    /// Returns the number of ticks per event, for the current parameter; at least 1.
    fn ticks_per_event(&self) -> u64;

    /// Does the next tick.
    fn tick(&mut self);

    /// Returns why no further tick is possible (an errno), or `None`.
    fn error(&self) -> Option<i32> {
        None
    }
}

/// The loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// sysbench's prime event; the parameter is `cpu-max-prime`.
    Prime,
    /// A chain of dependent additions, one per cycle; the parameter is their number per event.
    Cycles,
    /// Sum of an array of 64-bit floats; the parameter is its size in bytes.
    Sum,
    /// Product of two square matrices of 64-bit floats; the parameter is their size.
    Product,
    /// Inverse of M times its transpose; the parameter is the size of M.
    Inverse,
    /// Memory bandwidth or latency, on the worker's own memory; the parameter is a [`stream::Task`].
    Stream,
}

impl LoadKind {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Prime, "prime"),
        (Self::Cycles, "cycles"),
        (Self::Sum, "sum"),
        (Self::Product, "product"),
        (Self::Inverse, "inverse"),
        (Self::Stream, "stream"),
    ];

    /// Returns the name of the load on the command line of a worker process.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Returns the load with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Creates a load of this kind, not yet prepared.
    pub fn load(self) -> Box<dyn Load> {
        match self {
            Self::Prime => Box::new(Prime::default()),
            Self::Cycles => Box::new(cycles::Cycles::default()),
            Self::Sum => Box::new(sum::Sum::default()),
            Self::Product => Box::new(matrix::product::Product::default()),
            Self::Inverse => Box::new(matrix::inverse::Inverse::default()),
            Self::Stream => Box::new(stream::Worker::<stream::OwnMemory>::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_found_by_its_name_and_ticks() {
        for (kind, name) in LoadKind::ALL {
            assert_eq!(LoadKind::from_name(name), Some(kind));
            let mut load = kind.load();
            load.prepare(16);
            for _ in 0..load.ticks_per_event() {
                load.tick();
            }
        }
        assert_eq!(LoadKind::from_name("nothing"), None);
    }
}
