//! The parts of a BPF object that clang has compiled.

use crate::{
    Error, Result,
    btf::Btf,
    instruction::CALL,
    map::{ARRAY, MAPPABLE},
};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};
use std::fmt;

/// Section of the declarations of maps. Each is a variable of five words of 32 bits: kind (`BPF_MAP_TYPE_*`), size of a
/// key and of a value in bytes, number of entries (which the loading program may change), flags (`BPF_F_*`).
pub const MAP_SECTION: &str = "manycore_maps";

/// Sections of programs, by the beginning of their name.
const PROGRAM_SECTIONS: [&str; 5] = ["struct_ops/", "struct_ops.s/", "tp_btf/", "raw_tp", "syscall"];

/// Sections of one array each, by the beginning of their name; the rest is the name of the array.
const ARRAY_SECTION: &str = ".bss.";

/// A declared map, or an array at a fixed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDeclaration {
    pub name: String,
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub entries: u32,
    pub flags: u32,
    /// Whether programs access it without a lookup. To the kernel, all its entries are one value then.
    pub is_fixed: bool,
}

/// What an instruction refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The map with this index.
    Map(usize),
    /// An offset in the value of the map with this index.
    Value(usize, u32),
    /// A constant: the address of a symbol that the object does not define.
    Constant(String),
    /// A function of the kernel.
    KernelFunction(String),
}

impl fmt::Display for Target {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(index) | Self::Value(index, _) => write!(to, "map {index}"),
            Self::Constant(name) => write!(to, "the constant {name}"),
            Self::KernelFunction(name) => write!(to, "the function {name}"),
        }
    }
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramText {
    /// Name of the section: kind of the program, `/`, what it is attached to.
    pub section: String,
    /// Name of the function.
    pub name: String,
    pub code: Vec<u8>,
    /// Position in `code`, and what the instruction there refers to.
    pub references: Vec<(usize, Target)>,
}

/// All parts of an object.
pub struct Object {
    pub programs: Vec<ProgramText>,
    pub maps: Vec<MapDeclaration>,
    pub btf: Btf,
    /// The section `.BTF.ext`.
    pub btf_ext: Vec<u8>,
}

impl Object {
    /// Parses an object.
    ///
    /// # Errors
    /// [`Error::Object`] if it has other parts than those of this workspace.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let file = object::File::parse(bytes).map_err(|error| Error::Object(error.to_string()))?;
        let section = |name: &str| {
            let section = file.section_by_name(name).and_then(|section| section.data().ok());
            section.map(<[u8]>::to_vec).ok_or_else(|| Error::Object(format!("it has no section {name}")))
        };
        let btf = Btf::parse(section(".BTF")?)?;
        let mut maps = maps(&file)?;
        maps.extend(arrays(&file, &btf)?);
        let programs = file
            .sections()
            .filter(|section| is_program(section.name().unwrap_or_default()))
            .map(|section| program(&file, &section, &maps))
            .collect::<Result<_>>()?;
        let maps = maps.into_iter().map(|(_, map)| map).collect();
        Ok(Self { programs, maps, btf, btf_ext: section(".BTF.ext")? })
    }
}

fn is_program(section: &str) -> bool {
    PROGRAM_SECTIONS.iter().any(|kind| section.starts_with(kind))
}

/// Returns the arrays at fixed addresses, in the form of [`maps`]; each is at the start of its section.
fn arrays(file: &object::File, btf: &Btf) -> Result<Vec<(u64, MapDeclaration)>> {
    let names = file
        .sections()
        .filter_map(|section| Some(section.name().ok()?.strip_prefix(ARRAY_SECTION)?.to_owned()));
    names
        .map(|name| {
            let (entry_bytes, entries) = btf
                .array_variable(&name)
                .ok_or_else(|| Error::Object(format!("{ARRAY_SECTION}{name} has no array {name}")))?;
            if entry_bytes % 8 != 0 {
                return Err(Error::Object(format!("the entries of {name} are not words of 64 bits")));
            }
            let map = MapDeclaration {
                name,
                kind: ARRAY,
                key_bytes: 4,
                value_bytes: entry_bytes,
                entries,
                flags: MAPPABLE,
                is_fixed: true,
            };
            Ok((0, map))
        })
        .collect()
}

/// Returns the declared maps with their offsets in the section.
fn maps(file: &object::File) -> Result<Vec<(u64, MapDeclaration)>> {
    let Some(section) = file.section_by_name(MAP_SECTION) else { return Ok(Vec::new()) };
    let bytes = section.data().map_err(|error| Error::Object(error.to_string()))?;
    let mut maps: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(section.index()) && symbol.kind() == SymbolKind::Data)
        .map(|symbol| {
            let name = symbol.name().unwrap_or_default().to_owned();
            let words = bytes.get(symbol.address() as usize..).unwrap_or_default().chunks_exact(4);
            let words: Vec<u32> =
                words.take(5).filter_map(|word| Some(u32::from_ne_bytes(word.try_into().ok()?))).collect();
            let &[kind, key_bytes, value_bytes, entries, flags] = &words[..] else {
                return Err(Error::Object(format!("the map {name} is not declared by five words")));
            };
            let is_fixed = false;
            Ok((
                symbol.address(),
                MapDeclaration { name, kind, key_bytes, value_bytes, entries, flags, is_fixed },
            ))
        })
        .collect::<Result<_>>()?;
    maps.sort_by_key(|(offset, _)| *offset);
    Ok(maps)
}

/// Returns the program of a section.
fn program(
    file: &object::File,
    section: &object::Section,
    maps: &[(u64, MapDeclaration)],
) -> Result<ProgramText> {
    let wrong = |problem: String| Error::Object(problem);
    let section_name = section.name().unwrap_or_default().to_owned();
    let function = file
        .symbols()
        .find(|symbol| symbol.section_index() == Some(section.index()) && symbol.kind() == SymbolKind::Text)
        .ok_or_else(|| wrong(format!("the section {section_name} has no function")))?;
    let name = function.name().unwrap_or_default().to_owned();
    let code = section.data().map_err(|error| wrong(error.to_string()))?.to_vec();
    let mut references = Vec::new();
    for (at, relocation) in section.relocations() {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let symbol = file.symbol_by_index(index).map_err(|error| wrong(error.to_string()))?;
        let within = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let at = at as usize;
        let target = match within.as_ref().and_then(|section| section.name().ok()) {
            None => {
                let name = symbol.name().unwrap_or_default().to_owned();
                let is_call = code.get(at) == Some(&CALL);
                if is_call { Target::KernelFunction(name) } else { Target::Constant(name) }
            }
            Some(MAP_SECTION) => Target::Map(
                maps.iter()
                    .position(|(offset, map)| !map.is_fixed && *offset == symbol.address())
                    .ok_or_else(|| wrong(format!("{name} refers to an unknown map")))?,
            ),
            Some(other) => {
                // The addend is in the instruction.
                let addend = code
                    .get(at + 4..at + 8)
                    .and_then(|word| word.try_into().ok())
                    .map_or(0, u32::from_ne_bytes);
                let offset = symbol.address() as u32 + addend;
                let array = other.strip_prefix(ARRAY_SECTION);
                let array = maps.iter().position(|(_, map)| map.is_fixed && array == Some(map.name.as_str()));
                let index = array.ok_or_else(|| {
                    wrong(format!(
                        "{name} refers to {} in {other}: is a function not inlined?",
                        symbol.name().unwrap_or_default()
                    ))
                })?;
                Target::Value(index, offset)
            }
        };
        references.push((at, target));
    }
    Ok(ProgramText { section: section_name, name, code, references })
}
