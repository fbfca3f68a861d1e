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
/// Two kinds of constants of a program get their values here, so that programs need no numbers of one kernel version:
/// `SCX_ENQ_LAST` and others of `SCX_` the value of the kernel's enumerator of that name (0 if there is none), and
/// `has_NAME` whether the kernel has the function `NAME`. All others are set by [`Loader::set`].
pub struct Loader {
    object: Object,
    kernel: Btf,
    aliases: Vec<(String, String)>,
    /// Constants that are known: at first, the kernel's enumerators whose names begin with [`ENUMERATORS`].
    values: HashMap<String, u64>,
}

/// How the names of enumerators begin that programs use as constants.
const ENUMERATORS: &str = "SCX_";
/// How the names of constants begin that say whether the kernel has a function.
const FUNCTIONS: &str = "has_";

/// Programs and maps in the kernel. They are removed when this value and all attachments are dropped.
pub struct Loaded {
    pub(crate) programs: Vec<Program>,
    /// The declared maps, in the order of the object.
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
        Ok(Self { object, kernel, aliases: Vec::new(), values })
    }

    /// Uses the kernel's function `older` where `name` is called and the kernel has no such function.
    pub fn alias(&mut self, name: &str, older: &str) {
        self.aliases.push((name.to_owned(), older.to_owned()));
    }

    /// Returns the value of an enumerator of the kernel whose name begins with `SCX_`, or of a constant that was set; 0 if
    /// there is none.
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

    /// Sets a constant, also one that no program uses. Its name does not begin with `has_`.
    pub fn set(&mut self, constant: &str, value: u64) {
        debug_assert!(!constant.starts_with(FUNCTIONS), "{constant} is set by the kernel's functions");
        self.values.insert(constant.to_owned(), value);
    }

    /// Creates the maps and loads the programs. Programs for operations that the kernel does not have are left out.
    ///
    /// # Errors
    /// [`Error::Map`], [`Error::Lacks`], or [`Error::Verifier`] with the last lines of the verifier's log.
    pub fn load(self) -> Result<Loaded> {
        let Self { mut object, kernel, aliases, values } = self;
        let maps = object.maps.iter().map(Map::create).collect::<Result<Vec<_>>>()?;
        let linker = Linker { maps: &maps, kernel: &kernel, aliases: &aliases, values: &values };
        let mut programs = Vec::new();
        for program in &mut object.programs {
            let Some(kind) = ProgramKind::of(&program.section, &kernel)? else { continue };
            core_relocation::relocate(program, &object.btf, &object.btf_ext, &kernel)?;
            for (at, target) in &program.references {
                let code = program.code.get_mut(*at..).unwrap_or_default();
                linker.link(&mut Instruction(code), target).ok_or_else(|| {
                    let name = &program.name;
                    Error::Object(format!("{name} refers to {target} at byte {at}, which has no value there"))
                })?;
            }
            let fd = load(program, &kind)?;
            programs.push(Program { section: program.section.clone(), name: program.name.clone(), fd });
        }
        Ok(Loaded { programs, maps, kernel })
    }
}

/// What programs can refer to.
struct Linker<'a> {
    maps: &'a [Map],
    kernel: &'a Btf,
    aliases: &'a [(String, String)],
    values: &'a HashMap<String, u64>,
}

impl Linker<'_> {
    /// Replaces what an instruction refers to by what is known; `None` if the instruction is of another kind, or a constant
    /// has no value.
    fn link(&self, instruction: &mut Instruction, target: &Target) -> Option<()> {
        let fd = |index: usize| Some(self.maps.get(index)?.fd.as_raw_fd() as u32);
        match target {
            Target::Map(index) if instruction.is_load_64() => {
                instruction.load_map(Meaning::Map, fd(*index)?, 0);
            }
            Target::Value(index, offset) if instruction.is_load_64() => {
                instruction.load_map(Meaning::MapValue, fd(*index)?, *offset);
            }
            Target::Constant(name) if instruction.is_load_64() => {
                return instruction.load_constant(self.constant(name)?).then_some(());
            }
            // A call of a function that is missing is refused by the verifier, unless it is never reached.
            Target::KernelFunction(name) if instruction.is_call() => {
                instruction.call_kernel(self.function(name).unwrap_or(0));
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the id of a function of the kernel, or of the one that is used in its place.
    fn function(&self, name: &str) -> Option<u32> {
        let older = || {
            let mut older = self.aliases.iter().filter(|(newer, _)| newer == name);
            older.find_map(|(_, older)| self.kernel.function(older))
        };
        self.kernel.function(name).or_else(older)
    }

    fn constant(&self, name: &str) -> Option<u64> {
        match name.strip_prefix(FUNCTIONS) {
            Some(function) => Some(u64::from(self.kernel.function(function).is_some())),
            None if name.starts_with(ENUMERATORS) => Some(self.values.get(name).copied().unwrap_or(0)),
            None => self.values.get(name).copied(),
        }
    }
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
    /// Returns a map by its name.
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
