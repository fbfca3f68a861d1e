//! Reads the build information that the Go linker writes into a program. The section `.go.buildinfo` is
//! described in Go's package `debug/buildinfo`, and how to find it in the ELF specification.

use crate::Go;
use object::{
    Endianness, elf, pod,
    read::elf::{FileHeader, SectionHeader},
};
use std::{fs::File, os::unix::fs::FileExt};

type Header = elf::FileHeader64<Endianness>;
type Section = elf::SectionHeader64<Endianness>;

/// The first bytes of the section.
const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Offset of the strings in the section.
const STRINGS: usize = 32;
/// Flag: the strings are in the section itself (since Go 1.18) and not behind pointers.
const INLINE: u8 = 2;
/// Length of the marker before and after the module text.
const MARK: usize = 16;
/// Maximum number of bytes that are read of a part. The largest programs list a thousand modules in a tenth of this.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the build information of a 64-bit ELF file. Returns `None` for files that Go did not link.
pub fn read(file: &File) -> Option<Go> {
    let section = section(file, b".go.buildinfo")?;
    let flags = *section.get(MAGIC.len() + 1)?;
    if !section.starts_with(MAGIC) {
        return None;
    }
    if flags & INLINE == 0 {
        return Some(Go::default());
    }
    let (version, rest) = string(section.get(STRINGS..)?)?;
    let modules = string(rest).map(|(text, _)| text).unwrap_or_default();
    let modules = modules.get(MARK..modules.len().saturating_sub(MARK)).unwrap_or_default();
    let modules = String::from_utf8_lossy(modules);
    Some(Go {
        version: String::from_utf8_lossy(version).into_owned(),
        automaxprocs: modules.contains("go.uber.org/automaxprocs"),
        ignores_quota: modules.contains("containermaxprocs=0"),
    })
}

/// Splits off a string that follows its length, which is encoded in groups of seven bits, lowest first (varint).
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes[at + 1..].split_at_checked(length);
        }
    }
    None
}

fn section(file: &File, name: &[u8]) -> Option<Vec<u8>> {
    let head = part(file, 0, size_of::<Header>() as u64)?;
    let header = Header::parse(&*head).ok()?;
    let endian = header.endian().ok()?;
    let count = u64::from(header.e_shnum(endian));
    let table = part(file, header.e_shoff(endian), size_of::<Section>() as u64 * count)?;
    let (sections, _) = pod::slice_from_bytes::<Section>(&table, count as usize).ok()?;
    let contents = |section: &Section| {
        let (start, bytes) = section.file_range(endian)?;
        part(file, start, bytes)
    };
    let names = contents(sections.get(usize::from(header.e_shstrndx(endian).0))?)?;
    let is_named = |section: &&Section| {
        let rest = names.get(section.sh_name(endian) as usize..).unwrap_or_default();
        rest.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
    };
    contents(sections.iter().find(is_named)?)
}

fn part(file: &File, from: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length.min(MAX_BYTES) as usize];
    file.read_exact_at(&mut bytes, from).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{io::Write, process::Command};

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// Builds an ELF file with one section.
    fn elf(name: &[u8], contents: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut names = vec![0];
        names.extend_from_slice(name);
        names.push(0);
        let (names_at, contents_at) = (64, 64 + names.len());
        let table = contents_at + contents.len();
        bytes.extend(&names);
        bytes.extend(contents);
        let entry = |name: u32, at: usize, size: usize| {
            let mut entry = vec![0; 64];
            entry[..4].copy_from_slice(&name.to_le_bytes());
            entry[0x18..0x20].copy_from_slice(&(at as u64).to_le_bytes());
            entry[0x20..0x28].copy_from_slice(&(size as u64).to_le_bytes());
            entry
        };
        bytes.extend(entry(0, names_at, names.len()));
        bytes.extend(entry(1, contents_at, contents.len()));
        bytes[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
        for (at, value) in [(0x3a, 64_u16), (0x3c, 2), (0x3e, 0)] {
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn build(version: &str, modules: &str) -> Vec<u8> {
        let mut section = MAGIC.to_vec();
        section.extend([8, INLINE]);
        section.resize(STRINGS, 0);
        let modules = format!("{}{modules}{}", "m".repeat(MARK), "m".repeat(MARK));
        for text in [version, &modules] {
            section.extend([0x80 | (text.len() & 0x7f) as u8, (text.len() >> 7) as u8]);
            section.extend(text.as_bytes());
        }
        elf(b".go.buildinfo", &section)
    }

    #[test]
    fn version_and_modules_are_read() {
        let go = read(&file(&build("go1.24.2", "dep\tgo.uber.org/automaxprocs\tv1.6.0\n"))).unwrap();
        assert_eq!(go, Go { version: "go1.24.2".into(), automaxprocs: true, ignores_quota: false });
        let go = read(&file(&build("go1.26", "build\tDefaultGODEBUG=containermaxprocs=0\n"))).unwrap();
        assert!(go.ignores_quota && !go.automaxprocs);
    }

    #[test]
    fn other_programs_have_none() {
        assert_eq!(read(&File::open("/proc/self/exe").unwrap()), None);
        assert_eq!(read(&file(b"#!/bin/sh\n")), None);
        assert_eq!(read(&file(&elf(b".text", b"x"))), None);
    }

    #[test]
    fn the_version_of_the_go_command_is_read() {
        let Ok(said) = Command::new("go").arg("version").output() else {
            eprintln!("SKIPPED: go is not installed");
            return;
        };
        let said = String::from_utf8(said.stdout).unwrap();
        let root =
            String::from_utf8(Command::new("go").args(["env", "GOROOT"]).output().unwrap().stdout).unwrap();
        let go = read(&File::open(format!("{}/bin/go", root.trim())).unwrap()).unwrap();
        assert_eq!(said.split(' ').nth(2), Some(go.version.as_str()));
    }

    proptest! {
        #[test]
        fn damaged_files_are_refused_or_read(at in 0usize..400, byte in any::<u8>(), cut in 0usize..500) {
            let mut bytes = build("go1.24.2", "x");
            bytes.truncate(cut);
            if let Some(there) = bytes.get_mut(at) {
                *there = byte;
            }
            let _ = read(&file(&bytes));
        }
    }
}
