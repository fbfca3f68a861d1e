//! Places commands and processes on CPUs, and enforces the placement of their tasks.
//!
//! A [`PlacementRequest`] resolves to a [`ResolvedPlacement`] on this machine. [`run()`] starts a command with
//! it, and [`PinnedProcesses`] moves running processes. Both follow the tasks with a `PlacementSession`: its
//! [`AffinityEnforcer`] pins tasks when they appear, and a control group holds them once they have run for a
//! while. Every change is in a journal before it is made, and is undone at the end.
//!
//! [`ConfinedThreads`] changes the affinities of single threads, as another part of the program decides; a
//! [`FollowedCommand`] is a command whose threads it may change.

mod cgroup_entry;
mod command_processes;
mod confine;
mod cpu_time;
mod enforcer;
mod follow;
mod journal;
mod pin;
mod request;
mod run;
mod session;
mod signals;
mod switched;
mod worker_cpus;

pub use confine::{ConfinedThreads, ThreadId};
pub use enforcer::AffinityEnforcer;
pub use follow::FollowedCommand;
pub use pin::{MovedTasks, PinEnd, PinnedProcesses, RunningProcesses};
pub use request::{Enforcement, PlacementRequest, ResolvedPlacement};
pub use run::{CommandEnd, LeftRunning, PlacedCommand, run};
pub use signals::SignalSource;
pub use switched::SwitchedProcesses;
pub use worker_cpus::{WorkerCpus, memory_of_workers, place_workers};

use command_processes::CommandProcesses;
use journal::PlacementJournal;
use run::{MARK, reap_orphans};
use session::{PlacementSession, open_journal};
