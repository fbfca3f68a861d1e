//! What kind of program a file is, from its first bytes.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The architecture of this build, as an ELF header names it and people do.
#[cfg(target_arch = "x86_64")]
pub const OURS: (u16, &str) = (62, "x86-64");
/// The architecture of this build, as an ELF header names it and people do.
#[cfg(target_arch = "aarch64")]
pub const OURS: (u16, &str) = (183, "AArch64");
/// The architecture of this build is none for which there is a plugin.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const OURS: (u16, &str) = (u16::MAX, "another architecture");

/// Why a file is no program of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It does not begin as an ELF file does.
    NotElf,
    /// It is for this architecture.
    Architecture(String),
    /// It is an ELF file, but no program: an object file, a core dump.
    NoProgram,
}

/// Whether the file that begins so is a program of this architecture that loads shared libraries of GNU's C
/// library.
///
/// # Errors
/// It is no program of this architecture.
pub fn kind(start: &[u8]) -> Result<bool, Foreign> {
    let half = |at: usize| start.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if start.get(..4) != Some(b"\x7fELF") {
        return Err(Foreign::NotElf);
    }
    let machine = half(18).unwrap_or_default();
    if machine != OURS.0 || start.get(4..6) != Some(&[2, 1]) {
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
            _ => return Err(Foreign::Architecture(format!("another architecture (ELF machine {machine})"))),
        };
        return Err(Foreign::Architecture(known.to_owned()));
    }
    if !matches!(half(16), Some(2 | 3)) {
        return Err(Foreign::NoProgram);
    }
    Ok(loader(start).is_some_and(|loader| {
        let name = Path::new(OsStr::from_bytes(loader)).file_name().unwrap_or_default();
        name.as_bytes().starts_with(b"ld-linux")
    }))
}

/// The loader that an ELF file names (`PT_INTERP`).
fn loader(start: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u64::from_le_bytes(start.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(start.get(at..at + 2)?.try_into().ok()?));
    let (table, size, count) = (word(32)? as usize, usize::from(half(54)?), usize::from(half(56)?));
    (0..count).find_map(|index| {
        let header = table.checked_add(index * size)?;
        let kind = start.get(header..header.checked_add(4)?)?;
        if kind != [3, 0, 0, 0] {
            return None;
        }
        let (offset, bytes) = (word(header + 8)? as usize, word(header + 32)? as usize);
        let text = start.get(offset..offset.checked_add(bytes)?)?;
        Some(text.strip_suffix(&[0]).unwrap_or(text))
    })
}
