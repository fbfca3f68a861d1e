//! Figures with units, and names that a terminal can show.
#![forbid(unsafe_code)]

pub mod names;
pub mod units;
