//! An ELF file: its symbols, its source lines, and its load bias.

use crate::sharing::{Frame, Global, Module};
use addr2line::{Loader, demangle_auto};
use memmap2::Mmap;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use rustix::fs::{Mode, OFlags, open};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// Folder in which distributions install separate debug files.
const DEBUG_FILES: &str = "/usr/lib/debug";

/// Page size for mapping files. File offsets only have to be multiples of it, so the smallest page size
/// serves for all machines.
const PAGE: u64 = 4096;

/// A program or shared library.
#[derive(Default)]
pub(super) struct ObjectFile {
    segments: Vec<Segment>,
    functions: Vec<Symbol>,
    variables: Vec<Symbol>,
    lines: Option<Loader>,
    bytes: Option<Mmap>,
}

/// A part of the file that is loaded into memory.
struct Segment {
    offset: u64,
    file_bytes: u64,
    address: u64,
}

struct Symbol {
    start: u64,
    bytes: u64,
    name: String,
}

impl ObjectFile {
    /// Reads a file, and its separate debug file if that is installed. Returns `None` if it is not an ELF file.
    pub fn open(path: &Path) -> Option<Self> {
        let bytes = map(path)?;
        let object = object::File::parse(&*bytes).ok()?;
        let segments = object.segments().map(|segment| {
            let (offset, file_bytes) = segment.file_range();
            Segment { offset, file_bytes, address: segment.address() }
        });
        let mut file = Self { segments: segments.collect(), ..Self::default() };
        file.take_symbols(&object);
        let debug = if has_lines(&object) { Some(path.to_owned()) } else { debug_file(&object, path) };
        if let Some(debug) = debug {
            if debug != path
                && let Some(bytes) = map(&debug)
                && let Ok(object) = object::File::parse(&*bytes)
            {
                file.take_symbols(&object);
            }
            file.lines = Loader::new(&debug).ok();
        }
        for symbols in [&mut file.functions, &mut file.variables] {
            // If an address has several symbols, the longest one is sorted last and found first.
            symbols.sort_by(|a, b| (a.start, a.bytes, &b.name).cmp(&(b.start, b.bytes, &a.name)));
        }
        file.bytes = Some(bytes);
        Some(file)
    }

    fn take_symbols(&mut self, object: &object::File) {
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let list = match symbol.kind() {
                SymbolKind::Text => &mut self.functions,
                SymbolKind::Data => &mut self.variables,
                _ => continue,
            };
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_definition() && symbol.address() > 0 && !name.is_empty() {
                list.push(Symbol { start: symbol.address(), bytes: symbol.size(), name: readable(name) });
            }
        }
    }

    /// Returns the load bias: the difference between addresses in memory and in the file, given the mappings
    /// of the file.
    pub fn bias(&self, modules: &[&Module]) -> u64 {
        let candidates = modules.iter().flat_map(|module| self.biases(module));
        // Two segments may share a page of the file: use the bias that explains most mappings.
        let explained = |bias: &u64| {
            modules.iter().filter(|module| self.biases(module).any(|other| other == *bias)).count()
        };
        candidates.max_by_key(explained).unwrap_or(0)
    }

    fn biases<'a>(&'a self, module: &'a Module) -> impl Iterator<Item = u64> + 'a {
        let holds = |segment: &&Segment| {
            let first = segment.offset / PAGE * PAGE;
            (first..segment.offset.saturating_add(segment.file_bytes.max(1))).contains(&module.file_offset)
        };
        self.segments.iter().filter(holds).map(|segment| {
            let address = segment.address.wrapping_sub(segment.offset).wrapping_add(module.file_offset);
            module.start.wrapping_sub(address)
        })
    }

    /// Returns the functions at an address of the file, innermost first; empty if none is known.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(Ok(mut found)) = self.lines.as_ref().map(|lines| lines.find_frames(address)) {
            while let Ok(Some(frame)) = found.next() {
                let function =
                    frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
                let file = frame.location.as_ref().and_then(|location| location.file.map(str::to_owned));
                let line = frame.location.and_then(|location| location.line).filter(|line| *line > 0);
                let function =
                    function.or_else(|| self.function(address).map(|(symbol, _)| symbol.name.clone()));
                frames.extend(function.map(|function| Frame { function, file, line }));
            }
        }
        if frames.is_empty() {
            let symbol = self.function(address);
            let name = symbol.map(|(symbol, offset)| format!("{}+{offset:#x}", symbol.name));
            frames.extend(name.map(|function| Frame { function, file: None, line: None }));
        }
        frames
    }

    /// Returns the function that contains an address, and the offset from its start.
    fn function(&self, address: u64) -> Option<(&Symbol, u64)> {
        let upto = self.functions.partition_point(|symbol| symbol.start <= address);
        let symbol = self.functions[..upto].last()?;
        let offset = address - symbol.start;
        // Hand-written code may have no size: it extends to the next symbol.
        (symbol.bytes == 0 || offset < symbol.bytes).then_some((symbol, offset))
    }

    /// Returns whether it has a function of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.iter().any(|symbol| symbol.name == name)
    }

    /// Returns the file's bytes from an address to the end of the segment.
    pub fn code_at(&self, address: u64) -> Option<&[u8]> {
        let (bytes, inside) = self.segments.iter().find_map(|segment| {
            let inside =
                address.checked_sub(segment.address).filter(|inside| *inside < segment.file_bytes)?;
            let start = usize::try_from(segment.offset).ok()?;
            let count = usize::try_from(segment.file_bytes).ok()?;
            Some((self.bytes.as_ref()?.get(start..start.checked_add(count)?)?, inside))
        })?;
        bytes.get(usize::try_from(inside).ok()?..)
    }

    /// Returns the variables that overlap a range of addresses. If an address has several names, the first is used.
    pub fn variables(&self, from: u64, upto: u64) -> Vec<Global> {
        let before = self.variables.partition_point(|symbol| symbol.start < upto);
        let mut found: Vec<Global> = Vec::new();
        for symbol in &self.variables[..before] {
            let holds = symbol.bytes > 0 && from < symbol.start.saturating_add(symbol.bytes);
            if holds && found.last().is_none_or(|last| last.start != symbol.start) {
                found.push(Global { name: symbol.name.clone(), start: symbol.start, bytes: symbol.bytes });
            }
        }
        found
    }
}

/// Maps an ELF file into memory; returns `None` for anything else. Programs map devices, a path may now name
/// a FIFO instead of a library, and data files can be larger than memory. Therefore only regular files are
/// opened, and only the magic number is read.
#[allow(unsafe_code, reason = "a file is mapped")]
fn map(path: &Path) -> Option<Mmap> {
    // Opening some devices has side effects.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    // If the file has been replaced since by a FIFO, opening it must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic).ok()?;
    if magic != object::elf::ELFMAG {
        return None;
    }
    // SAFETY: a program that has just run is not modified any more; the loader of its lines relies on that too.
    unsafe { Mmap::map(&file) }.ok()
}

/// Returns whether the file itself has line information. Compressed sections have the same name, or one with a `z`.
fn has_lines(object: &object::File) -> bool {
    [".debug_line", ".zdebug_line"]
        .iter()
        .any(|name| object.section_by_name(name).is_some_and(|section| section.size() > 0))
}

/// Returns the separate debug file of a program, by its build id or its debug link
/// (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>).
fn debug_file(object: &object::File, path: &Path) -> Option<PathBuf> {
    let by_id = object.build_id().ok().flatten().and_then(|id| {
        let (first, rest) = id.split_first()?;
        let rest = rest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        Some(Path::new(DEBUG_FILES).join(format!(".build-id/{first:02x}/{rest}.debug")))
    });
    let folder = path.parent()?;
    let link = object.gnu_debuglink().ok().flatten().and_then(|(name, _)| std::str::from_utf8(name).ok());
    let by_link = link.into_iter().flat_map(|name| {
        let below = folder.strip_prefix("/").unwrap_or(folder);
        [folder.join(name), folder.join(".debug").join(name), Path::new(DEBUG_FILES).join(below).join(name)]
    });
    by_id.into_iter().chain(by_link).find(|candidate| candidate != path && candidate.is_file())
}

/// Demangles a symbol. A symbol without a mangling prefix is left unchanged, because the C++ demangler would
/// read the variable `s` as the type `short`.
fn readable(symbol: &str) -> String {
    if ["_Z", "__Z", "_R"].iter().any(|sign| symbol.starts_with(sign)) {
        demangle_auto(symbol.into(), None).into_owned()
    } else {
        symbol.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectFile, Segment, readable};
    use crate::sharing::Module;
    use std::{fs::File, path::Path, process::Command};

    #[test]
    fn devices_pipes_and_large_data_that_were_mapped_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, data) = (folder.path().join("pipe"), folder.path().join("data"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // A sparse file that is larger than memory.
        File::create(&data).unwrap().set_len(1 << 42).unwrap();
        for none in [Path::new("/dev/zero"), &pipe, &data, folder.path()] {
            assert!(ObjectFile::open(none).is_none(), "{}", none.display());
        }
        let program = ObjectFile::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(!program.functions.is_empty() && !program.segments.is_empty());
    }

    #[test]
    fn a_part_that_ends_beyond_all_addresses_has_a_bias() {
        let part = Segment { offset: u64::MAX - 8, file_bytes: u64::MAX, address: 3 };
        let file = ObjectFile { segments: vec![part], ..ObjectFile::default() };
        let module = Module { start: 0x1000, end: 0x2000, file_offset: u64::MAX - 1, path: String::new() };
        assert_eq!(file.bias(&[&module]), 0x1000 - 10);
    }

    #[test]
    fn a_variable_of_c_whose_name_could_be_a_type_of_cpp_keeps_it() {
        assert_eq!(["s", "i", "std", "main.counter"].map(readable), ["s", "i", "std", "main.counter"]);
    }

    #[test]
    fn mangled_names_are_shown_as_written() {
        assert_eq!(readable("_ZN4Pool4jobsE"), "Pool::jobs");
        assert_eq!(readable("_ZN3app5STATE17h0123456789abcdefE"), "app::STATE");
        assert_eq!(readable("_RNvC7mycrate3foo"), "mycrate::foo");
    }
}
