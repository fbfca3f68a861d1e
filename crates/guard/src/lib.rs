//! Ends the process that exhausts memory before the machine stalls.
//!
//! [`run`] is the guard. Its [`monitor`] thread reads, decides and signals without allocating; its [`slow_path`]
//! does what may take time. [`decision`] is pure: data in, decisions out. `available_memory` of `manycore_linux`,
//! [`process_scan`] and [`memory_objects`] are what it reads.
//!
//! ```text
//! reading -> assessment -> action that is due -> cause -> signal -> event line
//! ```
//!
//! # Two threads
//!
//! The **monitor** goes from a reading to the signal. It neither allocates nor takes a lock that another task may
//! hold while that task waits for memory. Files are kept open and read in place. `/proc/PID/stat` and `status` take
//! no `mmap_lock`. All tables have their size from the start. The monitor runs with `SCHED_FIFO`, which gives it
//! access to the kernel's memory reserves (`rt_or_dl_task` in `mm/page_alloc.c`), and as an I/O flusher, so that
//! reclaim does not make it wait for a disk.
//!
//! The **slow path** does everything that may take time: names of control groups, shared memory (`smaps_rollup` takes
//! `mmap_lock`), files in `tmpfs`, event lines, metrics, rules, queries. The two threads exchange small values
//! through channels, and sleep until there is a message (`wake_channel` of `manycore_linux`). Where the slow path is late, the monitor decides
//! with what it has.
//!
//! Before it begins, the monitor executes the whole path once, against a child of its own. No code on the path then
//! has to be read from a disk later. Pages are locked when they are first used (`MCL_ONFAULT`), so the rest of a
//! large program is not locked. New rules take effect in the slow path first. So each event carries the number of the
//! rules that it follows from.
//!
//! # When to act
//!
//! The urgency follows from the memory that is left, from the time for which it will last, and from stalls. Trends
//! and stalls count only where little memory is left. A trend counts below 1.5 times `term_below`, so that a spike
//! that fits is left alone. The rate is the smaller of that in a window and that in its second half, and it has to
//! persist. So a single step down ends no process.
//!
//! # Which process
//!
//! - Each scan of all processes is a *mark*. Sixteen marks, which are thinned out as they age, cover spans from
//!   fractions of a second to an hour. The cause is the process that grew most in the shortest window in which a
//!   tenth of the memory was lost; its growth over the whole decrease is considered as well. A copy of a large
//!   process (a fork) has not taken the memory of its parent. When the table is full, the smallest and youngest
//!   processes are dropped, and the slow path makes a larger table.
//! - Memory outside of processes' pages is attributed to processes by a scan (`memory_objects`), in a thread of the slow
//!   path. It covers files in memory, pipes and sockets that processes have open or mapped, System V segments, and
//!   the charge of control groups with one process. It runs while memory is plentiful, so that the earlier state is
//!   known, and again when most of a decrease is unexplained. Nothing that a process names is opened: files are
//!   examined through `/proc/PID/fd` without contacting a server, pipes and sockets through a copy of their
//!   descriptor. An object belongs to a process if this process alone, or the eldest of one session and user, can
//!   write to it, and its user has created it. From the warning on, scans follow each other while most of the
//!   decrease is unexplained, with a result after each. The monitor waits for the first result for at most 300 ms.
//! - *Families* are young processes of one session, or similar ones of one control group. If together they took more
//!   than any other cause, they are the cause. The process that created most of them is ended first. Those that are
//!   created meanwhile follow.
//! - *Last resort*: if no process is shown to be the cause, memory still decreases or tasks stall, and the kill
//!   threshold is reached, the eligible process with the highest `oom_score` is ended, unless the rules exclude this.
//!   While the scan works on an unexplained decrease, this waits until less than a quarter of `kill_below` is left or
//!   tasks stall.
//!
//! # In which order
//!
//! There is one cause at a time. No other process is selected before the last one has ended and its memory was
//! counted, or it is clear that it does not end. Sets of processes that are watched by name cannot wait for the next
//! scan: the kernel's last process id shows which ids to examine. A process is held by a pidfd, and its start time is
//! read after that, so a reused id is never signalled. Slowing a process down goes through a journal, like all
//! changes.
//!
//! # Hostile input
//!
//! What a process controls must not lead root anywhere.
//!
//! - An Erlang node is queried by a helper process (`manycore_erlang`). It has the ids of the node's user, no capabilities, small limits
//!   and a deadline. It connects only to a port on which the kernel shows that process to listen. Mounts of other
//!   namespaces are not walked.
//! - What a process chooses does not protect it (`rules`). A protected name counts only together with a user, a unit
//!   or the executable file. The monitor itself reads user and name. Unit and file are a bit in the process's entry
//!   (`proof`) that the slow path sets, and until then the monitor waits for it as it does for control groups. A unit
//!   is what follows the slices at the beginning of a control group's path, because below that a user or a container
//!   can create groups with any name. A file is compared by device and inode, because in a mount namespace of its own
//!   a user can put any file at any path.
//! - Rules are read only where no other user can write them or replace a part of their path. Events go to a regular
//!   file of our own with a single name, never through a link.
//! - Names that processes have chosen are printed through `manycore_text::names`: control characters, characters that
//!   change the direction of text and characters without width are replaced, and escaped in JSON. The program's
//!   output does this once more for everything that goes to a terminal.
//!
//! # Metrics and queries
//!
//! The metrics page is served by a thread with a lower priority, for up to 32 connections. The oldest is closed for a
//! new one, so a scrape succeeds beside any number of idle connections. It serves text that the slow path has
//! written, and never waits for the monitor. Queries (`guard why`) are passed to the monitor at most four times a
//! second, because each costs a scan.
//!
//! `lab/memory` compares the guard with others in small emulated machines.
#![deny(unsafe_code)]

pub mod check;
pub mod console;
pub mod decision;
pub mod error;
pub mod event;
pub mod groups;
pub mod memory_objects;
pub mod metrics;
pub mod monitor;
pub mod outlook;
pub mod process_scan;
pub mod query;
pub mod rules;
pub mod run;
pub mod slow_path;
pub mod text;

pub use error::{Error, Result};
