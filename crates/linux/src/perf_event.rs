//! Opens and enables events of the kernel (`perf_event_open(2)`).
#![allow(unsafe_code, reason = "bindings of a system call and a request without safe wrappers")]

use perf_event_open_sys::{self as sys, bindings};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Opens an event of thread `pid` (0: the calling thread) while it runs on `cpu` (-1: any), in the group of the event
/// `leader` (-1: a group of its own). The descriptor is closed on exec. The size in `attributes` is set here.
///
/// # Errors
/// The kernel refuses; `perf_event_open(2)` has the list.
pub fn open(
    mut attributes: bindings::perf_event_attr,
    pid: i32,
    cpu: i32,
    leader: i32,
) -> io::Result<OwnedFd> {
    attributes.size = size_of::<bindings::perf_event_attr>() as u32;
    let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the kernel reads and writes the structure, which contains its own size.
    let result = unsafe { sys::perf_event_open(&raw mut attributes, pid, cpu, leader, flags) };
    match result {
        0.. => {
            // SAFETY: the descriptor is new and owned by nothing else.
            Ok(unsafe { OwnedFd::from_raw_fd(result) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Enables an event that was opened disabled, and with it the enabled members of its group.
///
/// # Errors
/// The descriptor is not that of an event.
pub fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes no memory; another kind of descriptor refuses it.
    match unsafe { sys::ioctls::ENABLE(event.as_raw_fd(), 0) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
