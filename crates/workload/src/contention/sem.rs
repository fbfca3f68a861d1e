//! POSIX semaphores: each worker waits for the semaphore and posts it, in threads of one process and in
//! processes.
#![allow(unsafe_code, reason = "semaphores of the C library live in memory that is mapped here")]

use super::{Member, Role, SharedObject, Team, errno};
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

/// Name of the role of a process.
pub(super) const PROCESS: &str = "sem";

/// Waits and posts per tick.
const PER_TICK: u64 = 16;

/// Offset of the semaphore for processes from that for threads: they are in different pairs of cache lines.
const SEMAPHORE_DISTANCE: usize = 256;

const BYTES: usize = 4096;

/// Memory that holds two semaphores.
struct SemaphoreMemory {
    address: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping lives as long as this value, and semaphores may be used by several threads at once.
unsafe impl Send for SemaphoreMemory {}
// SAFETY: as above.
unsafe impl Sync for SemaphoreMemory {}

impl SemaphoreMemory {
    fn map(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: a new mapping of a file of this size, at an address chosen by the kernel.
        let address = unsafe {
            mmap(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        Ok(Self { address: NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?, file })
    }

    /// Returns semaphore 0 (for threads) or 1 (for processes).
    fn semaphore(&self, which: usize) -> *mut libc::sem_t {
        // SAFETY: both offsets lie within the mapping and are aligned for a semaphore.
        unsafe { self.address.as_ptr().add(which * SEMAPHORE_DISTANCE).cast() }
    }
}

impl Drop for SemaphoreMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping created in `map`; every user of the semaphores holds this value.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), BYTES) };
    }
}

/// A semaphore for threads and one for processes.
pub struct Semaphores {
    memory: Arc<SemaphoreMemory>,
    workers: usize,
}

impl Semaphores {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["threads", "processes"];

    /// Creates semaphores that one of `workers` workers can hold at a time.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `mmap(2)` and `sem_init(3)`.
    pub fn new(workers: usize) -> io::Result<Self> {
        let file = memfd_create("manycore-semaphores", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES as u64)?;
        let memory = SemaphoreMemory::map(file)?;
        for which in 0..2 {
            // SAFETY: memory for a semaphore that is not in use yet.
            if unsafe { libc::sem_init(memory.semaphore(which), which as i32, 1) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { memory: Arc::new(memory), workers })
    }
}

impl SharedObject for Semaphores {
    fn members(&self) -> Vec<Member> {
        let object = format!("/proc/{}/fd/{}", std::process::id(), self.memory.file.as_raw_fd());
        let process = |_| Member::Process { name: PROCESS, object: object.clone() };
        let mut members = super::threads(self.workers, |_| SemaphoreUser {
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

    /// Posts often enough for all waiting workers to return, as a worker may have ended while it held a
    /// semaphore.
    fn close(&self) {
        for which in [0, 1] {
            for _ in 0..self.workers * PER_TICK as usize {
                // SAFETY: an initialised semaphore, in memory that this object holds.
                unsafe { libc::sem_post(self.memory.semaphore(which)) };
            }
        }
    }
}

/// Returns the role of a process.
pub(super) fn open_process(object: &str) -> io::Result<Role> {
    let memory = SemaphoreMemory::map(open(object, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)?;
    Ok(Role::Worker(Box::new(SemaphoreUser { memory: Arc::new(memory), which: 1, broken: None })))
}

struct SemaphoreUser {
    memory: Arc<SemaphoreMemory>,
    which: usize,
    broken: Option<i32>,
}

impl Load for SemaphoreUser {
    fn prepare(&mut self, _: u64) {}

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        let semaphore = self.memory.semaphore(self.which);
        for _ in 0..PER_TICK {
            // SAFETY: an initialised semaphore, in memory that `self` holds.
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

    fn error(&self) -> Option<i32> {
        self.broken
    }
}
