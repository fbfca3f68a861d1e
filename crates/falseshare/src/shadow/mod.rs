//! Records which threads access which bytes of a cache line, for each access of a program that runs in an emulator.
//!
//! This module is compiled into three programs. The *plugin* (`plugin/`) is loaded into the emulator, handles each
//! access, and writes the results to a [`region`] of shared memory. The observer creates the region, and
//! reads it after the program has ended in any way ([`reader`]). The preloaded library (`preload/`)
//! reports allocations to the plugin. The build script compiles plugin and library with plain rustc, so this
//! module uses the standard library alone.
//!
//! ```text
//! access -> owner_table  one word per line: which threads accessed it so far  (private memory of the process)
//!        -> lines        shared lines: their owners, and accesses by code     (in the region)
//! ```
#![allow(unsafe_code, reason = "shared memory is a pointer")]

pub mod counts;
pub mod elf;
pub mod fast_path;
pub mod heap;
mod line_state;
pub mod lines;
pub mod lock;
pub mod maps;
pub mod marks;
pub mod owner_table;
pub mod process_tracker;
pub mod program;
pub mod reader;
pub mod region;
pub mod report_protocol;
pub mod sampling_windows;
pub mod sys;
pub mod unobserved;

pub use fast_path::ThreadFastPath;
pub use process_tracker::{AccessKind, ProcessTracker};
