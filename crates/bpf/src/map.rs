//! Maps: memory that programs and this process share.
#![allow(unsafe_code, reason = "the memory of a map is mapped")]

use crate::{
    Error, Result,
    elf::MapDeclaration,
    syscall::{Attributes, Command},
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

/// `BPF_MAP_TYPE_ARRAY`.
pub(crate) const ARRAY: u32 = 2;
/// `BPF_MAP_TYPE_TASK_STORAGE`, `BPF_MAP_TYPE_CGRP_STORAGE`: the kernel wants the types of their keys and values.
const STORAGE: [u32; 2] = [29, 32];
/// `BPF_F_MMAPABLE`.
pub(crate) const MAPPABLE: u32 = 1 << 10;

/// A map in the kernel. It is removed when this value and all programs that use it are gone.
#[derive(Debug)]
pub struct Map {
    pub(crate) fd: OwnedFd,
    name: String,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) entries: usize,
    /// Parts of a value: the entries of an array at a fixed address, otherwise 1.
    parts: u32,
}

impl Map {
    pub(crate) fn create(declared: &MapDeclaration) -> Result<Self> {
        let types = STORAGE.contains(&declared.kind).then(|| storage_types(declared.value_bytes)).transpose();
        let (entries, parts) = if declared.is_fixed { (1, declared.entries) } else { (declared.entries, 1) };
        let value_bytes = declared.value_bytes.saturating_mul(parts);
        let create = |types: Option<OwnedFd>| {
            let attributes = Attributes::new()
                .word(0, declared.kind)
                .word(4, declared.key_bytes)
                .word(8, value_bytes)
                .word(12, entries)
                .word(16, declared.flags)
                .name(28, &declared.name);
            let attributes = match &types {
                Some(types) => {
                    attributes.word(48, types.as_raw_fd() as u32).word(52, KEY_TYPE).word(56, VALUE_TYPE)
                }
                None => attributes,
            };
            attributes.open(Command::MapCreate)
        };
        let fd = types.and_then(create).map_err(|source| Error::Map {
            name: declared.name.clone(),
            action: "created",
            source,
        })?;
        Ok(Self {
            fd,
            name: declared.name.clone(),
            key_bytes: declared.key_bytes as usize,
            value_bytes: value_bytes as usize,
            entries: entries as usize,
            parts,
        })
    }

    pub(crate) fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::Map { name: self.name.clone(), action, source }
    }

    /// Name of the map.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel refuses it, or the lengths are not those of the map.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(key.len() == self.key_bytes && value.len() == self.value_bytes)?;
        let attributes = Attributes::new().word(0, self.fd.as_raw_fd() as u32).input(8, key).input(16, value);
        attributes.call(Command::MapUpdate).map_err(|source| self.failed("written", source))?;
        Ok(())
    }

    /// Returns the value of a key; `None` if the map has no such key.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel refuses it, or the length is not that of the map's keys.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check(key.len() == self.key_bytes)?;
        let mut value = vec![0; self.value_bytes];
        let attributes =
            Attributes::new().word(0, self.fd.as_raw_fd() as u32).input(8, key).output(16, &mut value);
        match attributes.call(Command::MapLookup) {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failed("read", source)),
        }
    }

    /// Removes a key, if the map has it.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel refuses it, or the length is not that of the map's keys.
    pub fn remove(&self, key: &[u8]) -> Result<()> {
        self.check(key.len() == self.key_bytes)?;
        let attributes = Attributes::new().word(0, self.fd.as_raw_fd() as u32).input(8, key);
        match attributes.call(Command::MapDelete) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.failed("written", source)),
            _ => Ok(()),
        }
    }

    fn check(&self, fits: bool) -> Result<()> {
        let problem = "a key or a value has another length";
        if fits {
            Ok(())
        } else {
            Err(self.failed("used", io::Error::new(io::ErrorKind::InvalidInput, problem)))
        }
    }

    /// Maps an array, whose flags must allow it, into the memory of this process.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel refuses it.
    pub fn mapped(&self) -> Result<MappedArray> {
        // Values begin at multiples of 8 bytes (`array_map_alloc` in the kernel).
        let stride = self.value_bytes.next_multiple_of(8);
        let length = (stride * self.entries).next_multiple_of(rustix::param::page_size());
        let parts = self.parts as usize;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            mmap(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &self.fd, 0)
        };
        let start = start.map_err(|error| self.failed("mapped", error.into()))?;
        Ok(MappedArray { start: start.cast(), length, stride: stride / parts, entries: self.entries * parts })
    }
}

/// Ids of the types of [`storage_types`].
const KEY_TYPE: u32 = 1;
const VALUE_TYPE: u32 = 4;

/// Describes to the kernel a key of 32 bits and a value of so many bytes, without meaning: an array of words of 64
/// bits in a struct.
pub(crate) fn storage_types(value_bytes: u32) -> io::Result<OwnedFd> {
    const NAMES: &[u8] = b"\0int\0long\0value\0";
    let words: [u32; 21] = [
        // Header: magic and version, its size; position and size of the types and of the names.
        0xeb9f | 1 << 16,
        24,
        0,
        60,
        60,
        NAMES.len() as u32,
        // [1] int: 32 bits, [2] long: 64 bits.
        1,
        1 << 24,
        4,
        32,
        5,
        1 << 24,
        8,
        64,
        // [3] array of long, indexed by int; [4] struct with that member.
        0,
        3 << 24,
        0,
        2,
        1,
        value_bytes / 8,
        10,
    ];
    let further: [u32; 5] = [4 << 24 | 1, value_bytes, 0, 3, 0];
    let mut bytes: Vec<u8> = words.iter().chain(&further).flat_map(|word| word.to_ne_bytes()).collect();
    // The types have 4 + 4 + 6 + 6 words.
    let types_size = ((words.len() - 6 + further.len()) * 4) as u32;
    bytes[12..16].copy_from_slice(&types_size.to_ne_bytes());
    bytes[16..20].copy_from_slice(&types_size.to_ne_bytes());
    bytes.extend(NAMES);
    Attributes::new().input(0, &bytes).word(16, bytes.len() as u32).open(Command::BtfLoad)
}

/// An array in the memory of this process. Programs change it at any time: words are read and written one by one.
#[derive(Debug)]
pub struct MappedArray {
    start: *mut u8,
    length: usize,
    stride: usize,
    entries: usize,
}

// SAFETY: all access is by atomic operations on memory that stays mapped while the value lives.
unsafe impl Send for MappedArray {}
// SAFETY: as above.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn cell(&self, entry: usize, word: usize) -> Option<&AtomicU64> {
        let inside = entry < self.entries && word * 8 < self.stride;
        // SAFETY: the position is inside of the mapping, and a multiple of 8 bytes.
        inside.then(|| unsafe { AtomicU64::from_ptr(self.start.add(entry * self.stride + word * 8).cast()) })
    }

    /// Returns a word of 64 bits of an entry; 0 outside of the array.
    pub fn word(&self, entry: usize, word: usize) -> u64 {
        self.cell(entry, word).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// Sets a word of 64 bits of an entry; does nothing outside of the array.
    pub fn set_word(&self, entry: usize, word: usize, value: u64) {
        if let Some(cell) = self.cell(entry, word) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Sets a bit of an array whose entries are words of 64 bits, without effect on the other bits; does nothing outside of
    /// the array.
    pub fn set_bit(&self, bit: usize, is_set: bool) {
        let mask = 1 << (bit % 64);
        match self.cell(bit / 64, 0) {
            Some(cell) if is_set => cell.fetch_or(mask, Ordering::Relaxed),
            Some(cell) => cell.fetch_and(!mask, Ordering::Relaxed),
            None => 0,
        };
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping of `Map::mapped`, which nothing else refers to.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}
