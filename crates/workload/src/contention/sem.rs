//! POSIX semaphores: each worker waits for one and posts it, as threads of one process and as processes.
#![allow(unsafe_code, reason = "semaphores of the C library live in memory that is mapped here")]

use super::{Member, Part, Shared, Team, errno};
use crate::Load;
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr::NonNull,
    sync::Arc,
};

/// Name of the part of a process.
pub(super) const PROCESS: &str = "sem";

/// Waits and posts in a tick.
const PER_TICK: u64 = 16;

/// Where the semaphore of the processes lies behind that of the threads: two lines of their own.
const APART: usize = 256;

const BYTES: usize = 4096;

/// Memory that holds two semaphores.
struct Memory {
    address: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping lives as long as this, and semaphores are made to be used by several threads at once.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: a new mapping of a file of this size, at an address of the kernel's choice.
        let address = unsafe {
            mmap(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        Ok(Self { address: NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?, file })
    }

    /// Semaphore 0 (of threads) or 1 (of processes).
    fn semaphore(&self, which: usize) -> *mut libc::sem_t {
        // SAFETY: both offsets lie within the mapping and are aligned for a semaphore.
        unsafe { self.address.as_ptr().add(which * APART).cast() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`; every user of the semaphores holds this memory.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), BYTES) };
    }
}

/// A semaphore of threads and one of processes.
pub struct Semaphores {
    memory: Arc<Memory>,
    workers: usize,
}

impl Semaphores {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["threads", "processes"];

    /// Semaphores that one of `workers` workers can have at a time.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `mmap(2)` and `sem_init(3)`.
    pub fn new(workers: usize) -> io::Result<Self> {
        let file = memfd_create("manycore-semaphores", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES as u64)?;
        let memory = Memory::map(file)?;
        for which in 0..2 {
            // SAFETY: memory for a semaphore that nobody uses yet.
            if unsafe { libc::sem_init(memory.semaphore(which), which as i32, 1) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { memory: Arc::new(memory), workers })
    }
}

impl Shared for Semaphores {
    fn members(&self) -> Vec<Member> {
        let object = format!("/proc/{}/fd/{}", std::process::id(), self.memory.file.as_raw_fd());
        let process = |_| Member::Process { name: PROCESS, object: object.clone() };
        let mut members = super::threads(self.workers, |_| Waits {
            memory: Arc::clone(&self.memory),
            which: 0,
            broken: None,
        });
        members.extend((0..self.workers).map(process));
        members
    }

    fn team(&self, variant: usize, workers: usize) -> Team {
        let first = variant * self.workers;
        Team { workers: (first..first + workers).collect(), ..Team::default() }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    /// Somebody who had a semaphore may be gone with it: everybody who waits gets one.
    fn close(&self) {
        for which in [0, 1] {
            for _ in 0..self.workers * PER_TICK as usize {
                // SAFETY: a semaphore that was initialised, in memory that this object holds.
                unsafe { libc::sem_post(self.memory.semaphore(which)) };
            }
        }
    }
}

/// The part of a process.
pub(super) fn process(object: &str) -> io::Result<Part> {
    let memory = Memory::map(open(object, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)?;
    Ok(Part::Works(Box::new(Waits { memory: Arc::new(memory), which: 1, broken: None })))
}

struct Waits {
    memory: Arc<Memory>,
    which: usize,
    broken: Option<i32>,
}

impl Load for Waits {
    fn prepare(&mut self, _: u64) {}

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        let semaphore = self.memory.semaphore(self.which);
        for _ in 0..PER_TICK {
            // SAFETY: a semaphore that was initialised, in memory that `self` holds.
            while unsafe { libc::sem_wait(semaphore) } != 0 {
                if errno() != libc::EINTR {
                    self.broken = Some(errno());
                    return;
                }
            }
            // SAFETY: as above.
            if unsafe { libc::sem_post(semaphore) } != 0 {
                self.broken = Some(errno());
                return;
            }
        }
    }

    fn broken(&self) -> Option<i32> {
        self.broken
    }
}
