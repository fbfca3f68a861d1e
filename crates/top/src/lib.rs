//! Samples CPUs and tasks at intervals, and what follows from two samples.
//!
//! [`Sampler`] reads `/proc` into a [`Sample`]: running totals, as the kernel has them. [`Picture::new`] takes two
//! samples and a `Machine`, and is a pure function: shares, rates, and sums by level. None of this needs privileges.
//!
//! As root, [`bpf::Counters`] adds latencies and migrations that programs in the kernel count, and [`trace`] records
//! single events.
//!
//! # What is read when
//!
//! Reading a file of a task costs microseconds, so that ten thousand tasks would cost a large part of a CPU
//! (`examples/sampling_cost.rs`). Files are therefore read only where something can have changed:
//!
//! 1. The list of processes, if the system has created tasks since it was read.
//! 2. For each process without threads that have run lately, its CPU clock: one system call. If the clock stands and no thread of
//!    the process was runnable, no thread has run since, so that no counter of a thread has changed, and no thread has begun or
//!    ended. The kernel keeps the sum that this clock is of processes with many threads
//!    ([`KeptSum`](manycore_linux::kept_sum::KeptSum)); otherwise it visits all threads for each reading.
//! 3. Otherwise `schedstat` of its threads, from files that stay open up to a limit: first of those that have run lately.
//!    The clock is the sum of the times of all threads and of those that have ended. Reading stops as soon as the increase
//!    of the clock is accounted for to the nanosecond, since then no other thread has run. Threads are listed again only
//!    if their number (the links of `/proc/PID/task`) is not that of the threads that are known.
//! 4. `stat`, and `status` where switches are wanted, of the threads whose `schedstat` has changed or that were
//!    runnable. Files of active threads stay open.
//!
//! A thread that waits for a CPU does not run. Its wait is in no counter of the kernel until it ends; that it is runnable
//! is known if it ran lately. If a CPU had no idle time, and the kernel counts more runnable tasks than are known, in two samples
//! in a row, the states of others are read too, in parts, so that such a thread is seen at the latest after 18 samples, mostly after two. A thread
//! that is put on a CPU shows its wait and its slice when its first nanoseconds are counted, up to a tick later.
//!
//! [`ProcessDetails`] has the control group, its pressure and the memory by node of single processes, on request.
//!
//! What others can change while a process sleeps is seen late. The affinity of each thread is compared once in
//! [`SamplerOptions::refresh`] samples, and less often where there are many thousands. Each eighth time it is read completely, with
//! its name. The resident set is that of the process: it is read with each thread that has run.
//!
//! A sample shares the threads that have not changed with those before it ([`TaskList`]): they are not copied, and the encoder
//! of the last minutes does not compare them.
//!
//! What [`Wanted`] names is read in each sample. Names are kept once, so that equal ones share their memory.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod bpf;
mod details;
pub mod findings;
pub mod history;
mod memory_tour;
pub mod page;
mod parse;
mod picture;
mod plans;
mod resources;
mod sample;
mod sampler;
pub mod serve;
pub mod snapshot;
mod task_list;
pub mod text;
pub mod trace;
mod units;
pub mod view;

pub use details::{Pressure, ProcessDetails};
pub use history::{History, HistoryLimits, Recorder, RecordingEnd, RecordingHead, Replay};
pub use memory_tour::{LARGE_PROCESS_KIB, MemoryTour};
pub use picture::{
    BandwidthUse, CountedUse, CpuShares, CpuUse, GroupUse, InterruptUse, Migration, NodeUse, Picture,
    ProcessUse, TaskUse, UnitUse, UserNames, WaitSums,
};
pub use plans::{Plan, PlanReader, PlanState, Plans};
pub use resources::{
    BandwidthSample, GroupParts, GroupSample, GuestSample, GuestSearch, InterruptSample, LATENCY_CLASSES,
    LatencyHistogram, LatencySample, NodeSample, Wanted,
};
pub use sample::{
    CountedSample, CpuTimes, ProcessSample, Sample, SystemCounters, TaskId, TaskName, TaskSample,
};
pub use sampler::{Sampler, SamplerOptions};
pub use task_list::TaskList;
