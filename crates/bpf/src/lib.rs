//! Loads the BPF programs of this workspace into the kernel, without libraries in C.
//!
//! It loads objects that the build scripts of this workspace compile with clang, and not any object: programs of a
//! section are complete (all functions inlined), maps are declared with [`MAP_SECTION`]'s layout, arrays at fixed
//! addresses and constants by macros of `include/manycore_bpf.h`, and types of the kernel are accessed with relocations
//! (CO-RE) by name. A general loader, libbpf, needs libelf and zlib for the target,
//! which a static program for several architectures would have to bring along;
//! `docs/decisions/0017-own-loader-of-bpf.md` has the comparison.
//!
//! | step | module |
//! |---|---|
//! | types of the kernel and of an object | [`btf`] |
//! | sections, maps, relocations of an object | `elf` |
//! | offsets of the running kernel in place of those of the compiler | `core_relocation` |
//! | maps and programs in the kernel | [`program`], [`map`] |
//! | all entries of a map, events from a buffer | `batch`, [`ring`] |
//! | the operations of a `struct_ops`, such as `sched_ext_ops` | [`struct_ops`] |
#![deny(unsafe_code)]

mod batch;
pub mod btf;
mod core_relocation;
mod elf;
pub mod error;
mod instruction;
pub mod map;
pub mod program;
pub mod ring;
pub mod struct_ops;
mod syscall;

pub use elf::MAP_SECTION;
pub use error::{Error, Result};
pub use program::{Loaded, Loader};
