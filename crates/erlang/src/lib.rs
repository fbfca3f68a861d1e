//! Queries an Erlang node of this machine for its largest process, and for the setting that would have limited it
//! (`erl_call(1)`, `max_heap_size` of `process_flag/2`).
//!
//! What a process says about itself must not lead root anywhere. [`Node::of`] takes the name of the node and the home
//! directory from the process, but connects only to a port of this machine on which the kernel shows that very process
//! to listen. The cookie is read, and the node is queried, by a helper process with the rights of the node's user
//! ([`manycore_linux::helper_process`]). The helper that reads the cookie is the calling program itself with the
//! argument `cookie`, which has to call [`check_cookie`].
#![forbid(unsafe_code)]

mod cookie;
mod error;
mod largest_process;
mod node;
mod port;

pub use cookie::check_cookie;
pub use error::{Error, Result};
pub use largest_process::LargestErlangProcess;
pub use node::Node;
