//! Finds the mount whose files in memory have grown.

use crate::decision::event_line::TmpfsGrowth;
use manycore_linux::tmpfs::{self, Mount};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Interval between scans of the mounts while memory is plentiful.
const CALM: Duration = Duration::from_secs(30);

/// Records the usage of all mounts some time ago.
#[derive(Default)]
pub struct MountTracker {
    before: BTreeMap<u64, u64>,
    looked: Option<Instant>,
}

impl MountTracker {
    /// Records the usage of all mounts if it is time. Does nothing during a shortage, because the mounts may
    /// be what grows.
    pub fn record(&mut self, is_calm: bool) {
        if is_calm && self.looked.is_none_or(|looked| looked.elapsed() >= CALM) {
            self.looked = Some(Instant::now());
            self.before = tmpfs::mounts().into_iter().map(|mount| (mount.device, mount.used)).collect();
        }
    }

    /// Returns the mount that has grown most since.
    fn most_grown(&self) -> Option<Mount> {
        let before = |mount: &Mount| self.before.get(&mount.device).copied().unwrap_or(0);
        let growth = |mount: &Mount| mount.used.saturating_sub(before(mount));
        tmpfs::mounts().into_iter().filter(|mount| growth(mount) > 0).max_by_key(growth)
    }

    /// Returns what is reported about files that grew by this many bytes.
    pub fn files(&self, growth_bytes: u64) -> TmpfsGrowth {
        let mount = self.most_grown();
        TmpfsGrowth {
            growth_bytes,
            mount: mount.as_ref().map(|mount| mount.point.clone()),
            used_bytes: mount.map(|mount| mount.used),
        }
    }
}
