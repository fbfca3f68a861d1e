//! Loads whose workers share an object: a counter, a lock, a queue, a semaphore, a pipe.
//!
//! An object ([`SharedObject`]) is created once and used for all its variants, with [`Member`]s that stay alive.
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
pub trait SharedObject: Send + Sync {
    /// Returns the members. A [`Team`] names them by their index in this list.
    fn members(&self) -> Vec<Member>;

    /// Returns the members that take part if `workers` workers use variant number `variant`.
    fn team(&self, variant: usize, workers: usize) -> Team;

    /// Returns the number of operations in a tick.
    fn per_tick(&self) -> u64;

    /// Returns the operations of all workers since the start, as counted by the object itself. While all are
    /// idle, this must equal the workers' own counts. `None` if the object does not count.
    fn object_count(&self) -> Option<u64> {
        None
    }

    /// Returns the objects that the kernel keeps after the end of all processes, in the notation of
    /// [`remove`].
    fn kernel_objects(&self) -> Vec<String> {
        Vec::new()
    }

    /// Closes the object: waiting workers return, and serving members end.
    fn close(&self) {}
}

/// The role of a member.
pub enum Role {
    /// Works on orders.
    Worker(Box<dyn Load>),
    /// Serves until the object is closed.
    Server(Box<dyn FnOnce()>),
}

/// A thread or process that takes part.
pub enum Member {
    /// A thread that starts with this function.
    Thread(Box<dyn FnOnce() -> Role + Send>),
    /// A process that starts with [`open_role`] of this name and object.
    Process {
        /// Name of the role.
        name: &'static str,
        /// Description of the object.
        object: String,
    },
}

/// Members that work at the same time, by their indices in [`SharedObject::members`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Team {
    /// Members that work.
    pub workers: Vec<usize>,
    /// Members that serve them.
    pub servers: Vec<usize>,
    /// The parameter of the workers' load.
    pub parameter: u64,
}

/// Returns the role of this name for a process, or `None` if there is no such role.
///
/// # Errors
/// Those of opening the object.
pub fn open_role(name: &str, object: &str) -> Option<io::Result<Role>> {
    match name {
        pipe::PIPE_CLIENT => Some(pipe::open_client(object)),
        pipe::PIPE_SERVER => Some(pipe::open_server(object)),
        sem::PROCESS => Some(sem::open_process(object)),
        sysv::SEMAPHORE => Some(sysv::open_semaphore(object)),
        sysv::SENDER => Some(sysv::open_sender(object)),
        sysv::RECEIVER => Some(sysv::open_receiver(object)),
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
            Member::Thread(Box::new(move || Role::Worker(Box::new(load))))
        })
        .collect()
}

#[cfg(test)]
mod tests;
