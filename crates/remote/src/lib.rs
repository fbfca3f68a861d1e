//! Runs commands on other hosts, by ssh or Slurm.
//!
//! A [`RemoteHost`] is what a user types: an ssh destination, or `slurm:NODE`. A [`RemoteConnection`] is open until it is
//! dropped, and wraps commands: standard input, output and error of a command there are those of the wrapped command here.
//!
//! | by | a connection is | a command |
//! |---|---|---|
//! | ssh | master processes of OpenSSH with a socket in a private directory, so that commands need no handshake | one quoted word for the login shell there, over the socket |
//! | Slurm, many nodes | [`BatchJobs`]: a job for each node, queued by Slurm | a step of that job |
//! | Slurm, inside an allocation | nothing | a step with `srun --overlap` |
//! | Slurm, outside of one | `salloc` of one node, until the connection is dropped | a step of that job |
//!
//! What ends with this process, also after SIGKILL: the master processes and jobs, the directory of the sockets, and commands
//! that are [`supervised`], as their standard input ends then. A host that loses the network without closing the connection
//! notices only when its own `sshd` does.
//!
//! The user's configuration of ssh is used. Neither passwords nor host keys are asked for (`BatchMode`).
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod batch;
mod connection;
mod end;
mod error;
mod host;
mod input;
mod local;
mod quote;
mod run;
mod slurm;
mod ssh;

pub use batch::{BatchJobs, BatchNode, BatchPhase, batch_nodes};
pub use connection::{RemoteConnection, supervised};
pub use error::{Error, Result};
pub use host::{InvalidHost, RemoteHost};
pub use input::write_input;
pub use run::{RemoteOutput, last_line};
