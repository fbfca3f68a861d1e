//! The control block through which a coordinator drives its workers. It is in shared memory, so that threads
//! and processes are driven and observed in the same way.
//!
//! Each worker has a slot. The coordinator writes an order (`parameter`, `target_ticks`, `expected_cpu`), increments
//! `command` and wakes the worker. The worker works in ticks until `ticks` reaches `target_ticks`, and then stores
//! the number of the finished command in `finished_command`. Neither side takes a lock, and only atomics are shared,
//! so a worker that is killed leaves no broken state.
#![allow(unsafe_code, reason = "a memory mapping is accessed as a slice of atomics")]

use manycore_stats::histogram::{BUCKETS, bucket};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
    thread::futex,
    time::Timespec,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::{
        AtomicI32, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

/// Value of [`WorkerSlot::command`] that ends a worker.
pub const QUIT: u32 = u32::MAX;

/// Value of [`WorkerSlot::target_ticks`] for a worker that works until its next order.
pub(crate) const ENDLESS: u64 = u64::MAX;

/// Value of [`WorkerSlot::expected_cpu`] for a worker that does not check its CPU.
pub(crate) const NO_EXPECTED_CPU: u32 = u32::MAX;

/// The fields by which the coordinator and one worker communicate. A slot is aligned to two cache lines,
/// because prefetchers fetch lines in pairs.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct WorkerSlot {
    /// Number of the latest order; a futex. [`QUIT`] ends the worker.
    pub command: AtomicU32,
    /// Number of the order that the worker has finished; a futex.
    pub finished_command: AtomicU32,
    /// Thread id of the worker, 0 until it has started; a futex.
    pub tid: AtomicU32,
    /// Whether event times are recorded now (0 or 1).
    pub measuring: AtomicU32,
    /// The error for which the worker ended by itself (an errno); 0 if it did not.
    pub error: AtomicI32,
    /// CPU on which the worker expects to run, checked after each tick, or `NO_EXPECTED_CPU`.
    pub expected_cpu: AtomicU32,
    /// The load's parameter.
    pub parameter: AtomicU64,
    /// Value of `ticks` at which the worker becomes idle.
    pub target_ticks: AtomicU64,
    /// Ticks done since the worker was started.
    pub ticks: AtomicU64,
    /// Time at which the worker became idle, in nanoseconds of `CLOCK_MONOTONIC`.
    pub idle_since_ns: AtomicU64,
    /// How often the worker checked its CPU.
    pub cpu_checks: AtomicU64,
    /// How often it was on another CPU.
    pub off_cpu_checks: AtomicU64,
    /// Sum, minimum and maximum of the event times since the last [`WorkerSlot::drain`].
    sum_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    histogram: [AtomicU32; BUCKETS],
}

/// Event times of one worker, taken from its slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotEventTimes {
    /// Sum in nanoseconds.
    pub sum_ns: u64,
    /// Shortest in nanoseconds; `u64::MAX` if there were none.
    pub min_ns: u64,
    /// Longest in nanoseconds.
    pub max_ns: u64,
    /// Non-empty buckets of the histogram: index and count.
    pub buckets: Vec<(u32, u32)>,
}

impl WorkerSlot {
    /// Records an event of `ns` nanoseconds. Called by the worker.
    pub fn count_event(&self, ns: u64) {
        self.sum_ns.fetch_add(ns, Relaxed);
        self.min_ns.fetch_min(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
        self.histogram[bucket(ns)].fetch_add(1, Relaxed);
    }

    /// Returns all recorded event times and resets them. Called by the coordinator.
    pub fn drain(&self) -> SlotEventTimes {
        let filled = self.histogram.iter().enumerate().filter(|(_, count)| count.load(Relaxed) > 0);
        SlotEventTimes {
            buckets: filled.map(|(index, count)| (index as u32, count.swap(0, Relaxed))).collect(),
            sum_ns: self.sum_ns.swap(0, Relaxed),
            min_ns: self.min_ns.swap(u64::MAX, Relaxed),
            max_ns: self.max_ns.swap(0, Relaxed),
        }
    }

    /// Gives the next order: work until `ticks` reaches `target_ticks`. Called by the coordinator.
    pub fn order(&self, target_ticks: u64) {
        self.target_ticks.store(target_ticks, Relaxed);
        // Counting does not reach QUIT: 2^32 orders at 20 per second take seven years.
        self.command.fetch_add(1, Release);
        wake(&self.command);
    }

    /// Ends the worker. Called by the coordinator.
    pub fn quit(&self) {
        self.command.store(QUIT, Release);
        wake(&self.command);
    }

    /// Returns whether the latest order is finished. Called by the coordinator.
    pub fn is_idle(&self) -> bool {
        self.finished_command.load(Acquire) == self.command.load(Relaxed)
    }

    /// Reports `command` as finished and sleeps until there is another one, which it returns. Called by the
    /// worker.
    pub fn finish_and_wait(&self, command: u32, now_ns: u64) -> u32 {
        self.idle_since_ns.store(now_ns, Relaxed);
        self.finished_command.store(command, Release);
        wake(&self.finished_command);
        loop {
            let latest = self.command.load(Acquire);
            if latest != command {
                return latest;
            }
            wait(&self.command, command, None);
        }
    }

    /// Waits at most `timeout` for the worker to become idle. Returns whether it is. Called by the
    /// coordinator.
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        let seen = self.finished_command.load(Acquire);
        if !self.is_idle() {
            wait(&self.finished_command, seen, Some(timeout));
        }
        self.is_idle()
    }

    /// Announces the calling thread as the slot's worker. Called by the worker.
    pub fn announce(&self) {
        self.tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Release);
        wake(&self.tid);
    }

    /// Waits at most `timeout` for the worker to start. Returns its thread id. Called by the coordinator.
    pub fn wait_started(&self, timeout: Duration) -> Option<u32> {
        if self.tid.load(Acquire) == 0 {
            wait(&self.tid, 0, Some(timeout));
        }
        Some(self.tid.load(Acquire)).filter(|&tid| tid != 0)
    }
}

/// Waits for a change of `word`. Spurious returns are possible; every caller checks again.
fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let _ = futex::wait(word, futex::Flags::empty(), seen, timeout.as_ref());
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}

/// Shared memory with one [`WorkerSlot`] for each worker.
#[derive(Debug)]
pub struct WorkerControlBlock {
    slots: NonNull<WorkerSlot>,
    count: usize,
    memory: OwnedFd,
}

// SAFETY: the mapping lives as long as the control block and contains only atomics.
unsafe impl Send for WorkerControlBlock {}
// SAFETY: as above.
unsafe impl Sync for WorkerControlBlock {}

impl WorkerControlBlock {
    /// Creates a control block with `count` slots, at least one.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `ftruncate(2)` and `mmap(2)`.
    pub fn new(count: usize) -> io::Result<Self> {
        let memory = memfd_create("manycore-workers", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, (count.max(1) * size_of::<WorkerSlot>()) as u64)?;
        let block = Self::open(memory)?;
        for slot in block.slots() {
            slot.expected_cpu.store(NO_EXPECTED_CPU, Relaxed);
            slot.min_ns.store(u64::MAX, Relaxed);
        }
        Ok(block)
    }

    /// Opens the control block in `memory`, which another process created.
    ///
    /// # Errors
    /// `InvalidData` if it is not a control block; else those of `mmap(2)`.
    pub fn open(memory: OwnedFd) -> io::Result<Self> {
        let bytes = rustix::fs::fstat(&memory)?.st_size as usize;
        if bytes == 0 || !bytes.is_multiple_of(size_of::<WorkerSlot>()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a control block of this version"));
        }
        // SAFETY: a new mapping of a file of exactly this size, at an address chosen by the kernel.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &memory,
                0,
            )?
        };
        let slots = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { slots, count: bytes / size_of::<WorkerSlot>(), memory })
    }

    /// Returns all slots.
    pub fn slots(&self) -> &[WorkerSlot] {
        // SAFETY: the mapping covers `count` slots, is aligned to a page, and every bit pattern is a valid
        // slot, because a slot contains only atomics. It is unmapped only in `drop`.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr(), self.count) }
    }
}

impl AsFd for WorkerControlBlock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for WorkerControlBlock {
    fn drop(&mut self) {
        // SAFETY: the address and size of the mapping created in `open`; no slice of it outlives the control
        // block.
        let _ = unsafe { munmap(self.slots.as_ptr().cast(), self.count * size_of::<WorkerSlot>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_share_a_control_block() {
        let block = WorkerControlBlock::new(3).unwrap();
        let other = WorkerControlBlock::open(block.as_fd().try_clone_to_owned().unwrap()).unwrap();
        other.slots()[2].ticks.store(7, Relaxed);
        assert_eq!((other.slots().len(), block.slots()[2].ticks.load(Relaxed)), (3, 7));
    }

    #[test]
    fn times_are_drained_once() {
        let block = WorkerControlBlock::new(1).unwrap();
        let slot = &block.slots()[0];
        for ns in [40, 40, 1_000_000] {
            slot.count_event(ns);
        }
        let times = slot.drain();
        assert_eq!((times.sum_ns, times.min_ns, times.max_ns), (1_000_080, 40, 1_000_000));
        assert_eq!(times.buckets, [(40, 2), (bucket(1_000_000) as u32, 1)]);
        assert_eq!(slot.drain().buckets, []);
    }

    #[test]
    fn a_file_that_is_not_a_control_block_is_rejected() {
        let memory = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        assert!(WorkerControlBlock::open(memory.try_clone().unwrap()).is_err());
        ftruncate(&memory, 100).unwrap();
        assert!(WorkerControlBlock::open(memory).is_err());
    }

    #[test]
    fn a_worker_follows_orders_until_it_quits() {
        let block = WorkerControlBlock::new(1).unwrap();
        let slot = &block.slots()[0];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                slot.announce();
                let mut command = 0;
                while command != QUIT {
                    slot.ticks.store(slot.target_ticks.load(Relaxed), Relaxed);
                    command = slot.finish_and_wait(command, 1);
                }
            });
            while slot.wait_started(Duration::from_secs(1)).is_none() {}
            slot.order(5);
            while !slot.wait_idle(Duration::from_secs(1)) {}
            assert_eq!(slot.ticks.load(Relaxed), 5);
            slot.quit();
        });
    }
}
