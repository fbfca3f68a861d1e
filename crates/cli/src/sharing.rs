//! The figure of shared units that `run` shows: from the options to a sampler, and its result in the trace.

use crate::output;
use manycore_placement::PlacementTrace;
use manycore_sharing::{DEFAULT_INTERVAL, ProcfsSource, Sampler, Sharing, WatchedRoots, level::levels};
use manycore_topology::Machine;
use serde::Serialize;

/// What `--trace` writes: where the tasks ran, and what they shared.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceFile<'a> {
    /// Where the tasks ran.
    #[serde(flatten)]
    pub trace: &'a PlacementTrace,
    /// The share of time in which running tasks shared a core, cluster or last-level cache while another was idle. Only
    /// `run` observes it, on machines where tasks have a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<&'a Sharing>,
}

/// Begins to observe the processes that this one starts from now on. `None` where tasks have no choice between units of
/// `machine`; also where that is not possible, which is noted.
pub fn observe_children(machine: &Machine) -> Option<Sampler> {
    let levels = levels(machine, &machine.usable());
    if levels.is_empty() {
        return None;
    }
    let source = ProcfsSource::new(WatchedRoots::new_children());
    let sampler = source.and_then(|source| Sampler::start(source, levels.into(), DEFAULT_INTERVAL));
    let note = |error| output::note(&format!("manycore: what running tasks share is not observed: {error}"));
    sampler.map_err(note).ok()
}
