//! CPU affinity of threads (`sched_setaffinity(2)`), and the CPU that a thread runs on.
//!
//! Masks have any length: the C library's fixed `cpu_set_t` ends at CPU 1023.
#![allow(unsafe_code, reason = "the two system calls take a pointer to a mask of any length")]

use manycore_topology::{CpuId, CpuSet};
use std::io;

/// Bits in a word of the kernel's mask.
const WORD: usize = libc::c_ulong::BITS as usize;

/// Maximum length of a mask in words, far beyond any kernel's `NR_CPUS`.
const MAX_WORDS: usize = 1 << 16;

/// Returns the CPU that the calling thread runs on at this moment.
pub fn current_cpu() -> CpuId {
    rustix::thread::sched_getcpu() as CpuId
}

/// Returns the CPUs that are online at this moment (`/sys/devices/system/cpu/online`); `None` without
/// sysfs. In a container, lxcfs writes the numbers from 0 into that file. The CPUs on which the calling thread may run are
/// online whatever it says: the system call leaves out others.
pub fn online() -> Option<CpuSet> {
    let listed: CpuSet =
        std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?.trim().parse().ok()?;
    Some(allowed().map_or_else(|_| listed.clone(), |own| listed.union(&own)))
}

/// Returns the CPUs that the calling thread may run on.
///
/// # Errors
/// An error of `sched_getaffinity(2)`.
pub fn allowed() -> io::Result<CpuSet> {
    of_thread(0)
}

/// Returns the CPUs that thread `tid` (0: the calling thread) may run on. Also works for a zombie.
///
/// # Errors
/// An error of `sched_getaffinity(2)`: the thread does not exist.
pub fn of_thread(tid: u32) -> io::Result<CpuSet> {
    let mut words = 16;
    loop {
        let mut mask = vec![0 as libc::c_ulong; words];
        // SAFETY: the kernel writes at most the given number of bytes into the vector of that size.
        let written = unsafe {
            libc::syscall(libc::SYS_sched_getaffinity, tid, mask.len() * WORD / 8, mask.as_mut_ptr())
        };
        if written >= 0 {
            return Ok(from_words(&mask));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words >= MAX_WORDS {
            return Err(error);
        }
        words *= 2;
    }
}

/// Restricts thread `tid` (0: the calling thread) to `cpus`. When this returns, the thread runs on one of
/// them.
///
/// # Errors
/// An error of `sched_setaffinity(2)`: the thread does not exist, belongs to another user, or may use none
/// of the CPUs. Or a CPU number is larger than any kernel supports.
pub fn restrict(tid: u32, cpus: &CpuSet) -> io::Result<()> {
    if cpus.last().is_some_and(|last| last as usize >= MAX_WORDS * WORD) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Mask::from_cpus(cpus).apply(tid)
}

/// Returns whether this process may change the affinity of the threads of process `pid`, as far as that is known before
/// it is tried: it runs as the user of that process, or has `CAP_SYS_NICE`. `true` for a process that has ended.
pub fn may_restrict(pid: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_capable = || {
        rustix::thread::capabilities(None)
            .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_NICE))
    };
    crate::tasks::users(pid).is_none_or(|users| users.contains(&own)) || is_capable()
}

/// A CPU mask in the kernel's format.
pub(crate) struct Mask(Vec<libc::c_ulong>);

impl Mask {
    pub(crate) fn from_cpus(cpus: &CpuSet) -> Self {
        Self(to_words(cpus))
    }

    /// Does the same as [`restrict`]. Allocates no memory.
    pub(crate) fn apply(&self, tid: u32) -> io::Result<()> {
        let Self(mask) = self;
        // SAFETY: the kernel reads the given number of bytes from the vector of that size.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, mask.len() * WORD / 8, mask.as_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn from_words(mask: &[libc::c_ulong]) -> CpuSet {
    (0..mask.len() * WORD)
        .filter(|cpu| mask[cpu / WORD] >> (cpu % WORD) & 1 == 1)
        .map(|cpu| cpu as CpuId)
        .collect()
}

fn to_words(cpus: &CpuSet) -> Vec<libc::c_ulong> {
    let mut mask = vec![0; cpus.last().map_or(1, |last| last as usize / WORD + 1)];
    for cpu in cpus.iter() {
        mask[cpu as usize / WORD] |= 1 << (cpu as usize % WORD);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restricted_thread_runs_where_it_may() {
        std::thread::spawn(|| {
            for cpu in allowed().unwrap().iter() {
                restrict(0, &CpuSet::single(cpu)).unwrap();
                assert_eq!(current_cpu(), cpu);
                assert_eq!(allowed().unwrap(), CpuSet::single(cpu));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn no_cpu_at_all_is_refused() {
        assert!(restrict(0, &CpuSet::new()).is_err());
        assert!(restrict(0, &CpuSet::single(u32::MAX - 1)).is_err());
    }

    #[test]
    fn masks_beyond_1023_survive() {
        let wide: CpuSet = "0,63-64,1023-1024,4095".parse().unwrap();
        assert_eq!(from_words(&to_words(&wide)), wide);
    }
}
