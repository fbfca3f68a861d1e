//! The head of a recording.

use super::format::LONGEST_HEAD;
use manycore_text::names::printable;
use manycore_topology::{CpuSet, Machine};
use serde::{Deserialize, Serialize};

/// Value of [`RecordingHead::schema`] that this version writes.
pub const RECORDING_SCHEMA: &str = "manycore/recording/1";
/// Machines with CPUs of higher numbers are not read: a small file must not take much memory.
const MOST_CPUS: u32 = 1 << 16;

/// What a recording says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingHead {
    /// Always [`RECORDING_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// The version that wrote it.
    pub version: String,
    /// When recording began, in milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// The interval between samples that was wanted, in milliseconds.
    pub interval_ms: u64,
    /// The machine, with its host name.
    pub machine: Machine,
}

impl RecordingHead {
    /// Returns the head of a recording that begins.
    pub fn new(machine: Machine, started_unix_ms: u64, interval_ms: u64) -> Self {
        Self {
            schema: RECORDING_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ms,
            interval_ms,
            machine,
        }
    }

    /// Parses a head.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        if json.len() > LONGEST_HEAD {
            return Err("its head is too long".to_owned());
        }
        let head: Self = serde_json::from_slice(json).map_err(|error| printable(&error.to_string()))?;
        if head.schema != RECORDING_SCHEMA {
            let found = printable(&head.schema.chars().take(60).collect::<String>());
            return Err(format!("its schema is '{found}', not '{RECORDING_SCHEMA}'"));
        }
        let machine = &head.machine;
        let groups =
            machine.packages.iter().chain(&machine.dies).chain(&machine.clusters).chain(&machine.cores);
        let sets = groups.map(|group| &group.cpus).chain(machine.caches.iter().map(|cache| &cache.cpus));
        let sets = sets.chain(machine.nodes.iter().map(|node| &node.cpus));
        let all = sets.chain([&machine.online, &machine.offline, &machine.isolated, &machine.allowed.cpus]);
        if all.filter_map(CpuSet::last).any(|last| last >= MOST_CPUS) {
            return Err(format!("it has a CPU with a number above {MOST_CPUS}"));
        }
        Ok(head)
    }
}
