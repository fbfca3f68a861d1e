//! Writes to files of resctrl.

use crate::tasks;
use manycore_topology::CpuSet;
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

/// Writes one line in one call: the kernel treats each call as a command of its own.
///
/// # Errors
/// The error of the system call, which is how the kernel rejects the line.
pub fn put(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// Adds CPUs to a group's list.
///
/// # Errors
/// The list cannot be read, or the kernel rejects the CPUs.
pub fn add_cpus(file: &Path, cpus: &CpuSet) -> io::Result<()> {
    let now: CpuSet = fs::read_to_string(file)?.parse().unwrap_or_default();
    put(file, &format!("{}\n", now.union(cpus)))
}

/// Whether writing a task's id failed because the task has ended: with ESRCH, or, as kernels differ, with any
/// error if the task no longer exists.
pub fn is_gone(error: &io::Error, tid: u32) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || tasks::start_time(tid).is_none()
}
