//! Placement: which CPUs and which memory each worker of a program gets.
//!
//! A [`Policy`] is what a user writes; a [`PlacementPlan`] is its result on one machine. Nothing is applied here.
//!
//! ```
//! use manycore_placement::{Policy, Reserve};
//! use manycore_topology::{SysTree, read, synthetic::MachineSpec};
//!
//! // Two packages of four cores with two threads each: CPUs 0-7 and 8-15, siblings next to each other.
//! let spec = MachineSpec { packages: 2, cores: 4, threads: 2, ..MachineSpec::default() };
//! let machine = read(&SysTree::from_capture(spec.capture()))?;
//!
//! let policy: Policy = "spread".parse()?;
//! let plan = policy.plan(&machine, 4, &Reserve::Nothing)?;
//! let cpus: Vec<String> = plan.workers.iter().map(|worker| worker.cpus.to_string()).collect();
//! assert_eq!(cpus, ["0", "8", "2", "10"]);
//!
//! // A request that the machine cannot meet is an error that names the nearest one that it can.
//! let error = policy.plan(&machine, 17, &Reserve::Nothing)?.check_exclusive().unwrap_err();
//! assert_eq!(error.to_string(), "17 workers on CPUs 0-15 cannot have one CPU each; at most 16 can");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Export`] writes a plan in the syntax of other programs. [`TaskAssignment`] distributes the tasks of a running
//! command over the workers of a plan, and [`PlacementTrace`] says where they ran.
//!
//! # Assigning tasks to workers
//!
//! A command has tasks that work, and tasks that wait for them: the shell of a pipeline, or the thread that joins the
//! workers. Tasks are therefore weighted by the CPU time that they use. A new task counts as working until it is seen
//! to wait, and gets the worker with the fewest working tasks. If one worker has several working tasks and another
//! has none, one task moves. A plan with enough workers ends with one working task on each.
//!
//! # Exports
//!
//! The syntax of each other program has one file in `export`. An export is pure text. So `tune` and `plan` print the
//! same, and a plan for another machine needs nothing of this one. An export contains only what its program reads.
//! What it cannot express is written as a comment in its own syntax; nothing is left out silently.
//!
//! A container or a unit is restricted to memory nodes only under the policy `bind`. Its cpuset is as hard a limit as
//! `bind`, whereas the kernel's default policy would still use the next node when one is full.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod assignment;
mod canonical;
mod cpu_tree;
mod error;
mod export;
mod memory_placement;
mod near_memory;
mod order;
mod plan;
mod planner;
mod policy;
mod pool;
mod reasons;
mod reserve;
#[cfg(test)]
mod tests;
mod trace;
mod unused_cpus;
mod widened;

pub use assignment::{TaskAssignment, TaskId};
pub use canonical::CanonicalPlan;
pub use error::PlacementError;
pub use export::{Export, ExportFormat};
pub use manycore_topology::Level;
pub use memory_placement::{MemoryPlacement, ParseMemoryPlacementError};
pub use plan::{CpuSharing, MAX_CPUS, MAX_WORKERS, PLAN_SCHEMA, PlacementPlan, PlannedWorker};
pub use policy::{CpuList, ParsePolicyError, Policy, PolicyKind};
pub use reserve::{ParseReserveError, Reserve};
pub use trace::{MIN_COVERAGE, PlacementTrace, TRACE_SCHEMA, TaskReading, TaskTrace};
pub use unused_cpus::UnusedCpus;

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
