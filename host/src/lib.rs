//! What the kernel tells about the machine, read from sysfs and procfs.
//!
//! One module per kernel interface. Every reader takes a [`tree::Tree`], which is a live system, a copy of
//! its files below some folder, or a capture in one text file, and returns types of `manycore-model`. A file
//! that is absent is an answer; a CPU list that cannot be one is an error that names the file.
#![forbid(unsafe_code)]

pub mod allowed;
pub mod caches;
pub mod capture;
pub mod cgroup;
pub mod cpuinfo;
pub mod cpus;
pub mod devices;
pub mod kinds;
pub mod machine;
pub mod nodes;
pub mod pci;
pub mod synthetic;
pub mod system;
pub mod tree;

pub use machine::{ReadError, read};
pub use tree::Tree;
