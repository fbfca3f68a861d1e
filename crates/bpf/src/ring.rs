//! Events that programs send to this process (`Documentation/bpf/ringbuf.rst`).
#![allow(unsafe_code, reason = "the buffer is mapped")]

use crate::{Error, Result, map::Map};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    io, ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// In the length of an event: it is being written, or it was given up (`BPF_RINGBUF_BUSY_BIT`, `_DISCARD_BIT`).
const BUSY: u32 = 1 << 31;
const GIVEN_UP: u32 = 1 << 30;
/// Bytes before each event.
const HEADER: usize = 8;

/// A buffer of events, in the memory of this process. A program that finds it full cannot send.
#[derive(Debug)]
pub struct Ring {
    /// A page with the position up to which this process has read.
    consumer: *mut u8,
    /// A page with the position up to which programs have written, then the events twice, so that none is in two parts.
    producer: *mut u8,
    /// Size of the buffer in bytes, a power of two.
    bytes: usize,
    page: usize,
    /// The event at hand.
    event: Vec<u8>,
}

// SAFETY: the positions are read and written by atomic operations, and the mappings live as long as the value.
unsafe impl Send for Ring {}

impl Map {
    /// Maps a buffer of events (`BPF_MAP_TYPE_RINGBUF`), whose number of entries is its size in bytes, into the memory of
    /// this process. There must be only one [`Ring`] of a map at a time.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel refuses it.
    pub fn ring(&self) -> Result<Ring> {
        let page = rustix::param::page_size();
        let map = |length: usize, protection: ProtFlags, offset: usize| {
            // SAFETY: a new mapping, at an address that the kernel chooses.
            let start = unsafe {
                mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, &self.fd, offset as u64)
            };
            start.map(<*mut _>::cast).map_err(|error| self.failed("mapped", error.into()))
        };
        if !self.entries.is_power_of_two() {
            let problem = "its size is no power of two";
            return Err(self.failed("mapped", io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        let consumer = map(page, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        let producer = map(page + 2 * self.entries, ProtFlags::READ, page);
        let ring = |producer| Ring { consumer, producer, bytes: self.entries, page, event: Vec::new() };
        producer.map(ring).inspect_err(|_: &Error| {
            // SAFETY: the mapping from above, which nothing else refers to.
            let _ = unsafe { munmap(consumer.cast(), page) };
        })
    }
}

impl Ring {
    /// Returns the positions up to which this process has read, and programs have written.
    fn positions(&self) -> [&AtomicU64; 2] {
        // SAFETY: both pages begin with a position of 64 bits, and stay mapped while `self` lives. That of the programs is
        // only loaded, which a page that cannot be written allows.
        [self.consumer, self.producer].map(|page| unsafe { AtomicU64::from_ptr(page.cast()) })
    }

    /// Calls `each` with the events that were sent, in their order, and returns their number.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        let [consumer, producer] = self.positions();
        let (written, mut read) = (producer.load(Ordering::Acquire), consumer.load(Ordering::Relaxed));
        while read < written {
            let at = (read as usize & (self.bytes - 1)) + self.page;
            // SAFETY: `at` is inside of the events, and a multiple of 8, as all sizes of events are. The page cannot be
            // written by this process, which a load does not need.
            let header = unsafe { AtomicU32::from_ptr(self.producer.add(at).cast()) };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !GIVEN_UP) as usize;
            if header & GIVEN_UP == 0 && length <= self.bytes {
                self.event.resize(length, 0);
                // SAFETY: an event begins in the first copy of the buffer, and ends before the end of the second one. No
                // program changes it before the position of this process is behind it.
                unsafe {
                    ptr::copy_nonoverlapping(self.producer.add(at + HEADER), self.event.as_mut_ptr(), length);
                }
                each(&self.event);
                count += 1;
            }
            read += (length + HEADER).next_multiple_of(8) as u64;
            self.positions()[0].store(read, Ordering::Release);
        }
        count
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mappings of `Map::ring`, which nothing else refers to.
        unsafe {
            let _ = munmap(self.consumer.cast(), self.page);
            let _ = munmap(self.producer.cast(), self.page + 2 * self.bytes);
        }
    }
}
