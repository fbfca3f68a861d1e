//! An ELF file: its symbols, its source lines, and its load bias.

use super::{elf_file::ElfFile, source_lines::SourceLines};
use crate::sharing::{Frame, Global, MappedFile};
use addr2line::demangle_auto;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

/// Folder in which distributions install separate debug files.
const DEBUG_FILES: &str = "/usr/lib/debug";

/// Page size for mapping files. File offsets only have to be multiples of it, so the smallest page size
/// serves for all machines.
const PAGE: u64 = 4096;

/// Maximum number of bytes of an instruction, on x86.
const MAX_INSTRUCTION_BYTES: usize = 15;

/// A program or shared library.
#[derive(Default)]
pub(super) struct ObjectFile {
    segments: Vec<Segment>,
    functions: Vec<Symbol>,
    variables: Vec<Symbol>,
    /// The file with line information.
    debug: Option<PathBuf>,
    lines: OnceCell<Option<SourceLines>>,
    file: Option<ElfFile>,
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
        let elf = ElfFile::open(path)?;
        let sections = elf.copy_sections(&is_debug_link)?;
        let object = object::File::parse(&*sections).ok()?;
        let segments = object.segments().map(|segment| {
            let (offset, file_bytes) = segment.file_range();
            Segment { offset, file_bytes, address: segment.address() }
        });
        let mut file = Self { segments: segments.collect(), ..Self::default() };
        file.take_symbols(&object);
        let debug = if has_lines(&object) { Some(path.to_owned()) } else { debug_file(&object, path) };
        if let Some(debug) = debug {
            if debug != path
                && let Some(sections) =
                    ElfFile::open(&debug).and_then(|elf| elf.copy_sections(&is_debug_link))
                && let Ok(object) = object::File::parse(&*sections)
            {
                file.take_symbols(&object);
            }
            file.debug = Some(debug);
        }
        for symbols in [&mut file.functions, &mut file.variables] {
            // If an address has several symbols, the longest one is sorted last and found first.
            symbols.sort_by(|a, b| (a.start, a.bytes, &b.name).cmp(&(b.start, b.bytes, &a.name)));
        }
        file.file = Some(elf);
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
                list.push(Symbol { start: symbol.address(), bytes: symbol.size(), name: demangle(name) });
            }
        }
    }

    /// Returns the load bias: the difference between addresses in memory and in the file, given the mappings
    /// of the file.
    pub fn bias(&self, modules: &[&MappedFile]) -> u64 {
        let candidates = modules.iter().flat_map(|module| self.biases(module));
        // Two segments may share a page of the file: use the bias that explains most mappings.
        let explained = |bias: &u64| {
            modules.iter().filter(|module| self.biases(module).any(|other| other == *bias)).count()
        };
        candidates.max_by_key(explained).unwrap_or(0)
    }

    fn biases<'a>(&'a self, module: &'a MappedFile) -> impl Iterator<Item = u64> + 'a {
        let holds = |segment: &&Segment| {
            let first = segment.offset / PAGE * PAGE;
            (first..segment.offset.saturating_add(segment.file_bytes.max(1))).contains(&module.file_offset)
        };
        self.segments.iter().filter(holds).map(|segment| {
            let address = segment.address.wrapping_sub(segment.offset).wrapping_add(module.file_offset);
            module.start.wrapping_sub(address)
        })
    }

    /// Returns the line information, which is read at the first call.
    fn lines(&self) -> Option<&SourceLines> {
        self.lines.get_or_init(|| SourceLines::open(self.debug.as_ref()?)).as_ref()
    }

    /// Returns the functions at an address of the file, innermost first; empty if none is known.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(mut found) = self.lines().and_then(|lines| lines.frames(address)) {
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

    /// Returns the bytes of the instruction at an address, and some of those that follow it.
    pub fn instruction(&self, address: u64) -> Option<Vec<u8>> {
        self.segments.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address)?;
            let left = segment.file_bytes.checked_sub(inside).filter(|left| *left > 0)?;
            let count = MAX_INSTRUCTION_BYTES.min(usize::try_from(left).ok()?);
            Some(self.file.as_ref()?.bytes_at(segment.offset.checked_add(inside)?, count))
        })
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

/// Returns whether a section names the separate debug file.
fn is_debug_link(section: &[u8]) -> bool {
    section == b".gnu_debuglink"
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
fn demangle(symbol: &str) -> String {
    if ["_Z", "__Z", "_R"].iter().any(|sign| symbol.starts_with(sign)) {
        demangle_auto(symbol.into(), None).into_owned()
    } else {
        symbol.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectFile, Segment, demangle};
    use crate::sharing::MappedFile;

    #[test]
    fn this_program_has_functions_with_lines_and_instructions() {
        let program = ObjectFile::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(!program.functions.is_empty() && !program.segments.is_empty());
        let own = |symbol: &&super::Symbol| symbol.name.contains("symbols::file::");
        let named = program.functions.iter().filter(own).find_map(|symbol| {
            let file = program.frames(symbol.start).last()?.file.clone()?;
            file.ends_with("symbols/file.rs").then_some(symbol)
        });
        assert_eq!(program.instruction(named.unwrap().start).map(|bytes| bytes.len()), Some(15));
    }

    #[test]
    fn a_part_that_ends_beyond_all_addresses_has_a_bias() {
        let part = Segment { offset: u64::MAX - 8, file_bytes: u64::MAX, address: 3 };
        let file = ObjectFile { segments: vec![part], ..ObjectFile::default() };
        let module =
            MappedFile { start: 0x1000, end: 0x2000, file_offset: u64::MAX - 1, path: String::new() };
        assert_eq!(file.bias(&[&module]), 0x1000 - 10);
    }

    #[test]
    fn a_variable_of_c_whose_name_could_be_a_type_of_cpp_keeps_it() {
        assert_eq!(["s", "i", "std", "main.counter"].map(demangle), ["s", "i", "std", "main.counter"]);
    }

    #[test]
    fn mangled_names_are_shown_as_written() {
        assert_eq!(demangle("_ZN4Pool4jobsE"), "Pool::jobs");
        assert_eq!(demangle("_ZN3app5STATE17h0123456789abcdefE"), "app::STATE");
        assert_eq!(demangle("_RNvC7mycrate3foo"), "mycrate::foo");
    }
}
