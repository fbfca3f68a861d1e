//! Which files in memory have grown.

use crate::decision::line::Files;
use manycore_linux::tmpfs::{self, Mount};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often mounts are looked at while nothing happens.
const CALM: Duration = Duration::from_secs(30);

/// Keeps what mounts held some time ago.
#[derive(Default)]
pub struct Spotter {
    before: BTreeMap<u64, u64>,
    looked: Option<Instant>,
}

impl Spotter {
    /// Notes what mounts hold, if it is time; not in danger, when they may be what grows.
    pub fn look(&mut self, is_calm: bool) {
        if is_calm && self.looked.is_none_or(|looked| looked.elapsed() >= CALM) {
            self.looked = Some(Instant::now());
            self.before = tmpfs::mounts().into_iter().map(|mount| (mount.device, mount.used)).collect();
        }
    }

    /// The mount that has grown most since.
    fn grown(&self) -> Option<Mount> {
        let before = |mount: &Mount| self.before.get(&mount.device).copied().unwrap_or(0);
        let growth = |mount: &Mount| mount.used.saturating_sub(before(mount));
        tmpfs::mounts().into_iter().filter(|mount| growth(mount) > 0).max_by_key(growth)
    }

    /// What is to be told of files that grew by so many bytes.
    pub fn files(&self, growth_bytes: u64) -> Files {
        let mount = self.grown();
        Files {
            growth_bytes,
            mount: mount.as_ref().map(|mount| mount.point.clone()),
            used_bytes: mount.map(|mount| mount.used),
        }
    }
}
