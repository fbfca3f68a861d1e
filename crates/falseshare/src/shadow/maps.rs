//! Mappings of a process, and their changes.

use crate::shadow::region::{MAPS, Map, Slot, TEXT};
use std::{
    collections::HashMap,
    ptr,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

/// Bookkeeping for the mapping records of a process.
#[derive(Debug, Default)]
pub struct Maps {
    paths: HashMap<Vec<u8>, u32>,
    /// Indexes of records of removed mappings without a file, which can be reused.
    free: Vec<usize>,
}

/// A mapping, as in a line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Path of the file; empty without one.
    pub path: Vec<u8>,
}

/// Parses the text of `/proc/PID/maps`.
pub fn parse(text: &[u8]) -> Vec<Mapped> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mapped> {
    let text = String::from_utf8_lossy(line);
    let mut words = text.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let _ = (words.next()?, words.next()?);
    let path = words.next().unwrap_or_default().trim_start();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let path = if path.starts_with('/') { path.as_bytes().to_vec() } else { Vec::new() };
    Some(Mapped { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, path })
}

impl Maps {
    /// Records a mapping.
    ///
    /// # Safety
    /// `slot` must be mapped and belong to this process, and no other thread may be in a method of this
    /// slot's [`Maps`].
    pub unsafe fn mapped(&mut self, slot: *mut Slot, mapped: &Mapped) {
        // SAFETY: required of the caller; fields that other threads read are atomic.
        let records = unsafe { &*slot };
        let path = if mapped.path.is_empty() {
            0
        } else {
            // SAFETY: required of the caller.
            unsafe { self.path(slot, &mapped.path) }
        };
        let fresh = records.maps.load(Relaxed) as usize;
        let index = if fresh < MAPS { Some(fresh) } else { self.free.pop() };
        let Some(index) = index else {
            records.lost_maps.fetch_add(1, Relaxed);
            return;
        };
        let map: &Map = &records.map[index];
        map.start.store(mapped.start, Relaxed);
        map.end.store(mapped.end, Relaxed);
        map.offset.store(mapped.offset, Relaxed);
        map.path.store(path, Relaxed);
        map.live.store(1, Relaxed);
        if index == fresh {
            records.maps.store(fresh as u32 + 1, Release);
        }
    }

    /// # Safety
    /// As [`Maps::mapped`].
    unsafe fn path(&mut self, slot: *mut Slot, path: &[u8]) -> u32 {
        if let Some(known) = self.paths.get(path) {
            return *known;
        }
        // SAFETY: required of the caller.
        let records = unsafe { &*slot };
        let at = (records.text_used.load(Relaxed) as usize).max(1);
        if at + path.len() + 1 > TEXT {
            return 0;
        }
        // SAFETY: the range is inside `text`, and is not read before its offset is published.
        unsafe {
            ptr::copy_nonoverlapping(path.as_ptr(), (&raw mut (*slot).text).cast::<u8>().add(at), path.len());
        };
        records.text_used.store((at + path.len() + 1) as u32, Release);
        self.paths.insert(path.to_vec(), at as u32);
        at as u32
    }

    /// Records that nothing is mapped at `start..end` any more.
    pub fn unmapped(&mut self, slot: &Slot, start: u64, end: u64) {
        for index in 0..(slot.maps.load(Acquire) as usize).min(MAPS) {
            let map = &slot.map[index];
            let (from, to) = (map.start.load(Relaxed), map.end.load(Relaxed));
            if map.live.load(Relaxed) == 0 || to <= start || from >= end {
                continue;
            }
            // If a part in the middle is removed, the record is unchanged. Records of files are kept to name
            // their addresses.
            if from >= start && to <= end {
                map.live.store(0, Relaxed);
                if map.path.load(Relaxed) == 0 {
                    self.free.push(index);
                }
            } else if map.path.load(Relaxed) == 0 {
                if from >= start {
                    map.start.store(end, Relaxed);
                } else if to <= end {
                    map.end.store(start, Relaxed);
                }
            }
        }
    }
}

/// Copies the mappings and the program of a parent to the slot of its child.
///
/// # Safety
/// `to` must be mapped and belong to the calling process alone.
pub unsafe fn inherit(from: &Slot, to: *mut Slot) {
    // Only the used part is copied, because writing to a page allocates it.
    let used = (from.text_used.load(Acquire) as usize).min(TEXT);
    let program = from.program.iter().position(|byte| *byte == 0).map_or(from.program.len(), |end| end + 1);
    // SAFETY: required of the caller; the texts are plain bytes inside both slots.
    unsafe {
        let (text, name) = (&raw mut (*to).text, &raw mut (*to).program);
        ptr::copy_nonoverlapping(from.text.as_ptr(), text.cast(), used);
        ptr::copy_nonoverlapping(from.program.as_ptr(), name.cast(), program);
    }
    // SAFETY: required of the caller.
    let to = unsafe { &*to };
    let count = from.maps.load(Acquire).min(MAPS as u32);
    for (to, from) in to.map.iter().zip(&from.map).take(count as usize) {
        for (to, from) in [(&to.start, &from.start), (&to.end, &from.end), (&to.offset, &from.offset)] {
            to.store(from.load(Relaxed), Relaxed);
        }
        to.path.store(from.path.load(Relaxed), Relaxed);
        to.live.store(from.live.load(Relaxed), Relaxed);
    }
    to.text_used.store(used as u32, Relaxed);
    to.maps.store(count, Release);
}

/// Returns the live mapping that contains `address`, as its start and end (exclusive).
pub fn mapping_at(slot: &Slot, address: u64) -> Option<(u64, u64)> {
    let count = (slot.maps.load(Acquire) as usize).min(MAPS);
    let holds = |map: &&Map| {
        map.live.load(Relaxed) != 0 && (map.start.load(Relaxed)..map.end.load(Relaxed)).contains(&address)
    };
    slot.map[..count].iter().rev().find(holds).map(|map| (map.start.load(Relaxed), map.end.load(Relaxed)))
}
