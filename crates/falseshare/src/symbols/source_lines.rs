//! Source lines of code addresses, from the debug information (DWARF) of a file.
#![allow(
    clippy::arc_with_non_send_sync,
    reason = "addr2line requires an Arc, and only one thread looks names up"
)]

use super::elf_file::{ElfFile, MAX_BYTES};
use addr2line::{Context, FrameIter, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{
    AbbreviationsCacheStrategy, Dwarf, DwarfPackage, EndianRcSlice, Reader as _, RunTimeEndian, SectionId,
};
use object::{Object, ObjectSection};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

type Reader = EndianRcSlice<RunTimeEndian>;

/// The sections that are needed to look up functions and lines.
const NEEDED: [SectionId; 13] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
];

/// The debug information of a file.
pub(super) struct SourceLines {
    context: Context<Reader>,
    /// The package of split debug information (`.dwp`) beside the file.
    package: Option<DwarfPackage<Reader>>,
}

impl SourceLines {
    /// Reads the debug information of a file.
    pub fn open(path: &Path) -> Option<Self> {
        let mut dwarf = load(path, &|id| Some(id.name()), &|section| Dwarf::load(section))?;
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf).ok()?;
        let mut package = OsString::from(path);
        package.push(".dwp");
        let empty = Reader::new(Rc::from([]), RunTimeEndian::default());
        let package = load(Path::new(&package), &|id| id.dwo_name(), &|section| {
            DwarfPackage::load(section, empty.clone())
        });
        Some(Self { context, package })
    }

    /// Returns the functions at an address, innermost first; those that were inlined come before their callers.
    pub fn frames(&self, address: u64) -> Option<FrameIter<'_, Reader>> {
        let mut result = self.context.find_frames(address);
        loop {
            match result {
                LookupResult::Output(frames) => return frames.ok(),
                LookupResult::Load { load, continuation } => {
                    result = continuation.resume(self.split(&load));
                }
            }
        }
    }

    /// Loads the split debug information of a unit, from the package or from a file of its own (`.dwo`).
    fn split(&self, unit: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
        let package = self.package.as_ref();
        if let Some(dwarf) = package.and_then(|package| package.find_cu(unit.dwo_id, &unit.parent).ok()?) {
            return Some(Arc::new(dwarf));
        }
        let mut path = PathBuf::new();
        for part in [unit.comp_dir.as_ref(), Some(unit.path.as_ref()?)].into_iter().flatten() {
            path.push(OsStr::from_bytes(&part.to_slice().ok()?));
        }
        let mut dwarf = load(&path, &|id| id.dwo_name(), &|section| Dwarf::load(section))?;
        let header = dwarf.units().next().ok()??;
        if dwarf.unit(header).ok()?.dwo_id != Some(unit.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&unit.parent);
        Some(Arc::new(dwarf))
    }
}

/// A function that returns the contents of a section.
type Section<'a> = &'a dyn Fn(SectionId) -> Result<Reader, gimli::Error>;

/// Reads the [`NEEDED`] sections of a file, whose names are given by `name`, and passes them to `build`.
fn load<T>(
    path: &Path,
    name: &dyn Fn(SectionId) -> Option<&'static str>,
    build: &dyn Fn(Section<'_>) -> Result<T, gimli::Error>,
) -> Option<T> {
    let names: Vec<&str> = NEEDED.into_iter().filter_map(name).collect();
    let is_needed = |section: &[u8]| {
        let section = section.strip_prefix(b".z").or_else(|| section.strip_prefix(b".")).unwrap_or(section);
        names.iter().any(|name| name.as_bytes().strip_prefix(b".") == Some(section))
    };
    let file = ElfFile::open(path)?.copy_sections(&is_needed)?;
    let object = object::File::parse(&*file).ok()?;
    let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| {
        let section = name(id).filter(|name| names.contains(name)).and_then(|it| object.section_by_name(it));
        let bytes = section.map_or(Some(Rc::from([])), |section| contents(&section));
        bytes.map(|bytes| Reader::new(bytes, endian)).ok_or(gimli::Error::Io)
    };
    build(&section).ok()
}

fn contents(section: &object::Section<'_, '_>) -> Option<Rc<[u8]>> {
    let data = section.compressed_data().ok()?;
    if data.uncompressed_size > MAX_BYTES {
        return None;
    }
    data.decompress().ok().map(Rc::from)
}
