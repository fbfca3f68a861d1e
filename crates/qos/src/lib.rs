//! Limits of memory bandwidth and cache for groups of tasks: what a machine can limit, which limits are in force, what is
//! requested, and what the kernel made of it (`Documentation/filesystems/resctrl.rst`). The dialects of
//! kernels are in [`manycore_linux::resctrl::dialect`].
//!
//! ```text
//! LimitRequest -> translate (pure) -> SchemataWrite -> write (the kernel) -> LimitOutcome -> text
//! ```
//!
//! | stage | what it is |
//! |---|---|
//! | `LimitRequest` | what a user requests, independent of the kernel's syntax |
//! | capabilities | what this kernel, its mount and its hardware can set; read by `manycore_linux::resctrl` |
//! | translation (`translate`) | the lines to write, or every reason why the request cannot be met |
//! | `LimitOutcome` | requested, written and in force, and why they differ |
//!
//! # Translation
//!
//! Five dialects use the same files with different meanings; `manycore_linux::resctrl::dialect` distinguishes them.
//! The capabilities hold the bounds of each line, so translation reads nothing from the kernel. Nothing is written
//! unless the whole request can be met. Values are compared as numbers, because kernels pad them with blanks or
//! zeros.
//!
//! # Writing
//!
//! A refused write is classified by its error number first. `last_cmd_status` is a hint only: where the kernel gives
//! up early, it says "ok" or describes an earlier command. Every write is read back, because kernels round values and
//! some ignore them.
//!
//! `qos set` creates the group, sets its limits, reads them back, and moves the tasks last. So no task runs under a
//! part of its limits. It moves again until no task is outside, which catches threads that are created meanwhile;
//! later ones inherit the group.
//!
//! # Undoing
//!
//! The journal has the former group of each task, which may be a monitoring group. A task that was created in the
//! group goes to the group that its nearest recorded ancestor goes to. A limit of a group that existed before is
//! restored if its value is the one that was written, the one that the kernel was expected to make of it, or the one
//! that was read back. A mount that others use stays, and its journal entry stays pending.
//!
//! # Proof
//!
//! `qos prove` is an experiment like any other. Its workers are processes, because only tasks of their own can be in
//! groups. There is a treatment for each group, and the verdict follows the common rule: a limit is enforced where
//! the difference is shown; it is not enforced where both are equivalent; noise that could hide a limit is
//! inconclusive.
//!
//! # Watching
//!
//! `qos watch` reads monitors at equal times. A rate is a pure function of two readings. What the first reading lacks
//! has no rate. A group is identified as the n-th group that was found under its name, so a removed and recreated
//! group starts anew. A sum is missing where one of its parts is missing. Monitor files are kept open and read in
//! place. Those of a removed group fail with `ENODEV`, even if a group of the same name was created since.
#![forbid(unsafe_code)]

pub mod changes;
pub mod clear;
pub mod enforcement;
pub mod error;
pub mod limit_outcome;
pub mod prove;
pub mod request;
pub mod set;
pub mod show;
mod system;
pub mod text;
pub mod translate;
pub mod watch;
pub mod watch_text;
pub mod write;

pub use error::{Error, Result};
pub use system::{created_groups, open, system};
