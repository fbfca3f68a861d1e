//! Memory that processes hold in addition to their own pages: shared memory without a name, files of `tmpfs`,
//! System V segments, pipes and sockets.
//!
//! Such memory is attributed to a process only if there is evidence for it. The memory that grows must be
//! held by this process alone, or by processes of one session and user that it heads, and that user must have
//! created it.
//!
//! A [`GrowthTracker`] is given successive scans of all such objects. It returns how much the objects of each owner
//! have grown since the last scan at which memory was plentiful (a calm scan).

use super::process_table::ExtraMemory;
use std::collections::BTreeMap;

/// The kind of memory object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// Shared memory that is freed with its last holder: `memfd_create(2)`, removed files of `tmpfs`, shared
    /// anonymous mappings.
    #[default]
    Shared,
    /// A System V segment (`shmget(2)`).
    Segment,
    /// A file of `tmpfs`. It stays when its writer has ended.
    File,
    /// Contents of a pipe.
    Pipe,
    /// Buffers of a socket.
    Socket,
    /// All memory that the kernel charges to a control group with this single process: shared memory,
    /// sockets, kernel structures.
    Group,
}

impl ObjectKind {
    /// Returns a description.
    pub fn description(self) -> &'static str {
        match self {
            Self::Shared => "shared memory and removed files in memory",
            Self::Segment => "System V shared memory",
            Self::File => "files in memory",
            Self::Pipe => "pipes",
            Self::Socket => "socket buffers",
            Self::Group => "shared memory and kernel memory of its control group",
        }
    }

    /// Whether the kernel counts it as shared memory (`Shmem` of `/proc/meminfo`).
    pub fn is_shmem(self) -> bool {
        matches!(self, Self::Shared | Self::Segment | Self::File)
    }
}

/// Identifies an object: its kind, device and inode. For a segment the last number is its id, for a control
/// group the inode of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub ObjectKind, pub u64, pub u64);

/// A process that has an object open or mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Real user id.
    pub user: u32,
    /// Session id.
    pub session: u32,
    /// Whether the process can write to the object.
    pub writes: bool,
}

/// A memory object and the processes that hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryObject {
    /// Size in KiB.
    pub kib: u64,
    /// The user that created it; absent if this says nothing about ownership.
    pub creator: Option<u32>,
    /// Whether its memory stays in use when all holders have ended.
    pub is_persistent: bool,
    /// Whether it was created since the last scan.
    pub is_new: bool,
    /// The processes that hold it.
    pub holders: Vec<Holder>,
}

impl MemoryObject {
    /// Returns the process, by id and start time, to which the object is shown to belong.
    pub fn owner(&self) -> Option<(u32, u64)> {
        let mut writers = self.holders.iter().filter(|holder| holder.writes);
        let eldest = *writers.clone().min_by_key(|holder| (holder.start, holder.pid))?;
        let is_own = |holder: &Holder| {
            let is_made = self.creator.is_none_or(|creator| creator == holder.user);
            is_made && (holder.pid == eldest.pid || eldest.session != 0 && holder.session == eldest.session)
        };
        writers.all(is_own).then_some((eldest.pid, eldest.start))
    }
}

/// The result of one scan.
pub type ObjectMap = BTreeMap<ObjectId, MemoryObject>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    kib: u64,
    growth: i64,
    is_persistent: bool,
    owner: Option<(u32, u64)>,
}

/// The growth of all objects since the last calm scan.
#[derive(Debug, Default)]
pub struct GrowthTracker {
    entries: BTreeMap<ObjectId, Entry>,
    /// Whether the last scan was complete.
    last_was_complete: bool,
}

impl GrowthTracker {
    /// Adds a scan. A calm one becomes the baseline from which growth is counted. Objects missing from an
    /// incomplete scan (`is_complete` is false) are assumed to exist still.
    pub fn add_scan(&mut self, objects: &ObjectMap, is_calm: bool, is_complete: bool) {
        let last_was_complete = std::mem::replace(&mut self.last_was_complete, is_complete);
        // The memory of a removed object is free again. A file that was closed still exists.
        let is_persistent = |key: &ObjectId| !is_complete || !is_calm && key.0 == ObjectKind::File;
        self.entries.retain(|key, _| is_persistent(key) || objects.contains_key(key));
        for (key, object) in objects {
            // A file that no process had open may have existed before.
            let is_growth = last_was_complete && (key.0 != ObjectKind::File || object.is_new);
            let first = Entry {
                kib: if is_growth { 0 } else { object.kib },
                growth: 0,
                is_persistent: object.is_persistent,
                owner: None,
            };
            let entry = self.entries.entry(*key).or_insert(first);
            entry.growth = (entry.growth + object.kib as i64 - entry.kib as i64).max(0);
            (entry.kib, entry.is_persistent, entry.owner) =
                (object.kib, object.is_persistent, object.owner());
            if is_calm {
                entry.growth = 0;
            }
        }
    }

    /// Returns each owner with the memory that it holds, largest growth first.
    pub fn growth_by_owner(&self) -> Vec<((u32, u64), ExtraMemory)> {
        let mut owners: BTreeMap<(u32, u64), Sums> = BTreeMap::new();
        for (key, entry) in &self.entries {
            let Some(owner) = entry.owner else { continue };
            let sum = owners.entry(owner).or_default().entry(key.0).or_default();
            sum.growth += entry.growth as u64;
            sum.is_persistent |= entry.is_persistent;
        }
        let mut grown: Vec<_> =
            owners.into_iter().filter_map(|(owner, sums)| Some((owner, sum_of_owner(&sums)?))).collect();
        grown.retain(|(_, memory)| memory.growth_kib > 0);
        grown.sort_by_key(|(_, memory)| std::cmp::Reverse(memory.growth_kib));
        grown
    }
}

/// The memory of one owner by kind.
type Sums = BTreeMap<ObjectKind, Sum>;

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    growth: u64,
    is_persistent: bool,
}

/// Sums all kinds of one owner. The charge of its control group already includes all other kinds.
fn sum_of_owner(sums: &Sums) -> Option<ExtraMemory> {
    let kib = |kib: u64| u32::try_from(kib).unwrap_or(u32::MAX);
    let group = sums.get(&ObjectKind::Group).map_or(0, |sum| sum.growth);
    let single = || sums.iter().filter(|(kind, _)| **kind != ObjectKind::Group);
    let alone: u64 = single().map(|(_, sum)| sum.growth).sum();
    let (kind, most) = single().max_by_key(|(_, sum)| sum.growth).or_else(|| sums.iter().next())?;
    // If single objects explain most of the growth, they describe it better than the control group.
    Some(if group > 2 * alone {
        ExtraMemory { growth_kib: kib(group), kind: ObjectKind::Group, is_persistent: false }
    } else {
        ExtraMemory { growth_kib: kib(alone), kind: *kind, is_persistent: most.is_persistent }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32, user: u32, session: u32) -> Holder {
        Holder { pid, start: u64::from(pid), user, session, writes: true }
    }

    fn object(kib: u64, holders: &[Holder]) -> MemoryObject {
        MemoryObject { kib, creator: Some(1000), holders: holders.to_vec(), ..MemoryObject::default() }
    }

    fn owner(holders: &[Holder]) -> Option<u32> {
        object(1, holders).owner().map(|(pid, _)| pid)
    }

    #[test]
    fn memory_belongs_to_its_only_writer_or_family() {
        assert_eq!(owner(&[holder(7, 1000, 5)]), Some(7));
        assert_eq!(owner(&[holder(9, 1000, 5), holder(7, 1000, 5)]), Some(7), "a forked process has it, too");
        assert_eq!(owner(&[holder(7, 1000, 5), holder(8, 1000, 6)]), None, "two processes share it");
        assert_eq!(owner(&[]), None);
        let reader = Holder { writes: false, ..holder(3, 0, 3) };
        assert_eq!(owner(&[reader, holder(7, 1000, 5)]), Some(7));
    }

    #[test]
    fn memory_passed_to_a_daemon_is_not_the_daemons() {
        assert_eq!(owner(&[holder(3, 0, 3)]), None);
        assert_eq!(owner(&[holder(3, 0, 3), holder(7, 1000, 5)]), None);
    }

    fn tracker(looks: &[&[(ObjectId, MemoryObject)]]) -> Vec<((u32, u64), ExtraMemory)> {
        let mut tracker = GrowthTracker::default();
        for (at, look) in looks.iter().enumerate() {
            tracker.add_scan(&look.iter().cloned().collect(), at == 0, true);
        }
        tracker.growth_by_owner()
    }

    const MEMFD: ObjectId = ObjectId(ObjectKind::Shared, 1, 1);
    const FILE: ObjectId = ObjectId(ObjectKind::File, 2, 1);

    #[test]
    fn only_growth_since_the_last_calm_scan_counts() {
        let own = [holder(7, 1000, 5)];
        let held = tracker(&[&[(MEMFD, object(500, &own))], &[(MEMFD, object(700, &own))]]);
        assert_eq!(
            held,
            [((7, 7), ExtraMemory { growth_kib: 200, kind: ObjectKind::Shared, is_persistent: false })]
        );
        let held = tracker(&[&[], &[(MEMFD, object(700, &own))], &[]]);
        assert_eq!(held, [], "it was closed");
        let held = tracker(&[&[(MEMFD, object(500, &own))]]);
        assert_eq!(held, [], "it existed at the first scan");
    }

    #[test]
    fn successive_files_of_one_writer_are_summed() {
        let own = [holder(7, 1000, 5)];
        let file = |kib, is_new| MemoryObject { is_persistent: true, is_new, ..object(kib, &own) };
        let second = ObjectId(ObjectKind::File, 2, 2);
        let third = ObjectId(ObjectKind::File, 2, 3);
        let held = tracker(&[
            &[],
            &[(FILE, file(100, true))],
            &[(FILE, file(160, false))],
            &[(second, file(40, true))],
            // An old file that is opened again.
            &[(third, file(9000, false))],
        ]);
        assert_eq!(
            held,
            [((7, 7), ExtraMemory { growth_kib: 200, kind: ObjectKind::File, is_persistent: true })]
        );
    }

    #[test]
    fn group_charge_covers_memory_outside_of_objects() {
        let own = [holder(7, 1000, 5)];
        let group =
            |kib| (ObjectId(ObjectKind::Group, 0, 9), MemoryObject { creator: None, ..object(kib, &own) });
        let pipe = |kib| (ObjectId(ObjectKind::Pipe, 0, 3), object(kib, &own));
        let held = tracker(&[&[group(100)], &[group(900), pipe(10)]]);
        assert_eq!(held[0].1, ExtraMemory { growth_kib: 800, kind: ObjectKind::Group, is_persistent: false });
        let held = tracker(&[&[group(100)], &[group(900), pipe(700)]]);
        assert_eq!(held[0].1, ExtraMemory { growth_kib: 700, kind: ObjectKind::Pipe, is_persistent: false });
    }
}
