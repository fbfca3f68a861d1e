//! Memory modules in the tables of the firmware (DMTF DSP0134, System Management BIOS, version 3.7).
//!
//! A table is a row of structures. Each has a type, its length, a handle and fields at fixed offsets; then come its texts, each
//! with a NUL byte, and one more NUL byte. Older versions have shorter structures. Nothing in a table is trusted.

use std::{collections::BTreeMap, iter};

/// Structure: an array of slots (7.17).
const ARRAY: u8 = 16;
/// Structure: a slot for a module, or memory that is fixed (7.18).
const MODULE: u8 = 17;
/// Structure: the end of the table (7.45).
const END: u8 = 127;
/// Use of an array: system memory. Others are those of video memory and of firmware.
const SYSTEM_MEMORY: u8 = 3;

/// A slot for a memory module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleSlot {
    /// Size of the module; 0 where the slot is empty, `None` where the firmware does not know it.
    pub bytes: Option<u64>,
    /// Kind of memory: `DDR5`.
    pub kind: Option<&'static str>,
    /// Transfers per second that are configured, in millions; those that the module allows where that is not reported.
    pub megatransfers: Option<u32>,
}

/// Returns the slots for system memory, in the order of the table.
pub fn memory_slots(table: &[u8]) -> Vec<ModuleSlot> {
    let uses: BTreeMap<u16, u8> = structures(table)
        .filter(|one| one.kind() == ARRAY)
        .filter_map(|one| Some((one.word(2)?, one.byte(5)?)))
        .collect();
    let is_system_memory = |slot: &Structure| {
        let array = slot.word(4).and_then(|array| uses.get(&array));
        array.is_none_or(|of| *of == SYSTEM_MEMORY)
    };
    structures(table)
        .filter(|one| one.kind() == MODULE && is_system_memory(one))
        .filter_map(|one| slot(&one))
        .collect()
}

/// Returns the part of a table that [`memory_slots`] reads, without texts, of which some are serial numbers.
pub fn memory_part(table: &[u8]) -> Vec<u8> {
    let parts = structures(table).filter(|one| [ARRAY, MODULE].contains(&one.kind()));
    parts.flat_map(|one| [one.0, &[0, 0]].concat()).collect()
}

/// The fields of a structure, with its header.
struct Structure<'a>(&'a [u8]);

impl Structure<'_> {
    fn kind(&self) -> u8 {
        self.0[0]
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }

    fn double_word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    /// Returns a speed: a word, or a double word elsewhere if that has no room for it. 0 is unknown.
    fn speed(&self, at: usize, extended: usize) -> Option<u32> {
        let speed = match self.word(at)? {
            0xffff => self.double_word(extended)? & 0x7fff_ffff,
            speed => u32::from(speed),
        };
        (speed > 0).then_some(speed)
    }
}

/// Returns the structures up to the end of the table, or up to the first that is malformed.
fn structures(table: &[u8]) -> impl Iterator<Item = Structure<'_>> {
    const HEADER: usize = 4;
    let mut rest = table;
    iter::from_fn(move || {
        let length = usize::from(*rest.get(1)?);
        let fields = rest.get(..length).filter(|fields| fields.len() >= HEADER && fields[0] != END)?;
        let texts = &rest[length..];
        let end = texts.windows(2).position(|pair| pair == [0, 0]).unwrap_or(texts.len());
        rest = texts.get(end + 2..).unwrap_or_default();
        Some(Structure(fields))
    })
}

fn slot(fields: &Structure) -> Option<ModuleSlot> {
    const KIB: u16 = 0x8000;
    let bytes = match fields.word(0x0c)? {
        0 => Some(0),
        0xffff => None,
        // The size is in the field that later versions have.
        0x7fff => fields.double_word(0x1c).map(|mib| u64::from(mib & 0x7fff_ffff) << 20),
        kib if kib & KIB != 0 => Some(u64::from(kib & !KIB) << 10),
        mib => Some(u64::from(mib) << 20),
    };
    let megatransfers = fields.speed(0x20, 0x58).or_else(|| fields.speed(0x15, 0x54));
    Some(ModuleSlot { bytes, kind: fields.byte(0x12).and_then(kind), megatransfers })
}

/// Returns the name of a kind of memory (table 78).
fn kind(code: u8) -> Option<&'static str> {
    Some(match code {
        0x0f => "SDRAM",
        0x12 => "DDR",
        0x13 | 0x14 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x1f => "non-volatile",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARRAY_HANDLE: u16 = 0x1000;

    /// A table that grows.
    pub struct Table(pub Vec<u8>);

    impl Table {
        /// Begins a table with the BIOS and an array of slots.
        pub fn with_array(of: u8) -> Self {
            let mut table = Self(Vec::new());
            table.structure(0, 0, &[1, 2, 0, 0xf0, 3], &["Example", "2.1.9"]);
            table.structure(ARRAY, ARRAY_HANDLE, &[3, of, 6, 0, 0, 0, 0, 0xfe, 0xff, 8, 0], &[]);
            table
        }

        /// Adds a module to the array.
        pub fn add(&mut self, fields: &[u8]) {
            let handle = self.0.len() as u16;
            self.structure(MODULE, handle, fields, &["DIMM_A1", "BANK 0", "Example", "SERIAL-1234"]);
        }

        fn structure(&mut self, kind: u8, handle: u16, fields: &[u8], texts: &[&str]) {
            self.0.extend([kind, 4 + fields.len() as u8]);
            self.0.extend(handle.to_le_bytes());
            self.0.extend(fields);
            for text in texts {
                self.0.extend(text.as_bytes());
                self.0.push(0);
            }
            self.0.extend(if texts.is_empty() { &[0, 0][..] } else { &[0] });
        }
    }

    /// Returns the fields of a module of version 2.7 after the header, with the size in the old and in the new field.
    pub fn module(size: u16, extended_mib: u32, speed: u16) -> Vec<u8> {
        let mut fields = vec![0; 0x22 - 4];
        let mut put = |at: usize, bytes: &[u8]| fields[at - 4..at - 4 + bytes.len()].copy_from_slice(bytes);
        put(0x04, &ARRAY_HANDLE.to_le_bytes());
        put(0x0c, &size.to_le_bytes());
        put(0x10, &[1, 2, 0x22]);
        put(0x15, &5600_u16.to_le_bytes());
        put(0x17, &[3, 4]);
        put(0x1c, &extended_mib.to_le_bytes());
        put(0x20, &speed.to_le_bytes());
        fields
    }

    #[test]
    fn sizes_and_speeds_are_those_of_all_versions() {
        let mut table = Table::with_array(SYSTEM_MEMORY);
        let version_2_1 = &module(4096, 0, 0)[..0x15 - 4];
        let version_2_3 = &module(0x8000 | 512, 0, 0)[..0x1b - 4];
        let mut version_3_3 = module(0x7fff, 128 << 10, 0xffff);
        version_3_3.resize(0x5c - 4, 0);
        version_3_3[0x58 - 4..].copy_from_slice(&70_000_u32.to_le_bytes());
        for fields in [version_2_1, version_2_3, &module(0, 0, 0), &module(0xffff, 0, 6400), &version_3_3] {
            table.add(fields);
        }
        table.structure(END, 0xfeff, &[], &[]);
        table.add(&module(1024, 0, 0));
        let slot = |bytes, megatransfers| ModuleSlot { bytes, kind: Some("DDR5"), megatransfers };
        let expected = [
            slot(Some(4 << 30), None),
            slot(Some(512 << 10), Some(5600)),
            slot(Some(0), Some(5600)),
            slot(None, Some(6400)),
            slot(Some(128 << 30), Some(70_000)),
        ];
        assert_eq!(memory_slots(&table.0), expected);
    }

    #[test]
    fn memory_of_the_firmware_does_not_count() {
        const FLASH: u8 = 5;
        let mut table = Table::with_array(FLASH);
        table.add(&module(16, 0, 0));
        assert_eq!(memory_slots(&table.0), []);
    }

    #[test]
    fn texts_are_not_kept() {
        let mut table = Table::with_array(SYSTEM_MEMORY);
        table.add(&module(1024, 0, 4800));
        let kept = memory_part(&table.0);
        assert_eq!(memory_slots(&kept), memory_slots(&table.0));
        assert!(!kept.windows(6).any(|part| part == b"SERIAL" || part == b"DIMM_A"));
    }

    /// What is cut off does not change what comes before it.
    #[test]
    fn a_truncated_table_has_the_slots_before_its_end() {
        let mut table = Table::with_array(SYSTEM_MEMORY);
        for size in [1024, 2048, 4096] {
            table.add(&module(size, 0, 4800));
        }
        let whole = memory_slots(&table.0);
        assert_eq!(whole.len(), 3);
        for end in 0..table.0.len() {
            let found = memory_slots(&table.0[..end]);
            assert_eq!(found, whole[..found.len()], "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_table_is_read(table in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(memory_slots(&table).len() <= table.len() / 4);
            prop_assert_eq!(memory_slots(&memory_part(&table)), memory_slots(&table));
        }

        /// Lengths and types that occur, with arbitrary contents.
        #[test]
        fn hostile_structures_are_read(
            parts in proptest::collection::vec((prop_oneof![Just(ARRAY), Just(MODULE), any::<u8>()], any::<u8>(),
                proptest::collection::vec(any::<u8>(), 0..100)), 0..20),
        ) {
            let mut table = Vec::new();
            for (kind, length, contents) in parts {
                table.extend([kind, length]);
                table.extend(contents);
                table.extend([0, 0]);
            }
            for slot in memory_slots(&table) {
                prop_assert!(slot.megatransfers != Some(0));
            }
        }
    }
}
