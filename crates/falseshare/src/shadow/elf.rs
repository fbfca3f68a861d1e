//! Recognizes the kind of a program from the first bytes of its file.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The architecture of this build: its number in an ELF header and its name for messages.
#[cfg(target_arch = "x86_64")]
pub const NATIVE: (u16, &str) = (62, "x86-64");
/// The architecture of this build: its number in an ELF header and its name for messages.
#[cfg(target_arch = "aarch64")]
pub const NATIVE: (u16, &str) = (183, "AArch64");
/// There is no plugin for the architecture of this build.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const NATIVE: (u16, &str) = (u16::MAX, "another architecture");

/// Why a file is not a program that can be observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElfMismatch {
    /// It is not an ELF file.
    NotElf,
    /// It is for another architecture, which this names.
    Architecture(String),
    /// It is an ELF file, but not a program: an object file, a core dump.
    NoProgram,
    /// It is truncated. Its header requires at least this number of bytes.
    CutShort(u64),
}

/// Returns whether a program is linked dynamically with glibc. `start` is the beginning of its file, and
/// `bytes` the file's size.
///
/// # Errors
/// If it is not a program of this architecture, or is truncated.
pub fn check_program(start: &[u8], bytes: u64) -> Result<bool, ElfMismatch> {
    let half = |at: usize| start.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if start.get(..4) != Some(b"\x7fELF") {
        return Err(ElfMismatch::NotElf);
    }
    if start.len() < 20 {
        return Err(ElfMismatch::CutShort(HEADER as u64));
    }
    let machine = half(18).unwrap_or_default();
    if machine != NATIVE.0 || start.get(4..6) != Some(&[2, 1]) {
        let known = match (machine, start.get(4)) {
            (3, _) => "32-bit x86",
            (62, Some(1)) => "x32",
            (62, _) => "x86-64",
            (40, _) => "32-bit Arm",
            (183, _) => "AArch64",
            (243, _) => "RISC-V",
            (258, _) => "LoongArch",
            (20 | 21, _) => "PowerPC",
            (22, _) => "S/390",
            _ => {
                return Err(ElfMismatch::Architecture(format!(
                    "another architecture (ELF machine {machine})"
                )));
            }
        };
        return Err(ElfMismatch::Architecture(known.to_owned()));
    }
    if !matches!(half(16), Some(2 | 3)) {
        return Err(ElfMismatch::NoProgram);
    }
    let needed = needed(start);
    if bytes < needed {
        return Err(ElfMismatch::CutShort(needed));
    }
    Ok(loader(start).is_some_and(|loader| {
        let name = Path::new(OsStr::from_bytes(loader)).file_name().unwrap_or_default();
        name.as_bytes().starts_with(b"ld-linux")
    }))
}

/// Size in bytes of the header of a 64-bit file (`Elf64_Ehdr`).
const HEADER: usize = 64;

/// Returns the least size of the file in bytes: the header, the segment table, and the loaded parts of the
/// file (`PT_LOAD`).
fn needed(start: &[u8]) -> u64 {
    let Some((table, size, count)) = table(start) else { return HEADER as u64 };
    let end = (table as u64).saturating_add((size * count) as u64);
    let ends = segments(start, 1).filter_map(|at| word(start, at + 8)?.checked_add(word(start, at + 32)?));
    ends.chain([end]).max().unwrap_or(end)
}

/// Returns the path of the loader that an ELF file names (`PT_INTERP`).
fn loader(start: &[u8]) -> Option<&[u8]> {
    segments(start, 3).find_map(|at| {
        let (offset, bytes) = (word(start, at + 8)? as usize, word(start, at + 32)? as usize);
        let text = start.get(offset..offset.checked_add(bytes)?)?;
        Some(text.strip_suffix(&[0]).unwrap_or(text))
    })
}

/// Returns the offsets of the segment headers of a type (`Elf64_Phdr`), as far as they are in `start`.
fn segments(start: &[u8], kind: u8) -> impl Iterator<Item = usize> {
    let (table, size, count) = table(start).unwrap_or_default();
    let all = (0..count).filter_map(move |index| table.checked_add(index * size));
    all.filter(move |at| at.checked_add(4).and_then(|end| start.get(*at..end)) == Some(&[kind, 0, 0, 0]))
}

/// Returns the offset of the segment table, the size of an entry, and the number of entries.
fn table(start: &[u8]) -> Option<(usize, usize, usize)> {
    let half = |at: usize| Some(u16::from_le_bytes(start.get(at..at + 2)?.try_into().ok()?));
    Some((word(start, 32)? as usize, usize::from(half(54)?), usize::from(half(56)?)))
}

fn word(start: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(start.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_program_is_distinguished_from_a_whole_one() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let kind = |bytes: usize| check_program(&whole[..bytes.min(4096)], bytes as u64);
        assert!(kind(whole.len()).is_ok());
        for bytes in [4, 20, 63, 100, 4096, 20_000] {
            assert!(
                matches!(kind(bytes), Err(ElfMismatch::CutShort(needed)) if needed > bytes as u64),
                "{bytes}"
            );
        }
    }
}
