//! Linux interfaces, one module each: tasks, control groups, affinity, interrupts, resctrl, virtual machines.
#![deny(unsafe_code)]

pub mod affinity;
pub mod allocator;
pub mod child;
pub mod clock;
pub mod counters;
pub mod input_file;
pub mod interrupts;
pub mod job;
pub mod line_file;
pub mod memory;
pub mod memory_lock;
pub mod memory_policy;
pub mod proc_events;
pub mod process_memory;
pub mod realtime;
pub mod resctrl;
pub mod scratch;
pub mod sd_notify;
pub mod targets;
pub mod tasks;
pub mod tmpfs;
pub mod trusted_file;
pub mod vms;
pub mod whole_file;
