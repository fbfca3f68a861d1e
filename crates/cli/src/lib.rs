//! `manycore`: shows a machine, and measures how the machine and the work on it scale over its cores. Each
//! figure comes with its interval and the conditions under which it was taken.
//!
//! The parts: [`cli`] is the command line. [`cmd`] has one file per verb. [`experiment`] runs trials and
//! emits events but never prints. [`suite`] is what `eval` and `bench` measure. [`study`] measures the user's
//! own commands. [`spawn`] starts light processes. [`metric`] reads figures from the output of commands.
//! [`output`] writes results.
#![forbid(unsafe_code)]

pub mod cli;
pub mod cmd;
pub mod failure;
pub mod folder;
pub mod live;
pub mod load;
pub mod measuring;
pub mod output;
pub mod placing;
pub mod progress;
pub mod signals;
pub mod source;
pub mod study;
