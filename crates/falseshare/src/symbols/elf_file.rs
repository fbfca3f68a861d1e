//! Reads parts of ELF files that belong to other users.
//!
//! Such files are not mapped into memory: if the owner truncates a mapped file, the reader is killed by
//! SIGBUS.

use memmap2::MmapMut;
use object::{
    Endianness,
    elf::{FileHeader64, SHT_DYNSYM, SHT_NOTE, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX, SectionType},
    read::elf::{FileHeader, SectionHeader},
};
use rustix::fs::{Mode, OFlags, open};
use std::{
    fs::{self, File},
    io::Read,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

/// Maximum number of bytes that are copied of one file.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// Types of the sections with symbols, their names, and notes.
const SYMBOLS: [SectionType; 5] = [SHT_SYMTAB, SHT_DYNSYM, SHT_SYMTAB_SHNDX, SHT_STRTAB, SHT_NOTE];

/// An open 64-bit ELF file.
#[derive(Debug)]
pub(super) struct ElfFile {
    file: File,
    bytes: u64,
}

impl ElfFile {
    /// Opens an ELF file; returns `None` for anything else. Programs map devices, a path may now name a FIFO
    /// instead of a library, and data files can be larger than memory. Therefore only regular files are
    /// opened, and only the magic number is read.
    pub fn open(path: &Path) -> Option<Self> {
        // Opening some devices has side effects.
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        // If the file has been replaced since by a FIFO, opening it must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(open(path, flags, Mode::empty()).ok()?);
        let bytes = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
        let mut magic = [0; 4];
        file.read_exact(&mut magic).ok()?;
        (magic == object::elf::ELFMAG).then_some(Self { file, bytes })
    }

    /// Returns at most `count` bytes at `offset`: fewer at the end of the file, none if it cannot be read.
    pub fn bytes_at(&self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let count = self.file.read_at(&mut bytes, offset).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Returns memory of the size of the file that contains the file's headers, symbols, notes, and the
    /// sections whose names are `wanted`. Everything else is zero and takes no memory. Returns `None` if the
    /// file is damaged or is truncated meanwhile, or if the parts exceed [`MAX_BYTES`].
    pub fn copy_sections(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Option<MmapMut> {
        let memory = MmapMut::map_anon(usize::try_from(self.bytes).ok()?).ok()?;
        let mut copy = Copy { file: &self.file, memory, left: MAX_BYTES };
        copy.add(&(0..size_of::<FileHeader64<Endianness>>() as u64))?;
        for range in tables(&copy.memory)? {
            copy.add(&range)?;
        }
        copy.add(&section_names(&copy.memory)?)?;
        for range in sections(&copy.memory, wanted)? {
            copy.add(&range)?;
        }
        Some(copy.memory)
    }
}

/// A partial copy of a file.
struct Copy<'a> {
    file: &'a File,
    memory: MmapMut,
    /// Number of bytes that may still be copied.
    left: u64,
}

impl Copy<'_> {
    fn add(&mut self, range: &Range<u64>) -> Option<()> {
        self.left = self.left.checked_sub(range.end.checked_sub(range.start)?)?;
        let to = self.memory.get_mut(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)?;
        self.file.read_exact_at(to, range.start).ok()
    }
}

fn range(start: u64, bytes: u64) -> Option<Range<u64>> {
    Some(start..start.checked_add(bytes)?)
}

/// Returns the ranges of the tables of segments and sections, given the file header.
fn tables(file: &[u8]) -> Option<[Range<u64>; 2]> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let size = |entry: u16, count: u16| u64::from(entry) * u64::from(count);
    let segments = size(header.e_phentsize(endian), header.e_phnum(endian));
    let sections = size(header.e_shentsize(endian), header.e_shnum(endian));
    Some([range(header.e_phoff(endian), segments)?, range(header.e_shoff(endian), sections)?])
}

/// Returns the range of the names of sections, given the tables; an empty one if the file has no sections.
fn section_names(file: &[u8]) -> Option<Range<u64>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.section_headers(endian, file).ok()?;
    if headers.is_empty() {
        return Some(0..0);
    }
    let names = headers.get(header.shstrndx(endian, file).ok()? as usize)?;
    let (start, bytes) = names.file_range(endian)?;
    range(start, bytes)
}

/// Returns the ranges of symbols, notes and `wanted` sections, given the tables and the names of sections.
fn sections(file: &[u8], wanted: &dyn Fn(&[u8]) -> bool) -> Option<Vec<Range<u64>>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let is_needed = |section: &&object::elf::SectionHeader64<Endianness>| {
        SYMBOLS.contains(&section.sh_type(endian)) || sections.section_name(endian, section).is_ok_and(wanted)
    };
    sections
        .iter()
        .filter(is_needed)
        .filter_map(|section| section.file_range(endian))
        .map(|(start, bytes)| range(start, bytes))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn devices_pipes_and_large_data_that_were_mapped_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, data) = (folder.path().join("pipe"), folder.path().join("data"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // A sparse file that is larger than memory.
        File::create(&data).unwrap().set_len(1 << 42).unwrap();
        for none in [Path::new("/dev/zero"), &pipe, &data, folder.path()] {
            assert!(ElfFile::open(none).is_none(), "{}", none.display());
        }
    }

    /// Regression test: a mapped file that was truncated while it was read killed the reader by SIGBUS.
    #[test]
    fn a_file_that_is_truncated_while_it_is_read_has_no_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let file = ElfFile::open(&path).unwrap();
        assert!(file.copy_sections(&|_| false).is_some());
        File::options().write(true).open(&path).unwrap().set_len(8192).unwrap();
        assert!(file.copy_sections(&|_| false).is_none());
        assert!(file.bytes_at(1 << 20, 16).is_empty());
        assert_eq!(file.bytes_at(8190, 16).len(), 2);
    }

    #[test]
    fn damaged_headers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let whole = fs::read(std::env::current_exe().unwrap()).unwrap();
        for at in 4..64 {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole[..16 << 10].to_vec();
                bytes[at] = byte;
                fs::write(&path, &bytes).unwrap();
                // The tables of the whole file are beyond the end of this one.
                let copy = ElfFile::open(&path).unwrap().copy_sections(&|_| true);
                let _ = copy.map(|copy| object::File::parse(&*copy).map(|_| ()));
            }
        }
    }
}
