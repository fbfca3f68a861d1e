//! Text: figures with units, names that a terminal can show, and XML of untrusted origin.
#![forbid(unsafe_code)]

pub mod names;
pub mod units;
pub mod xml;
