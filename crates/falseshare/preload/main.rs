//! The library of manycore that is preloaded into the emulated program. It reports to the plugin which blocks
//! are allocated and which locks are taken, with the calls that led there.
//!
//! Its functions override those of the C library and call them. It allocates no heap memory itself, so that
//! the program's heap has the same layout as without it.

#[path = "../src/shadow/mod.rs"]
mod shadow;

mod callers;
mod locks;
mod memory;
mod next;
