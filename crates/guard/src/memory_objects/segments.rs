//! System V shared memory segments: `/proc/sysvipc/shm` of our own IPC namespace (`proc_sysvipc_shm`,
//! `ipc/shm.c`).

use crate::decision::memory_objects::{Holder, MemoryObject, ObjectId, ObjectKind, ObjectMap};
use manycore_linux::counters::ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

/// `SHM_DEST` in the permissions: the segment is removed, and freed when the last process detaches it.
const REMOVED: u64 = 0o1000;

/// Adds all segments, each with the process that created it if this process still exists.
pub(super) fn add_segments(processes: &[Holder], objects: &mut ObjectMap) {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let mut lines = text.lines();
    let Some(keys) = lines.next() else { return };
    let boot = clock_gettime(ClockId::Boottime);
    let boot = boot.tv_sec as f64 + boot.tv_nsec as f64 / 1e9;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
    for segment in lines.filter_map(|line| Segment::parse(keys, line)) {
        let creator = processes.iter().find(|process| process.pid == segment.creator);
        // A process that started later has reused the id of the creator. Times are in whole seconds.
        let is_same = |process: &&Holder| {
            let age = boot - process.start as f64 / ticks_per_second() as f64;
            segment.changed as f64 + 2.0 > now - age
        };
        let creator = creator.filter(is_same).map(|creator| Holder { writes: true, ..*creator });
        let object = MemoryObject {
            kib: segment.bytes / 1024,
            creator: Some(segment.user),
            is_persistent: !segment.is_removed,
            is_new: false,
            holders: creator.into_iter().collect(),
        };
        objects.insert(ObjectId(ObjectKind::Segment, 0, segment.id), object);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Segment {
    id: u64,
    creator: u32,
    user: u32,
    changed: u64,
    bytes: u64,
    is_removed: bool,
}

impl Segment {
    /// Parses a line of the table with the column names `keys`.
    fn parse(keys: &str, line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let word =
            |key: &str| words.get(keys.split_ascii_whitespace().position(|other| other == key)?).copied();
        let number = |key: &str| word(key)?.parse::<u64>().ok();
        Some(Self {
            id: number("shmid")?,
            creator: number("cpid")? as u32,
            user: number("cuid")? as u32,
            changed: number("ctime")?,
            bytes: number("rss")? + number("swap")?,
            is_removed: u64::from_str_radix(word("perms")?, 8).ok()? & REMOVED != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_line_is_parsed_by_column_names() {
        let keys = "       key      shmid perms       size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime        rss       swap";
        let line = "         0         4 1600    1048576   811   811      1  1000  1000  1000  1000 1700000000          0 1700000000     524288       4096";
        let segment = Segment::parse(keys, line).unwrap();
        let expected = Segment {
            id: 4,
            creator: 811,
            user: 1000,
            changed: 1_700_000_000,
            bytes: 528_384,
            is_removed: true,
        };
        assert_eq!(segment, expected);
        assert_eq!(Segment::parse(keys, "0 4"), None);
    }
}
