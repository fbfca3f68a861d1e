//! `manycore`: measures how a machine and a workload scale over cores, places work and takes it back,
//! isolates neighbours, and proves each claim with honest statistics.
//!
//! A table of contents: [`cli`] is the command line, [`cmd`] has one file per verb, [`experiment`] runs
//! trials and emits events but never prints, [`suite`] is what `eval` measures, [`output`] is where results
//! go.
#![forbid(unsafe_code)]

pub mod cli;
pub mod cmd;
pub mod experiment;
pub mod failure;
pub mod load;
pub mod output;
pub mod progress;
pub mod report;
pub mod source;
pub mod suite;
