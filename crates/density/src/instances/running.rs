//! What each kind of instance can do.

use super::{custody::Custody, spec::ServiceSpec};
use crate::{Error, Result, template::InstanceValues};
use manycore_control::tool::ToolOutput;
use manycore_linux::{child, tasks};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::AsFd,
};
use std::{fmt::Debug, io, time::Instant};

/// A started instance. It ends when it is dropped.
pub(super) trait Running: Debug + Send {
    /// Stops all of its processes.
    fn pause(&mut self) -> Result;

    /// Makes them run again.
    fn resume(&mut self) -> Result;

    /// Checks that it has not ended by itself.
    ///
    /// # Errors
    /// [`crate::Error::Ended`].
    fn check(&mut self) -> Result;

    /// Waits until it ends, or until that moment.
    fn wait(&mut self, until: Instant) -> Result;

    /// Returns all of its processes, the first one first.
    fn processes(&self) -> Vec<u32>;

    /// Returns the process that an engine has started to supervise it, and which collects the CPU time of its processes.
    fn supervisor(&self) -> Option<u32> {
        None
    }

    /// Returns the last line that it has printed to standard error, if that is known without asking for it.
    fn last(&self) -> String {
        String::new()
    }

    /// Returns the bytes of memory that the kernel charges to it, if that is known.
    fn memory(&self) -> Option<u64> {
        None
    }
}

/// What the start of an instance needs.
pub(super) struct Start<'a> {
    pub(super) spec: &'a ServiceSpec,
    pub(super) values: &'a InstanceValues,
    pub(super) custody: Option<&'a mut Custody>,
}

/// Returns a process and all below it, the process first.
pub(super) fn with_descendants(first: u32) -> Vec<u32> {
    ordered(first, tasks::with_descendants(&[first]))
}

/// Returns processes with `first` at the begin.
pub(super) fn ordered(first: u32, all: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut all: Vec<u32> = all.into_iter().collect();
    all.sort_by_key(|&pid| (pid != first, pid));
    all
}

/// Waits until a process ends, or until a moment. Returns whether it has ended.
pub(super) fn wait_for_end(process: &impl AsFd, until: Instant) -> bool {
    let mut one = [PollFd::new(process, PollFlags::IN)];
    // A signal to us may end the wait early; the caller tries again.
    poll(&mut one, Some(&child::left(until))).is_ok_and(|count| count > 0)
}

/// Returns the last line that a program printed, to standard error if it used that.
pub(super) fn last_line(done: &ToolOutput) -> String {
    if done.last.is_empty() { last_output_line(done) } else { done.last.clone() }
}

/// Returns the last line that a program printed to standard output.
pub(super) fn last_output_line(done: &ToolOutput) -> String {
    let last = done.output.lines().rfind(|line| !line.trim().is_empty());
    last.map(|line| line.trim().chars().take(300).collect()).unwrap_or_default()
}

/// Takes the failure of a program as an error, with the last line that it printed.
pub(super) fn succeeded(done: &ToolOutput) -> io::Result<()> {
    if done.status.success() { Ok(()) } else { Err(io::Error::other(last_line(done))) }
}

/// Returns the error of a program that manages instances and failed before it started one. For the first instance, the
/// program is named as what fails; a later one is an instance that cannot be started.
pub(super) fn manager_fails(
    index: usize,
    program: &'static str,
    source: io::Error,
    hint: &'static str,
) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::MissingProgram(program),
        _ if index == 0 => Error::ManagerFails { program, source, hint },
        _ => Error::Start { index, program: program.to_owned(), source },
    }
}

/// An instance of another program has the name of ours.
pub(super) fn exists_already(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} exists already"))
}
