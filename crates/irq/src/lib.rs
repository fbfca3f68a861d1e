//! Which CPUs handle the interrupts of devices.
#![forbid(unsafe_code)]

pub mod text;
