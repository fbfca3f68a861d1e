//! One module for each interface of the kernel. Readers take a root folder and return model types.
#![deny(unsafe_code)]

pub mod affinity;
pub mod board;
pub mod child;
pub mod clock;
pub mod counters;
