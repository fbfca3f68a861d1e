//! Reads the kernel's description of the machine and its tasks, and changes settings through the kernel.
//!
//! There is one module per kernel interface. Functions that read the machine take a [`tree::Tree`] and
//! return types of `manycore-model`. A tree is a live system, a copy of its files below a folder, or a
//! capture in one text file. A missing file is not an error; a malformed CPU list is one, and the error
//! names the file.
#![deny(unsafe_code)]

pub mod affinity;
pub mod allocator;
pub mod allowed;
pub mod births;
pub mod board;
pub mod caches;
pub mod capture;
pub mod ceilings;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod counters;
pub mod cpuinfo;
pub mod cpus;
pub mod cpuset;
pub mod deputy;
pub mod devices;
pub mod emulator;
pub mod enclosure;
pub mod ending;
pub mod footprint;
pub mod go;
pub mod holdings;
pub mod interrupts;
pub mod irq;
pub mod job;
pub mod journal;
pub mod kinds;
pub mod libvirt;
pub mod machine;
pub mod memory;
pub mod memory_group;
pub mod memory_policy;
pub mod memory_room;
pub mod memory_sampling;
pub mod memory_use;
pub mod nodes;
pub mod notify;
pub mod pci;
pub mod processes;
pub mod resctrl;
pub mod resident;
pub mod scratch;
pub mod symbols;
pub mod synthetic;
pub mod system;
pub mod targets;
pub mod tasks;
pub mod tmpfs;
pub mod tree;
pub mod trust;
pub mod urgency;

pub use machine::{ReadError, read};
pub use tree::Tree;
