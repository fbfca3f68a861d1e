//! Loads whose workers share an object: a counter, a lock, a queue, a semaphore, a pipe.
//!
//! An object ([`Shared`]) is created once and used for all its variants, with [`Member`]s that stay alive.
//! Some members work on orders, in ticks like any load. Others serve: they wait for what the workers give
//! them. Serving members never have to be stopped for a worker to end its tick, so stopping cannot deadlock.

mod counter;
mod lock;
mod pipe;
mod queue;
mod ring;
mod sem;
mod sysv;

pub use counter::Counters;
pub use lock::Locks;
pub use pipe::Pipes;
pub use queue::Queues;
pub use sem::Semaphores;
pub use sysv::{Messages, SysvSemaphore, remove};

use crate::Load;
use std::io;

/// An object that workers share.
pub trait Shared: Send + Sync {
    /// Returns the members. A [`Team`] names them by their index in this list.
    fn members(&self) -> Vec<Member>;

    /// Returns the members that take part if `workers` workers use variant number `variant`.
    fn team(&self, variant: usize, workers: usize) -> Team;

    /// Returns the number of operations in a tick.
    fn per_tick(&self) -> u64;

    /// Returns the operations of all workers since the start, as counted by the object itself. While all are
    /// idle, this must equal the workers' own counts. `None` if the object does not count.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// Returns the objects that the kernel keeps after the end of all processes, in the notation of
    /// [`remove`].
    fn remains(&self) -> Vec<String> {
        Vec::new()
    }

    /// Closes the object: waiting workers return, and serving members end.
    fn close(&self) {}
}

/// The role of a member.
pub enum Part {
    /// Works on orders.
    Works(Box<dyn Load>),
    /// Serves until the object is closed.
    Serves(Box<dyn FnOnce()>),
}

/// A thread or process that takes part.
pub enum Member {
    /// A thread that starts with this function.
    Thread(Box<dyn FnOnce() -> Part + Send>),
    /// A process that starts with [`join`] of this name and object.
    Process {
        /// Name of the part.
        name: &'static str,
        /// Description of the object.
        object: String,
    },
}

/// Members that work at the same time, by their indices in [`Shared::members`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Team {
    /// Members that work.
    pub workers: Vec<usize>,
    /// Members that serve them.
    pub servers: Vec<usize>,
    /// The parameter of the workers' load.
    pub parameter: u64,
}

/// Returns the part of this name for a process, or `None` if there is no such part.
///
/// # Errors
/// Those of opening the object.
pub fn join(name: &str, object: &str) -> Option<io::Result<Part>> {
    match name {
        pipe::ASKS => Some(pipe::asks(object)),
        pipe::ANSWERS => Some(pipe::answers(object)),
        sem::PROCESS => Some(sem::process(object)),
        sysv::SEMAPHORE => Some(sysv::semaphore(object)),
        sysv::SENDS => Some(sysv::sends(object)),
        sysv::TAKES => Some(sysv::takes(object)),
        _ => None,
    }
}

/// Parses a number in the description of an object.
fn number(text: &str) -> io::Result<i32> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Returns the errno of the calling thread's last system call.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Returns threads 0 to `count`, each of which works on the load that `load` returns for it.
fn threads<L: Load + Send + 'static>(count: usize, load: impl Fn(usize) -> L) -> Vec<Member> {
    (0..count)
        .map(|worker| {
            let load = load(worker);
            Member::Thread(Box::new(move || Part::Works(Box::new(load))))
        })
        .collect()
}

#[cfg(test)]
mod tests;
