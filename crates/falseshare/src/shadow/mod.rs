//! Who touches which bytes of a cache line: kept for each access of a program that an emulator runs.
//!
//! Two programs are made of this crate. The *plugin* (`plugin/`) lives in the emulator, is told each access and
//! writes what matters into a [`region`] of shared memory; the observer made the region, and reads it when the
//! program has ended, however it ended ([`reader`]). The build script of `manycore-host` compiles the plugin with
//! plain rustc, so nothing here depends on another crate.
//!
//! ```text
//! access -> grid   one word a line: who touched it so far      (private to the process, gone with it)
//!        -> lines  lines that threads share: who has it, what  (in the region)
//!                  each touched from where
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
