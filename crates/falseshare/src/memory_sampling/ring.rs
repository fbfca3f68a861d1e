//! Events on one CPU, and the ring buffer into which the kernel writes their records (`perf_event_open(2)`).
#![allow(unsafe_code, reason = "a request to the kernel, and memory that it writes")]

use super::{events::MemoryEvent, record::SAMPLE_TYPE};
use manycore_linux::perf_event;
use perf_event_open_sys::{
    self as sys,
    bindings::{self, perf_event_attr, perf_event_mmap_page},
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    ffi::c_void,
    io,
    mem::offset_of,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr::null_mut,
    sync::atomic::{AtomicU64, Ordering},
};

/// Size of a buffer's data in bytes, a power of two of pages.
const DATA: usize = 1 << 20;

/// Size in bytes of the control page before the data.
const PAGE: usize = 4096;

/// Offset in the control page of the kernel's position; ours follows it.
const HEAD: usize = offset_of!(perf_event_mmap_page, data_head);

/// Events of a process and all that it starts, while they run on one CPU.
pub(super) struct Ring {
    memory: *mut c_void,
    events: Vec<OwnedFd>,
}

impl Ring {
    /// Opens events that are enabled when process `pid` executes its program. The first event records tasks
    /// and mappings.
    pub fn open(pid: i32, cpu: i32, events: &[MemoryEvent]) -> io::Result<Self> {
        let mut open: Vec<OwnedFd> = vec![perf_event::open(tracking(), pid, cpu, -1)?];
        for event in events {
            let leader = open.last().filter(|_| event.in_group).map_or(-1, AsRawFd::as_raw_fd);
            open.push(perf_event::open(attributes(event), pid, cpu, leader)?);
        }
        let flags = MapFlags::SHARED;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let memory = unsafe {
            mmap(null_mut(), PAGE + DATA, ProtFlags::READ | ProtFlags::WRITE, flags, open[0].as_fd(), 0)?
        };
        let ring = Self { memory, events: open };
        for event in &ring.events[1..] {
            // SAFETY: both are descriptors of events that are open.
            if unsafe { sys::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.events[0].as_raw_fd()) } < 0 {
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

/// Returns an event that counts nothing and only records tasks and mappings.
fn tracking() -> perf_event_attr {
    let mut attributes = attributes(&MemoryEvent {
        kind: bindings::PERF_TYPE_SOFTWARE,
        config: [bindings::PERF_COUNT_SW_DUMMY.into(), 0, 0],
        user_only: true,
        ..MemoryEvent::default()
    });
    attributes.set_mmap(1);
    attributes.set_mmap_data(1);
    attributes.set_mmap2(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_task(1);
    attributes
}

fn attributes(event: &MemoryEvent) -> perf_event_attr {
    let mut attributes = perf_event_attr {
        type_: event.kind,
        config: event.config[0],
        sample_type: SAMPLE_TYPE,
        ..perf_event_attr::default()
    };
    attributes.config1 = event.config[1];
    attributes.config2 = event.config[2];
    attributes.sample_period = event.period;
    attributes.set_inherit(1);
    attributes.set_sample_id_all(1);
    attributes.set_precise_ip(event.precise);
    // Events of a group follow their leader.
    attributes.set_disabled(u64::from(!event.in_group));
    attributes.set_enable_on_exec(u64::from(!event.in_group));
    attributes.set_exclude_kernel(u64::from(event.user_only));
    attributes.set_exclude_hv(u64::from(event.user_only));
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_group_start_with_their_leader() {
        let event = |in_group| MemoryEvent { in_group, period: 7, precise: 2, ..MemoryEvent::default() };
        let (leader, member) = (attributes(&event(false)), attributes(&event(true)));
        assert_eq!((leader.disabled(), leader.enable_on_exec(), leader.precise_ip()), (1, 1, 2));
        assert_eq!((member.disabled(), member.enable_on_exec(), member.sample_period), (0, 0, 7));
        assert_eq!((tracking().comm_exec(), tracking().exclude_kernel(), leader.exclude_kernel()), (1, 1, 0));
    }

    #[test]
    fn data_beyond_the_end_continues_at_the_start() {
        let mut bytes = vec![0; 100];
        let near_end = (3 * DATA - 30) as u64;
        assert_eq!(split(near_end, &mut bytes).map(|part| part.len()), [30, 70]);
        assert_eq!(split(7, &mut bytes).map(|part| part.len()), [100, 0]);
        assert_eq!(split((2 * DATA) as u64, &mut bytes).map(|part| part.len()), [100, 0]);
    }
}
