//! Workers of `stream`: each with its own memory, or all on shared memory.

use super::{
    Kernel, Task, Work,
    chain::{Chain, ChainWorker},
    ring::{ArrayRing, BLOCKS, RUN_BYTES, RingWorker},
};
use crate::{
    Load,
    contention::{Member, Role},
};
use std::{io, sync::Arc};

/// The current work of a worker.
#[derive(Default)]
enum CurrentWork {
    #[default]
    Nothing,
    ArrayRing(RingWorker),
    Chain(ChainWorker),
}

impl CurrentWork {
    fn step(&mut self) {
        match self {
            Self::Nothing => {}
            Self::ArrayRing(walk) => walk.step(),
            Self::Chain(chase) => chase.step(),
        }
    }
}

/// The memory of a worker.
trait WorkerMemory {
    /// Returns the work that `parameter` encodes, with its memory prepared.
    fn prepare(&mut self, parameter: u64) -> io::Result<CurrentWork>;
}

/// A worker on its own or on shared memory.
#[derive(Default)]
pub(crate) struct Worker<M> {
    memory: M,
    work: CurrentWork,
    broken: Option<i32>,
}

impl<M: WorkerMemory> Load for Worker<M> {
    fn prepare(&mut self, parameter: u64) {
        // The worker stops using its memory before the memory may be freed.
        self.work = CurrentWork::Nothing;
        match self.memory.prepare(parameter) {
            Ok(work) => (self.work, self.broken) = (work, None),
            Err(error) => self.broken = Some(error.raw_os_error().unwrap_or(libc::EINVAL)),
        }
    }

    fn ticks_per_event(&self) -> u64 {
        BLOCKS as u64
    }

    fn tick(&mut self) {
        self.work.step();
    }

    fn error(&self) -> Option<i32> {
        self.broken
    }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// A worker's own memory, which is allocated when its task is known.
#[derive(Default)]
pub(crate) struct OwnMemory {
    /// Node and size of the memory.
    place: Option<(Option<u16>, u64)>,
    ring: Option<Arc<ArrayRing>>,
    chain: Option<Arc<Chain>>,
}

impl WorkerMemory for OwnMemory {
    fn prepare(&mut self, parameter: u64) -> io::Result<CurrentWork> {
        let Task { work, node, bytes } = Task::from_parameter(parameter).ok_or_else(invalid)?;
        if self.place != Some((node, bytes)) {
            (self.ring, self.chain) = (None, None);
            self.place = Some((node, bytes));
        }
        let on = node.map(u32::from);
        Ok(match work.kernel {
            Kernel::Chase => {
                let chain = self.chain.take().map_or_else(|| Chain::new(bytes as usize, on, 1), Ok)?;
                CurrentWork::Chain(ChainWorker::new(Arc::clone(self.chain.insert(chain))))
            }
            kernel => {
                let make = || ArrayRing::new((bytes / RUN_BYTES) as usize, on, 1);
                let ring = self.ring.take().map_or_else(make, Ok)?;
                CurrentWork::ArrayRing(RingWorker::new(
                    Arc::clone(self.ring.insert(ring)),
                    kernel,
                    work.stores,
                ))
            }
        })
    }
}

/// Arrays and a chain on each of several nodes, and threads that work on them.
pub struct Streams {
    places: Vec<NodeArrays>,
}

/// The arrays and the chain on one node.
#[derive(Clone)]
struct NodeArrays {
    ring: Arc<ArrayRing>,
    chain: Arc<Chain>,
}

impl Streams {
    /// Creates an empty set; [`Streams::add`] allocates memory.
    pub fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// Allocates three arrays of `bytes` bytes each, and a chain through as many bytes, on `node` (or else
    /// where the kernel places pages that the calling thread touches). `threads` threads prepare them. Returns
    /// the index of this set of arrays.
    ///
    /// # Errors
    /// Those of `mmap(2)` and `mbind(2)`; `InvalidInput` if `bytes` is below [`RUN_BYTES`].
    pub fn add(&mut self, bytes: u64, node: Option<u32>, threads: usize) -> io::Result<usize> {
        let ring = ArrayRing::new((bytes / RUN_BYTES) as usize, node, threads)?;
        let chain = Chain::new(bytes as usize, node, threads)?;
        self.places.push(NodeArrays { ring, chain });
        Ok(self.places.len() - 1)
    }

    /// Returns `count` threads as members; no more than there are runs in an array, because each needs a run
    /// of its own.
    pub fn members(&self, count: usize) -> Vec<Member> {
        let runs = self.places.iter().map(|place| place.ring.runs()).min().unwrap_or(0);
        let member = |_| {
            let places = self.places.clone();
            let load =
                || Worker { memory: SharedMemory { places }, work: CurrentWork::Nothing, broken: None };
            Member::Thread(Box::new(|| Role::Worker(Box::new(load()))))
        };
        (0..count.min(runs)).map(member).collect()
    }

    /// Returns the parameter with which a worker of [`Streams::members`] does `work` on the arrays with index
    /// `place`.
    pub fn parameter(place: usize, work: Work) -> u64 {
        place as u64 | work.number() << 52
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory that several workers share.
struct SharedMemory {
    places: Vec<NodeArrays>,
}

impl WorkerMemory for SharedMemory {
    fn prepare(&mut self, parameter: u64) -> io::Result<CurrentWork> {
        let place = self.places.get((parameter & u64::from(u32::MAX)) as usize).ok_or_else(invalid)?;
        let work = Work::ALL.get((parameter >> 52) as usize).ok_or_else(invalid)?;
        Ok(match work.kernel {
            Kernel::Chase => CurrentWork::Chain(ChainWorker::new(Arc::clone(&place.chain))),
            kernel => CurrentWork::ArrayRing(RingWorker::new(Arc::clone(&place.ring), kernel, work.stores)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_own_memory_does_each_work_and_keeps_its_memory() {
        let mut own = Worker::<OwnMemory>::default();
        let mut memory = Vec::new();
        for work in Work::ALL {
            own.prepare(Task { work, node: None, bytes: 2 * RUN_BYTES }.parameter());
            (0..3 * BLOCKS).for_each(|_| own.tick());
            assert_eq!(own.error(), None, "{work:?}");
            memory.extend(own.memory.ring.as_ref().map(Arc::as_ptr));
        }
        memory.dedup();
        assert_eq!(memory.len(), 1);
        own.prepare(u64::MAX);
        own.tick();
        assert_eq!(own.error(), Some(libc::EINVAL));
    }

    #[test]
    fn workers_on_shared_memory_use_the_arrays_of_their_parameter() {
        let mut streams = Streams::new();
        assert_eq!(streams.add(RUN_BYTES, None, 1).unwrap(), 0);
        assert_eq!(streams.add(2 * RUN_BYTES, None, 1).unwrap(), 1);
        assert!(streams.add(RUN_BYTES - 1, None, 1).is_err());
        assert_eq!(streams.members(4).len(), 1, "each needs a run of its own");
        let places = streams.places.clone();
        let mut load = Worker { memory: SharedMemory { places }, work: CurrentWork::Nothing, broken: None };
        for place in 0..2 {
            for work in Work::ALL {
                load.prepare(Streams::parameter(place, work));
                (0..3 * BLOCKS).for_each(|_| load.tick());
                assert_eq!(load.error(), None);
            }
        }
        load.prepare(Streams::parameter(2, Work::READ));
        assert_eq!(load.error(), Some(libc::EINVAL));
    }
}
