//! Latencies and migrations, counted exactly by programs in the kernel.
//!
//! | what | rule |
//! |---|---|
//! | wake-up latency | from entering the queue of a CPU after a wake-up, or as a new task, to running; as in `schedstat` (run delay) and `perf sched latency`. The time until a remote CPU reacts to the wake-up is not in it |
//! | displaced | from leaving a CPU while runnable to running again |
//! | time off the CPU | from leaving a CPU to the wake-up (`sleep`, `disk`, `stopped`), or to running again (`displaced`): with the wake-up latencies it is all time off the CPU |
//! | migrations | by the distance of the CPUs, at the moment in which the kernel counts one (`nr_migrations` of `/proc/PID/sched`) |
//! | time on the CPU | by cluster, interrupts included |
//! | conflicts | as defined in `manycore_sharing`: two watched tasks run in one unit while another is idle; of the level of clusters, otherwise of last-level caches, otherwise of cores |
//!
//! The programs run at each switch and each migration, and use the times that the scheduler has read itself: nothing runs
//! at a wake-up. They need a kernel from 6.4 with `CONFIG_DEBUG_INFO_BTF` and `CONFIG_SCHED_INFO`.
//!
//! The programs are removed when [`Counters`] is dropped, or this process ends in any way.

mod counters;
mod error;
mod object;
mod tables;
mod words;

pub use counters::{Counters, Waits};
pub use error::{Error, Result};
pub(crate) use object::{TRACE, loader, possible_cpus};
