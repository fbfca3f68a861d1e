//! Measurement of light processes by the hundred thousand: the time and memory that starting, holding and
//! ending them takes.
//!
//! [`run`] makes the measurement. Each count runs in a fresh runtime (`runtimes`, `session`), so that no run profits
//! from memory which an earlier run allocated. A count that would not fit is refused before it starts
//! (`feasibility`). A control group limits the rest (`cleanup`). `protocol` describes the messages between this
//! program and a runtime. [`builtin`] holds the built-in runtimes.
//!
//! | step | modules |
//! |---|---|
//! | find a runtime, and compile its program once | `runtimes`, `programs/`, `cache` |
//! | refuse counts that will not fit | `feasibility`, with pilot runs and `manycore_experiment::spawning` |
//! | run one count in a fresh runtime | `trial`, `session`, `protocol` |
//! | clean up whatever happens | `cleanup`: control groups, scratch folders, journal |
//!
//! # Programs
//!
//! The program for a runtime is small and readable, and part of the binary. It exchanges lines of words on standard
//! input and output, measures its own start times, and ends when its input ends. tokio tasks, threads and processes
//! are this binary itself with a hidden subcommand (`light`), so all runtimes are measured in the same way.
//!
//! Each count has a fresh runtime, because allocators keep memory that they once had. Memory is read when the runtime
//! reports that all light processes are alive, and before any of them works. Our figure and the runtime's own are
//! both differences to the moment before the first start, so code, tables and carriers that exist anyway cancel out.
//!
//! # Memory limit
//!
//! A runtime enters a control group of its own before it executes its program. The limit of the group is the
//! available memory less a tenth, and the runtime is the first process that the kernel kills. Where no group can be
//! created, only the prediction protects the machine, and a note says so; a run that may exceed the prediction (one
//! that is forced, or one that tests the capacity) is then refused.
//!
//! To find the capacity, one and a half times the predicted number is started. The capacity is the last number that the
//! runtime reported before the kernel killed it, exact to one part in a thousand.
//!
//! # Work
//!
//! The sampler must not wait among the light processes that it samples. So the CPUs are sampled by a thread with the
//! lowest real-time priority, and Erlang's program reads a port of its own at high priority. Rounds of file access
//! that have begun when the time is over are finished and counted: leaving them out would leave out the slow ones.
//!
//! # What the figures mean
//!
//! - A *process* is a fork without exec, the smallest possible process.
//! - tokio aligns tasks to 128 bytes, and the C library's allocator leaves gaps between such blocks. The figure is
//!   what it has from the kernel. The memory in use is a quarter less.
//! - Java's own accounting counts guard pages of stacks, and heap that was never touched. The report says so.
//! - Our figure and the runtime's own are both shown. Where they differ by more than 5 %, a finding says so, and the
//!   kernel's figure counts: a runtime does not report what its allocator keeps.
//!
//! # Cleanup
//!
//! If this program is killed, the runtime is killed with it: it has the kernel's parent-death signal and its input
//! ends. A cleanup process then empties the group, removes scratch folders and undoes the journal.
//!
//! Limits other than memory are in `limits`. Real groups and users are tested against what can be started in them.
#![forbid(unsafe_code)]

pub mod builtin;
mod cache;
mod cleanup;
mod cost;
mod cpus;
mod error;
mod feasibility;
mod limits;
mod measurement;
mod options;
mod protocol;
mod runtimes;
mod session;
mod trial;

pub use error::{Error, Result};
pub use measurement::run;
pub use options::SpawnOptions;
pub use runtimes::needed_programs;
