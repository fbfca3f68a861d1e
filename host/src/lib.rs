//! What the kernel tells about the machine and its tasks, and what it lets us set.
//!
//! One module per kernel interface. Readers of the machine take a [`tree::Tree`], which is a live system, a
//! copy of its files below some folder, or a capture in one text file, and return types of `manycore-model`. A
//! file that is absent is an answer; a CPU list that cannot be one is an error that names the file.
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
