//! Which files in memory have grown, and who writes them.

use manycore_host::{
    tasks,
    tmpfs::{self, Mount},
};
use manycore_model::guard::line::Files;
use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

/// How often mounts are looked at while nothing happens.
const CALM: Duration = Duration::from_secs(30);

/// How often all processes are asked which mounts they see, which takes long where there are thousands.
const ALL: Duration = Duration::from_mins(10);

/// Between two looks at what several writers have written.
const MOMENT: Duration = Duration::from_millis(20);

/// Keeps what mounts held some time ago.
#[derive(Default)]
pub struct Spotter {
    before: BTreeMap<u64, u64>,
    looked: Option<Instant>,
    looked_at_all: Option<Instant>,
    /// Processes that saw mounts which we do not.
    viewers: BTreeSet<u32>,
    /// What grew, as it was found last.
    found: Option<Mount>,
}

impl Spotter {
    /// Notes what mounts hold, if it is time; not in danger, when they may be what grows.
    pub fn look(&mut self, is_calm: bool) {
        if !is_calm {
            return;
        }
        let is_due = |looked: Option<Instant>, every| looked.is_none_or(|looked| looked.elapsed() >= every);
        if !is_due(self.looked, CALM) {
            return;
        }
        self.looked = Some(Instant::now());
        let mounts = if is_due(self.looked_at_all, ALL) {
            self.looked_at_all = self.looked;
            self.before.clear();
            let mounts = tmpfs::mounts();
            self.viewers = mounts.iter().filter_map(|mount| mount.seen_by).collect();
            mounts
        } else {
            tmpfs::seen_by(self.viewers.iter().copied())
        };
        self.before.extend(mounts.into_iter().map(|mount| (mount.device, mount.used)));
    }

    /// The mount that has grown most since.
    fn grown(&mut self) -> Option<Mount> {
        let growth =
            |mount: &Mount| mount.used.saturating_sub(self.before.get(&mount.device).copied().unwrap_or(0));
        self.found =
            tmpfs::mounts().into_iter().filter(|mount| growth(mount) > 0).max_by_key(|mount| growth(mount));
        self.found.clone()
    }

    /// The process that writes there: the one that writes most at this moment.
    pub fn writer(&mut self) -> Option<(u32, u64)> {
        let mount = self.grown()?;
        let writers = tmpfs::writers(mount.device);
        thread::sleep(MOMENT);
        let pace = |writer: &tmpfs::Writer| {
            let written = tmpfs::written(writer.pid).zip(writer.written);
            written.map_or(0, |(now, before)| now.saturating_sub(before))
        };
        let paces = writers.iter().map(|writer| (pace(writer), writer.pid));
        let (_, pid) = paces.filter(|(pace, _)| *pace > 0).max()?;
        tasks::start_time(pid).map(|start| (pid, start))
    }

    /// What is to be told of files that grew by so many bytes.
    pub fn files(&mut self, growth_bytes: u64) -> Files {
        let mount = self.grown();
        let place = |mount: &Mount| match mount.seen_by {
            None => mount.point.clone(),
            Some(pid) => format!("{} as process {pid} sees it", mount.point),
        };
        Files { growth_bytes, mount: mount.as_ref().map(place), used_bytes: mount.map(|mount| mount.used) }
    }
}
