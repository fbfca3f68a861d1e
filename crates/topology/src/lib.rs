//! The topology of a Linux machine: packages, NUMA nodes, caches, clusters, cores and CPUs.
//!
//! [`read()`] takes a [`SysTree`], which is a live system, a copy of its files below some folder, or a capture in one text
//! file, and returns a [`Machine`]. A file that is absent is an answer; a CPU list that cannot be one is an error that
//! names the file.
#![deny(unsafe_code)]

pub mod capture;
pub mod cgroup;
pub mod cpuset;
pub mod distance;
pub mod machine;
pub mod pairs;
pub mod read;
pub mod synthetic;
pub mod sys_tree;
pub mod topology_tree;

pub use cpuset::{CpuId, CpuSet};
pub use distance::TopologyDistance;
pub use machine::Machine;
pub use read::{ReadError, read};
pub use sys_tree::SysTree;
