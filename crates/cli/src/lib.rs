//! `manycore`: shows a machine, and measures how it and work on it scale over its cores, each figure with its
//! spread and the conditions under which it was taken.
//!
//! A table of contents: [`cli`] is the command line, [`cmd`] has one file per verb, [`experiment`] runs
//! trials and emits events but never prints, [`suite`] is what `eval` measures, [`study`] measures the user's
//! own commands, [`spawn`] starts light processes, [`metric`] reads figures from what they print, [`output`] is where results go.
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
