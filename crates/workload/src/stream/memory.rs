//! Memory on a chosen node, in huge pages if the kernel has them.
#![allow(unsafe_code, reason = "memory is mapped, bound and passed on by address")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::{io, ptr::NonNull, thread};

/// Number of bits in a word of the kernel's node mask.
const WORD: u32 = libc::c_ulong::BITS;

/// Smallest part of a region for which a thread of its own is started.
const PART: usize = 4 << 20;

/// A private mapping of which every page is allocated and zeroed.
pub(super) struct Region {
    start: NonNull<u64>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this region and lives as long as it. Reads and writes are up to the code
// that takes addresses in it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates `bytes` bytes on `node`, or else where the kernel places pages that the calling thread
    /// touches. `threads` threads touch the pages in parallel.
    ///
    /// # Errors
    /// Those of `mmap(2)` and `mbind(2)`: too little memory, a node that does not exist or may not be used,
    /// or no permission to bind memory.
    pub(super) fn new(bytes: usize, node: Option<u32>, threads: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = Self { start, bytes };
        if let Some(node) = node {
            region.bind(node)?;
        }
        // SAFETY: the range is the mapping, and this advice changes no contents. A kernel without huge pages
        // returns an error; address translation then takes a larger share of the time.
        let _ = unsafe { madvise(region.start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        region.touch(threads.clamp(1, bytes.div_ceil(PART)));
        Ok(region)
    }

    /// Binds all pages to `node`.
    fn bind(&self, node: u32) -> io::Result<()> {
        let mut mask = vec![0 as libc::c_ulong; (node / WORD) as usize + 1];
        mask[(node / WORD) as usize] = 1 << (node % WORD);
        // The kernel reads one bit less than the given number (see the notes of set_mempolicy(2)).
        let bits = mask.len() as libc::c_ulong * libc::c_ulong::from(WORD) + 1;
        // SAFETY: the range is the mapping, and the kernel reads as many bits as the mask holds.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.bytes,
                libc::MPOL_BIND,
                mask.as_ptr(),
                bits,
                0,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Writes to every page, so that page faults are not part of the measured time.
    fn touch(&self, threads: usize) {
        let page = rustix::param::page_size();
        let part = self.bytes.div_ceil(threads).next_multiple_of(page);
        let touch = |hand: usize| {
            for at in (hand * part..((hand + 1) * part).min(self.bytes)).step_by(page) {
                // SAFETY: within the mapping, which consists of whole pages. Each thread has its own part,
                // and no other code has the address yet.
                unsafe { self.start.as_ptr().byte_add(at).write_volatile(0) };
            }
        };
        in_parallel(threads, &touch);
    }

    /// Returns the start of the region, which is aligned to a page.
    pub(super) fn start(&self) -> *mut u64 {
        self.start.as_ptr()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the address and size of the mapping created in `new`. All code that has taken addresses
        // holds the region.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Calls `part` with 0 to `threads`, each on its own thread as far as threads can be started.
pub(super) fn in_parallel(threads: usize, part: &(impl Fn(usize) + Sync)) {
    thread::scope(|scope| {
        let start = |hand| thread::Builder::new().spawn_scoped(scope, move || part(hand)).is_ok();
        let left: Vec<usize> = (1..threads).filter(|&hand| !start(hand)).collect();
        part(0);
        left.into_iter().for_each(part);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_allocated() {
        let page = rustix::param::page_size();
        for (bytes, threads) in [(1, 1), (3 * PART + 5, 3), (2 * PART, 64)] {
            let region = Region::new(bytes, None, threads).unwrap();
            let pages = bytes.div_ceil(page);
            let mut seen = vec![0_u8; pages];
            // SAFETY: the mapping, and one byte for each of its pages.
            let result = unsafe { libc::mincore(region.start().cast(), bytes, seen.as_mut_ptr()) };
            assert_eq!(result, 0);
            assert!(seen.iter().all(|state| state & 1 == 1), "{bytes} bytes, {threads} threads");
        }
    }

    #[test]
    fn a_missing_node_is_refused() {
        let error = Region::new(4096, Some(1023), 1).err().and_then(|error| error.raw_os_error());
        // The kernel refuses the call itself without NUMA, or in a sandbox.
        assert!([Some(libc::EINVAL), Some(libc::ENOSYS), Some(libc::EPERM)].contains(&error), "{error:?}");
    }
}
