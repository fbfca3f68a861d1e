//! The topology of a Linux machine: packages, NUMA nodes, caches, clusters, cores and CPUs.
//!
//! [`read()`] takes a [`SysTree`], which is a live system, a copy of its files below some folder, or a capture in one
//! text file, and returns a [`Machine`]. A file that is absent is an answer; a CPU list that cannot be one is an error
//! that names the file.
//!
//! ```
//! use manycore_topology::{CpuSet, SysTree, read, synthetic::MachineSpec};
//!
//! // A machine that does not exist: two packages of four cores with two threads each. For the one that this runs on,
//! // open the root directory: SysTree::open("/".as_ref()).
//! let spec = MachineSpec { packages: 2, cores: 4, threads: 2, ..MachineSpec::default() };
//! let machine = read(&SysTree::from_capture(spec.capture()))?;
//!
//! assert_eq!(machine.online, "0-15".parse::<CpuSet>()?);
//! assert_eq!(machine.packages[1].cpus, "8-15".parse()?);
//! assert_eq!((machine.cores.len(), machine.last_level_caches().count()), (8, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules use each other in this order: [`capture`], [`sys_tree`], the readers (`read`), and beside them
//! [`machine`], which is pure data. [`level`], [`topology_tree`], [`distance`] and [`pairs`] derive facts from a [`Machine`].
//!
//! A saved machine (`capture`) is the text of the kernel's files that were read, and not the result. So a later
//! version reads more from an old capture. Topology is read from sysfs here and compared with hwloc in tests. hwloc's
//! binding for Rust would need the C library when the program is built.
//!
//! `synthetic` writes the files that Linux would show for an invented machine. `pairs` selects pairs of CPUs where
//! there is no time for all of them.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod capture;
pub mod cgroup;
pub mod cpuset;
pub mod distance;
mod error;
pub mod level;
pub mod machine;
pub mod pairs;
mod read;
pub mod synthetic;
pub mod sys_tree;
pub mod topology_tree;

pub use cpuset::{CpuId, CpuSet};
pub use distance::TopologyDistance;
pub use error::Error;
pub use level::Level;
pub use machine::Machine;
pub use read::read;
pub use sys_tree::SysTree;

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
