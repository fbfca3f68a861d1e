//! Keeps the busy threads of named work spread over units of CPUs, or packed in few of them, by their affinities.
//!
//! For kernels without `sched_ext`. The kernel still chooses the CPU inside a unit.
//!
//! | part | what it does |
//! |---|---|
//! | `units` | which CPUs are one unit: a cluster, a last-level cache, a core |
//! | `decision` | which threads are moved, as a pure function |
//! | `sources` | which processes belong to the work |
//! | `sampler` | how busy their threads are, where they run, and what others changed |
//! | `session` | samples, decides and changes affinities once per interval; restores them at the end |
//! | `text` | all of that in words |
//!
//! A thread whose affinity is not the one that was set has chosen another: it is left alone from then on. An affinity that
//! is wider than it was set is not a choice: the kernel widens it when all CPUs of a unit go offline.

mod decision;
mod sampler;
mod session;
mod sources;
pub mod text;
mod totals;
mod units;

pub use decision::{Action, AffinityStep, Decision, DecisionState, Limits, ThreadReading, decide};
pub use session::{AffinityEnd, AffinityEvent, AffinityObserver, AffinityRequest, AffinitySession};
pub(crate) use sources::ProcessSource;
pub use totals::{AffinityTotals, IntervalReport};
pub use units::{Unit, Units};

#[cfg(test)]
pub(crate) mod tests {
    use manycore_topology::{Machine, SysTree, synthetic::MachineSpec};

    /// Returns an invented machine.
    pub fn machine(spec: &MachineSpec) -> Machine {
        manycore_topology::read(&SysTree::from_capture(spec.capture())).unwrap()
    }
}
