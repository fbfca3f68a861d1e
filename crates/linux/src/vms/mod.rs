//! Running virtual machines: found by the command lines of their emulators, with the kernel's counters of their threads
//! and memory, libvirt's status files, and the resctrl groups that belong to them.

pub mod command_line;
mod counters;
pub mod memory;
mod readings;
pub mod resctrl_groups;
mod running;
mod status;

pub use counters::host_counters;
pub use readings::{CpuTime, DomainIdentity, DomainReading, HostReading, VcpuReading};
pub use running::{ReadOptions, RunningDomains};
