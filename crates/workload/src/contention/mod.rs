//! Loads whose workers share something: a counter, a lock, a queue, a semaphore, a pipe.
//!
//! An object ([`Shared`]) is made once and kept for all its variants, with [`Member`]s that stay alive. Some of
//! them work when they are told to, in ticks like any load; others serve: they wait for what those who work give
//! them. Who serves never has to be stopped, so a worker always ends its tick, and no stop can be a deadlock.

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

/// What workers share.
pub trait Shared: Send + Sync {
    /// The members, by whose place in this list a [`Team`] names them.
    fn members(&self) -> Vec<Member>;

    /// Who takes part where `workers` workers use variant number `variant`.
    fn team(&self, variant: usize, workers: usize) -> Team;

    /// Operations in a tick.
    fn per_tick(&self) -> u64;

    /// Operations of all workers since the start, as the object itself counted them: at rest, no more and no
    /// fewer than what the workers counted. Absent where the object does not count.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// Objects that the kernel keeps after the end of all processes, as [`remove`] takes them.
    fn remains(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends the object: whoever waits for it comes back, whoever serves ends.
    fn close(&self) {}
}

/// What a member does.
pub enum Part {
    /// Follows orders.
    Works(Box<dyn Load>),
    /// Serves until the object is closed.
    Serves(Box<dyn FnOnce()>),
}

/// One who takes part.
pub enum Member {
    /// A thread, which begins with this.
    Thread(Box<dyn FnOnce() -> Part + Send>),
    /// A process, which begins with [`join`] of this name and this object.
    Process {
        /// Which part.
        name: &'static str,
        /// Where the object is.
        object: String,
    },
}

/// Members that are at work together, by their places among the [`Shared::members`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Team {
    /// Those who work.
    pub workers: Vec<usize>,
    /// Those who serve them.
    pub servers: Vec<usize>,
    /// What the workers are told.
    pub parameter: u64,
}

/// The part that a process takes; absent where there is none of that name.
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

/// A number in the text of an object.
fn number(text: &str) -> io::Result<i32> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The errno of the calling thread's last call.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Threads 0 to `count` of which each works on what `load` gives it.
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
