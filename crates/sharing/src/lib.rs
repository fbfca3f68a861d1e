//! Which running tasks share a core, cluster or last-level cache while another is idle.
//!
//! # Definition
//!
//! At one moment, two watched tasks **share** a unit of a level if both are running on CPUs of that unit. They share it
//! **while another is idle** if there is another unit of that level on whose CPUs no task at all is running, watched or
//! not, and of which at least one CPU is *allowed*: it is among the CPUs that the observing process may use. Affinities
//! of the watched tasks do not count: a placement that packs tasks on one cluster is shown as one.
//!
//! The figure is a share of time. Its denominator is the time in which at least two watched tasks were running,
//! wherever they ran, also where all units are busy. A pair is of the same process, or of different processes; a time
//! with a pair of each counts for both, and once for "any".
//!
//! ```
//! use manycore_sharing::{Accumulator, CpuUse, Level, RunningTask, Snapshot, level::levels};
//! use manycore_topology::{SysTree, read, synthetic::MachineSpec};
//!
//! // Two packages with two clusters of four CPUs each.
//! let spec = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
//! let machine = read(&SysTree::from_capture(spec.capture()))?;
//! let mut accumulator = Accumulator::new(levels(&machine, &machine.online));
//! // Two threads of process 7, for 30 ms in one cluster and for 10 ms in two.
//! for (cpu, ns) in [(1, 30), (4, 10)] {
//!     let mut snapshot = Snapshot::default();
//!     snapshot.set(0, CpuUse::Watched(RunningTask { pid: 7, tid: 7 }));
//!     snapshot.set(cpu, CpuUse::Watched(RunningTask { pid: 7, tid: 8 }));
//!     accumulator.add(&snapshot, ns);
//! }
//! let cluster = accumulator.shares().into_iter().find(|one| one.level == Level::Cluster).unwrap();
//! assert_eq!((cluster.any.share, cluster.different_processes.share), (0.75, 0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Parts
//!
//! [`level`] takes the units from a machine, [`Accumulator`] sums snapshots, [`share`] has the interval. All of these
//! are pure. A [`Sampler`] takes snapshots from a [`Source`] at random times, in a thread of its own that stays below 2 %
//! of one CPU ([`pace`]). [`ProcfsSource`] is a source that needs no privileges.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod accumulator;
pub mod level;
mod other_work;
pub mod pace;
mod processes;
mod procfs;
mod sampler;
pub mod share;
mod snapshot;
mod text;

pub use accumulator::{Accumulator, LevelSharing};
pub use manycore_topology::Level;
pub use processes::{WatchedRoots, WatchedThreads};
pub use procfs::ProcfsSource;
pub use sampler::{DEFAULT_INTERVAL, Sampler, Sharing};
pub use share::Share;
pub use snapshot::{CpuUse, RunningTask, Snapshot, Source};
pub use text::sentence;
