//! Events on one CPU, and the ring buffer into which the kernel writes their records (`perf_event_open(2)`).
#![allow(unsafe_code, reason = "a system call without a wrapper, and memory that the kernel writes")]

use super::{events::Event, record::SAMPLE_TYPE};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    ffi::c_void,
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    ptr::null_mut,
    sync::atomic::{AtomicU64, Ordering},
};

/// Size of a buffer's data in bytes, a power of two of pages.
const DATA: usize = 1 << 20;

/// Size in bytes of the control page before the data.
const PAGE: usize = 4096;

/// Offsets in the control page of the kernel's position and of ours (`data_head`, `data_tail`).
const HEAD: usize = 1024;

/// `PERF_FLAG_FD_CLOEXEC`
const CLOSE_ON_EXEC: i32 = 8;

/// `PERF_EVENT_IOC_SET_OUTPUT`
const SET_OUTPUT: libc::Ioctl = 0x2405;

/// `struct perf_event_attr` of 112 bytes (`PERF_ATTR_SIZE_VER5`), `linux/perf_event.h`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    unused: [u64; 5],
}

/// Bits of [`Attributes::flags`].
mod flag {
    pub const DISABLED: u64 = 1;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const TASK: u64 = 1 << 13;
    pub const PRECISE: u32 = 15;
    pub const MMAP_DATA: u64 = 1 << 17;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
}

/// Events of a process and all that it starts, while they run on one CPU.
pub(super) struct Ring {
    memory: *mut c_void,
    events: Vec<OwnedFd>,
}

impl Ring {
    /// Opens events that are enabled when process `pid` executes its program. The first event records tasks
    /// and mappings.
    pub fn open(pid: i32, cpu: i32, events: &[Event]) -> io::Result<Self> {
        let mut open: Vec<OwnedFd> = vec![perf_event(&tracking(), pid, cpu, -1)?];
        for event in events {
            let leader = open.last().filter(|_| event.in_group).map_or(-1, AsRawFd::as_raw_fd);
            open.push(perf_event(&attributes(event), pid, cpu, leader)?);
        }
        let flags = MapFlags::SHARED;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let memory = unsafe {
            mmap(null_mut(), PAGE + DATA, ProtFlags::READ | ProtFlags::WRITE, flags, open[0].as_fd(), 0)?
        };
        let ring = Self { memory, events: open };
        for event in &ring.events[1..] {
            // SAFETY: both are descriptors of events that are open.
            if unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, ring.events[0].as_raw_fd()) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(ring)
    }

    /// Returns the records that the kernel has written since the last call.
    pub fn read(&mut self) -> Vec<u8> {
        // SAFETY: the first page holds both positions, 8 bytes each and aligned; the kernel accesses them
        // atomically too.
        let (head, tail) = unsafe {
            let head = self.memory.byte_add(HEAD).cast::<AtomicU64>();
            (&*head, &*head.add(1))
        };
        let (end, start) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let mut bytes = vec![0; DATA.min((end - start) as usize)];
        for (at, bytes) in [start as usize % DATA, 0].into_iter().zip(split(start, &mut bytes)) {
            // SAFETY: the kernel does not write between the two positions, and `at` is within the data.
            unsafe {
                let from = self.memory.byte_add(PAGE + at).cast::<u8>();
                from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
            }
        }
        tail.store(end, Ordering::Release);
        bytes
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: no reference to the mapping is left.
        let _ = unsafe { munmap(self.memory, PAGE + DATA) };
    }
}

/// Returns the ranges of the data to read from a position: one up to the end of the data, and one from its start.
fn split(position: u64, bytes: &mut [u8]) -> [&mut [u8]; 2] {
    let first = bytes.len().min(DATA - position as usize % DATA);
    bytes.split_at_mut(first).into()
}

/// Returns an event that counts nothing and only records tasks and mappings (`PERF_COUNT_SW_DUMMY`).
fn tracking() -> Attributes {
    use flag::{COMM, COMM_EXEC, MMAP, MMAP_DATA, MMAP2, TASK};
    let mut attributes =
        attributes(&Event { kind: 1, config: [9, 0, 0], user_only: true, ..Event::default() });
    attributes.flags |= MMAP | MMAP_DATA | MMAP2 | COMM | COMM_EXEC | TASK;
    attributes
}

fn attributes(event: &Event) -> Attributes {
    use flag::{
        DISABLED, ENABLE_ON_EXEC, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, PRECISE, SAMPLE_ID_ALL,
    };
    let user = if event.user_only { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR } else { 0 };
    // Events of a group follow their leader.
    let start = if event.in_group { 0 } else { DISABLED | ENABLE_ON_EXEC };
    Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config[0],
        config1: event.config[1],
        config2: event.config[2],
        period: event.period,
        sample_type: SAMPLE_TYPE,
        flags: start | INHERIT | SAMPLE_ID_ALL | user | event.precise << PRECISE,
        ..Attributes::default()
    }
}

fn perf_event(attributes: &Attributes, pid: i32, cpu: i32, leader: i32) -> io::Result<OwnedFd> {
    let call = libc::SYS_perf_event_open;
    // SAFETY: the kernel reads the structure, which contains its own size.
    let result =
        unsafe { libc::syscall(call, std::ptr::from_ref(attributes), pid, cpu, leader, CLOSE_ON_EXEC) };
    match result {
        0.. => {
            // SAFETY: the descriptor is new and owned by nothing else.
            Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_that_the_kernel_knows() {
        assert_eq!(size_of::<Attributes>(), 112);
    }

    #[test]
    fn what_goes_over_the_end_continues_at_the_start() {
        let mut bytes = vec![0; 100];
        let near_end = (3 * DATA - 30) as u64;
        assert_eq!(split(near_end, &mut bytes).map(|part| part.len()), [30, 70]);
        assert_eq!(split(7, &mut bytes).map(|part| part.len()), [100, 0]);
        assert_eq!(split((2 * DATA) as u64, &mut bytes).map(|part| part.len()), [100, 0]);
    }
}
