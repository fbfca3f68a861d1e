//! The part of manycore that lives in the emulated program: it tells the plugin which blocks the allocator gives
//! and to whom, and has programs that this one becomes or starts run in the emulator too.
//!
//! Its functions stand before those of the C library, which do the work.

mod callers;
mod launch;
mod memory;
mod next;
mod own;
mod programs;
