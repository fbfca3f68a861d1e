//! Linux interfaces, one module each.
//!
//! A module reads or sets one interface of the kernel and decides nothing. Files are read through a `SysTree` where a
//! test or a saved capture can stand in for the running system. A process, thread or group that has ended meanwhile
//! is an answer (`None`), and not an error. Files that root trusts are checked first (`trusted_file`).
//!
//! | interface | modules |
//! |---|---|
//! | tasks and their CPUs | `tasks`, `process_reader` (without allocating), `task_state` (files stay open), `affinity`, `pidfd`, `proc_events`, `process_times`, `targets`, `absent_process` (`hidepid`), `counters`, `clock`, `kept_sum` (the CPU clock of a process without a visit of its threads) |
//! | counters of the CPU and the kernel | `perf_event`, `task_counters` (of single threads) |
//! | the kernel | `kernel`: its version |
//! | users | `users`: their names |
//! | commands | `job` (runs one to its end), `child` (starts one that cannot outlive us), `helper_process` (runs one without our privileges) |
//! | memory | `memory`, `available_memory`, `memory_policy`, `process_memory`, `memory_lock`, `tmpfs`, `allocator` |
//! | interrupts | `interrupts` |
//! | network | `network_counters` |
//! | schedulers | `sched_ext`, `scheduling_class` |
//! | resctrl | `resctrl`: state, capabilities, monitors, rates |
//! | virtual machines | `vms`: running emulators and what they use |
//! | files | `whole_file`, `line_file`, `scratch`, `trusted_file` |
//!
//! # Commands
//!
//! A command (`job`) starts in its placement: affinity and memory policy are set between fork and exec, and
//! inherited. Its end is awaited through a pidfd, and its resource usage comes from `wait4`. This process is a
//! subreaper. So processes that the command leaves behind become its children; they are ended and reported.
//!
//! # Dialects of resctrl
//!
//! Five kernels share the files of resctrl with different meanings: Intel RDT, AMD PQoS, Arm MPAM, and openEuler 6.6
//! and 5.10. They are distinguished by the CPU's vendor and by the files: openEuler's kernels by lines that no other
//! has, and its 5.10 by monitors that are files or by lines that depend on mount options. The monitor files of a
//! group are kept open between readings.
//!
//! # Files that root reads
//!
//! Rules are read only where no other user can write the file or replace a part of its path (`trusted_file`). Events
//! are written only to a regular file of our own with a single name, never through a link.
#![deny(unsafe_code)]

pub mod absent_process;
pub mod affinity;
pub mod allocator;
pub mod available_memory;
pub mod child;
pub mod clock;
pub mod counters;
pub mod helper_process;
pub mod input_file;
pub mod interrupts;
pub mod job;
pub mod kept_sum;
pub mod kernel;
pub mod line_file;
pub mod memory;
pub mod memory_lock;
pub mod memory_policy;
pub mod network_counters;
pub mod perf_event;
pub mod pidfd;
pub mod port;
pub mod proc_events;
pub mod process_memory;
pub mod process_reader;
pub mod process_times;
pub mod realtime;
pub mod resctrl;
pub mod sched_ext;
pub mod scheduling_class;
pub mod scratch;
pub mod sd_notify;
pub mod targets;
pub mod task_counters;
pub mod task_state;
pub mod tasks;
pub mod tmpfs;
pub mod trusted_file;
pub mod users;
pub mod vms;
pub mod wake_channel;
pub mod whole_file;
