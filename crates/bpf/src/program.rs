//! From an object to programs in the kernel.

use crate::{
    Error, Result,
    btf::{Btf, kind},
    core_relocation,
    elf::{Object, ProgramText, Target},
    instruction::{Instruction, Meaning, SIZE},
    map::Map,
    syscall::{Attributes, Command},
};
use std::{
    collections::HashMap,
    os::fd::{AsRawFd, OwnedFd},
};

/// Lines of the verifier's log that an error has.
const LOG_LINES: usize = 12;
/// Size of the buffer for that log in bytes.
const LOG_BYTES: usize = 16 << 20;

/// Licence that the kernel is given. Functions for GPL-compatible programs only are available to it.
const LICENCE: &[u8] = b"Dual MIT/GPL\0";

/// `BPF_F_SLEEPABLE`.
const SLEEPABLE: u32 = 1 << 4;

/// `BPF_F_TEST_RUN_ON_CPU`.
const ON_CPU: u32 = 1;

/// An object that is about to be loaded.
///
/// Two kinds of constants of a program (`const volatile` variables) get their values here, so that programs need no
/// numbers of one kernel version: `SCX_ENQ_LAST` and others of `SCX_` the value of the kernel's enumerator of that name (0
/// if there is none), and `has_NAME` whether the kernel has the function `NAME`.
pub struct Loader {
    object: Object,
    kernel: Btf,
    aliases: Vec<(String, String)>,
    /// The kernel's enumerators whose names begin with [`ENUMERATORS`].
    values: HashMap<String, u64>,
}

/// How the names of enumerators begin that programs use as constants.
const ENUMERATORS: &str = "SCX_";

/// Programs and maps in the kernel. They are removed when this value and all attachments are dropped.
pub struct Loaded {
    pub(crate) programs: Vec<Program>,
    /// The declared maps, in the order of the object, then those of its variables.
    maps: Vec<Map>,
    pub(crate) kernel: Btf,
}

/// A loaded program.
#[derive(Debug)]
pub(crate) struct Program {
    pub section: String,
    pub name: String,
    pub fd: OwnedFd,
}

impl Loader {
    /// Parses an object, for the running kernel.
    ///
    /// # Errors
    /// [`Error::Object`] if the object is damaged, [`Error::NoBtf`] if the kernel does not describe its types.
    pub fn new(object: &[u8]) -> Result<Self> {
        let (object, kernel) = (Object::parse(object)?, Btf::of_kernel()?);
        let values = kernel.values(ENUMERATORS);
        let mut loader = Self { object, kernel, aliases: Vec::new(), values };
        loader.set_constants_of_kernel();
        Ok(loader)
    }

    fn set_constants_of_kernel(&mut self) {
        let Some(section) = self.object.data.iter_mut().find(|section| section.name == ".rodata") else {
            return;
        };
        for (name, offset, size) in &section.variables {
            let value = if let Some(function) = name.strip_prefix("has_") {
                u64::from(self.kernel.function(function).is_some())
            } else if name.starts_with(ENUMERATORS) {
                self.values.get(name).copied().unwrap_or(0)
            } else {
                continue;
            };
            if let Some(place) = section.bytes.get_mut(*offset..offset + size) {
                place.copy_from_slice(&value.to_le_bytes()[..*size.min(&8)]);
            }
        }
    }

    /// Uses the kernel's function `older` where `name` is called and the kernel has no such function.
    pub fn alias(&mut self, name: &str, older: &str) {
        self.aliases.push((name.to_owned(), older.to_owned()));
    }

    /// Returns the value of an enumerator of the kernel whose name begins with `SCX_`; 0 if it has none.
    pub fn value(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// Sets the number of entries of a map. An array at a fixed address cannot have more than its declaration says.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such map, or it is such an array and too small.
    pub fn set_entries(&mut self, map: &str, entries: u32) -> Result<()> {
        let found = self.object.maps.iter_mut().find(|known| known.name == map);
        let found = found.ok_or_else(|| Error::Object(format!("it has no map {map}")))?;
        if found.is_fixed && entries > found.entries {
            return Err(Error::Object(format!("{map} has {} entries, not {entries}", found.entries)));
        }
        found.entries = entries;
        Ok(())
    }

    /// Sets a variable, whose size must be that of `value`.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such variable of that size.
    pub fn set(&mut self, variable: &str, value: &[u8]) -> Result<()> {
        for section in &mut self.object.data {
            let found =
                section.variables.iter().find(|(name, _, size)| name == variable && *size == value.len());
            if let Some((_, offset, size)) = found {
                section.bytes[*offset..offset + size].copy_from_slice(value);
                return Ok(());
            }
        }
        Err(Error::Object(format!("it has no variable {variable} of {} bytes", value.len())))
    }

    /// Creates the maps and loads the programs. Programs for operations that the kernel does not have are left out.
    ///
    /// # Errors
    /// [`Error::Map`], [`Error::Lacks`], or [`Error::Verifier`] with the last lines of the verifier's log.
    pub fn load(self) -> Result<Loaded> {
        let Self { mut object, kernel, aliases, .. } = self;
        let mut maps = object.maps.iter().map(Map::create).collect::<Result<Vec<_>>>()?;
        for section in &object.data {
            maps.push(Map::of_variables(section)?);
        }
        let mut programs = Vec::new();
        for program in &mut object.programs {
            let Some(kind) = ProgramKind::of(&program.section, &kernel)? else { continue };
            core_relocation::relocate(program, &object.btf, &object.btf_ext, &kernel)?;
            for (at, target) in &program.references {
                let code = program.code.get_mut(*at..).unwrap_or_default();
                link(&mut Instruction(code), target, &maps, &kernel, &aliases)
                    .ok_or_else(|| Error::Object(format!("a reference of {} at byte {at}", program.name)))?;
            }
            let fd = load(program, &kind)?;
            programs.push(Program { section: program.section.clone(), name: program.name.clone(), fd });
        }
        Ok(Loaded { programs, maps, kernel })
    }
}

/// Replaces what an instruction refers to by what the kernel knows; `None` if the instruction is of another kind.
fn link(
    instruction: &mut Instruction,
    target: &Target,
    maps: &[Map],
    kernel: &Btf,
    aliases: &[(String, String)],
) -> Option<()> {
    let fd = |index: usize| Some(maps.get(index)?.fd.as_raw_fd() as u32);
    match target {
        Target::Map(index) if instruction.is_load_64() => instruction.load_map(Meaning::Map, fd(*index)?, 0),
        Target::Value(index, offset) if instruction.is_load_64() => {
            instruction.load_map(Meaning::MapValue, fd(*index)?, *offset);
        }
        Target::KernelFunction(name) if instruction.is_call() => {
            let older = || {
                aliases
                    .iter()
                    .filter(|(newer, _)| newer == name)
                    .find_map(|(_, older)| kernel.function(older))
            };
            // A call of a function that is missing is refused by the verifier, unless it is never reached.
            instruction.call_kernel(kernel.function(name).or_else(older).unwrap_or(0));
        }
        _ => return None,
    }
    Some(())
}

/// How a program is loaded.
struct ProgramKind {
    /// `BPF_PROG_TYPE_*`.
    number: u32,
    flags: u32,
    /// `BPF_TRACE_RAW_TP`, or the index of the operation.
    attach_type: u32,
    /// What it is attached to, of the kernel's types.
    attach_id: u32,
}

impl ProgramKind {
    /// Returns how the program of a section is loaded; `None` for an operation that the kernel does not have.
    fn of(section: &str, kernel: &Btf) -> Result<Option<Self>> {
        let (kind, rest) = section.split_once('/').unwrap_or((section, ""));
        let lacks = |what: String| Error::Lacks(what);
        Ok(match kind {
            "struct_ops" | "struct_ops.s" => {
                let (operations, member) = rest.split_once('.').unwrap_or_default();
                let id = kernel.find(operations, &[kind::STRUCT]);
                let attach_id = id.ok_or_else(|| lacks(format!("struct {operations}")))?;
                let index = kernel.members(attach_id).position(|known| known.name == member);
                let flags = if kind == "struct_ops.s" { SLEEPABLE } else { 0 };
                index.map(|index| Self { number: 27, flags, attach_type: index as u32, attach_id })
            }
            "tp_btf" => {
                // After a dot: a name for one of several programs.
                let tracepoint = rest.split('.').next().unwrap_or_default();
                let id = kernel.find(&format!("btf_trace_{tracepoint}"), &[kind::TYPEDEF]);
                let attach_id = id.ok_or_else(|| lacks(format!("tracepoint {tracepoint}")))?;
                Some(Self { number: 26, flags: 0, attach_type: 23, attach_id })
            }
            "raw_tp" => Some(Self { number: 17, flags: 0, attach_type: 0, attach_id: 0 }),
            _ => Some(Self { number: 31, flags: SLEEPABLE, attach_type: 0, attach_id: 0 }),
        })
    }
}

/// Loads a program, and once more with a log if the kernel refuses it.
fn load(program: &ProgramText, kind: &ProgramKind) -> Result<OwnedFd> {
    let attributes = || {
        Attributes::new()
            .word(0, kind.number)
            .word(4, (program.code.len() / SIZE) as u32)
            .input(8, &program.code)
            .input(16, LICENCE)
            .word(44, kind.flags)
            .name(48, &program.name)
            .word(68, kind.attach_type)
            .word(108, kind.attach_id)
    };
    let source = match attributes().open(Command::ProgramLoad) {
        Ok(fd) => return Ok(fd),
        Err(error) => error,
    };
    let mut log = vec![0; LOG_BYTES];
    let logged = attributes().word(24, 1).word(28, LOG_BYTES as u32).output(32, &mut log);
    if let Ok(fd) = logged.open(Command::ProgramLoad) {
        return Ok(fd);
    }
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.trim_end_matches('\0').trim_end().lines().collect();
    let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    Err(Error::Verifier { name: program.name.clone(), source, log })
}

impl Loaded {
    /// Returns a map by its name; variables are in `.rodata`, `.data` and `.bss`.
    ///
    /// # Errors
    /// [`Error::Object`] if there is none.
    pub fn map(&self, name: &str) -> Result<&Map> {
        let found = self.maps.iter().find(|map| map.name() == name);
        found.ok_or_else(|| Error::Object(format!("it has no map {name}")))
    }

    fn program(&self, name: &str) -> Result<&Program> {
        let found = self.programs.iter().find(|program| program.name == name);
        found.ok_or_else(|| Error::Object(format!("it has no program {name}")))
    }

    /// Attaches a program to its tracepoint, until the returned value is dropped.
    ///
    /// # Errors
    /// [`Error::Attach`] if the kernel refuses it.
    pub fn attach(&self, name: &str) -> Result<OwnedFd> {
        let program = self.program(name)?;
        let attributes = Attributes::new().word(8, program.fd.as_raw_fd() as u32);
        let attached = attributes.open(Command::RawTracepointOpen);
        attached.map_err(|source| Error::Attach { name: name.to_owned(), source })
    }

    /// Runs a program of the section `syscall` once, and returns what it returned.
    ///
    /// # Errors
    /// [`Error::Attach`] if the kernel refuses it.
    pub fn run(&self, name: &str) -> Result<u32> {
        let mut attributes = Attributes::new().word(0, self.program(name)?.fd.as_raw_fd() as u32);
        let run = attributes.call_for(Command::ProgramTestRun, 4);
        run.map(|(_, returned)| returned).map_err(|source| Error::Attach { name: name.to_owned(), source })
    }

    /// Runs a program of the section `raw_tp` once on a CPU, in an interrupt of the task that runs there.
    ///
    /// # Errors
    /// [`Error::Attach`] if the kernel refuses it, or the CPU is offline.
    pub fn run_on(&self, name: &str, cpu: u32) -> Result<()> {
        let fd = self.program(name)?.fd.as_raw_fd() as u32;
        let run = Attributes::new().word(0, fd).word(64, ON_CPU).word(68, cpu).call(Command::ProgramTestRun);
        run.map(drop).map_err(|source| Error::Attach { name: name.to_owned(), source })
    }
}
