//! Finds cache lines that threads share falsely.
#![deny(unsafe_code)]

pub mod emulator;
pub mod memory_sampling;
pub mod shadow;
pub mod sharing;
pub mod symbols;
pub mod text;
