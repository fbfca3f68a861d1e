//! The part of manycore that lives in the emulated program: it reports to the plugin which blocks the allocator gives
//! and which locks are taken, with the calls that led there.
//!
//! Its functions stand before those of the C library, which do the work. It allocates nothing itself, so that the
//! program's heap is laid out as it would be without it.

#[path = "../src/shadow/mod.rs"]
mod shadow;

mod callers;
mod locks;
mod memory;
mod next;
