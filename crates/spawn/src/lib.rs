//! Starts light processes of many runtimes and measures what they cost.
#![forbid(unsafe_code)]

pub mod ceilings;
