//! Records which threads access which bytes of a cache line, for each access of a program that runs in an emulator.
//!
//! This crate is used by two programs. The *plugin* (`plugin/`) is loaded into the emulator, handles each
//! access, and writes the results to a [`region`] of shared memory. The observer creates the region, and
//! reads it after the program has ended in any way ([`reader`]). The build script of `manycore-host` compiles
//! the plugin with plain rustc, so this crate has no dependencies.
//!
//! ```text
//! access -> grid   one word per line: which threads accessed it so far  (private memory of the process)
//!        -> lines  shared lines: their owners, and accesses by code     (in the region)
//! ```
#![allow(unsafe_code, reason = "shared memory is a pointer")]

pub mod calls;
pub mod counts;
pub mod elf;
pub mod escape;
pub mod grid;
pub mod heap;
pub mod lane;
pub mod lines;
pub mod lock;
pub mod maps;
pub mod marks;
pub mod program;
pub mod reader;
pub mod region;
pub mod shadow;
pub mod sys;
pub mod windows;

pub use lane::Lane;
pub use shadow::{Kind, Shadow};
