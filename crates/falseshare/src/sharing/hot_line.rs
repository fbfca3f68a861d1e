//! Hot lines: shared lines with the names of their data and of the code that accesses them.

use super::{
    Code, Frame, HeapBlock, LineAccess, LineLayout, MappedFile, MemoryKind, Names, Process, SharedLine,
    Thread, names,
};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

/// Maximum number of callers of an allocation, among the program's own functions, that are reported.
const CALLERS: usize = 2;

/// What contains the shared bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum DataOwner {
    /// Global variables.
    Globals {
        /// The variables that are accessed, by address.
        variables: Vec<Variable>,
    },
    /// Blocks of the allocator.
    Heap {
        /// The blocks that are accessed, by address.
        blocks: Vec<Allocation>,
    },
    /// A part of a mapped file without a symbol.
    Module {
        /// The file.
        path: String,
    },
    /// A thread's stack or thread-local storage.
    Stack {
        /// The thread's name; `main thread` for the first thread of a process, empty if unknown.
        thread: String,
        /// Its kernel thread id; `None` if a finding is about the stacks of several threads of this name.
        #[serde(default)]
        tid: Option<i32>,
    },
    /// The heap of Go's runtime, or goroutine stacks in it.
    GoHeap,
    /// Other memory that the program mapped.
    Mapping {
        /// Its length in bytes.
        bytes: u64,
    },
    /// Unknown.
    Unknown,
}

/// A global variable that contains shared bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The file that contains it.
    pub module: String,
}

/// A heap block that contains shared bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allocation {
    /// Requested size in bytes.
    pub bytes: u64,
    /// The program's own functions that led to the allocation, innermost first; the direct caller of the
    /// allocator if there are none.
    pub callers: Vec<Frame>,
    /// Whether any of the callers belongs to the program.
    pub is_own: bool,
}

/// The name and the origin of the code at an address.
struct KnownCode {
    /// The frame by which the report names it.
    frame: Frame,
    origin: Origin,
    is_exchange: bool,
    is_exit_code: bool,
}

/// The owner of a piece of code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The program.
    Program,
    /// A library or the language's runtime.
    Library,
    /// An interpreter, which accesses memory for the program and for itself.
    Interpreter,
    /// Unknown: generated at run time, without a name.
    Unknown,
}

/// A process with the names of its code, by address.
pub(super) struct NamedProcess<'a> {
    pub process: &'a Process,
    code: HashMap<u64, KnownCode>,
    /// Whether any of the code is the C runtime's start or exit code.
    has_exit_code: bool,
}

impl<'a> NamedProcess<'a> {
    pub fn new(process: &'a Process) -> Self {
        let names = &process.names;
        let mut code_of: HashMap<u64, KnownCode> = HashMap::new();
        for access in process.lines.iter().flat_map(|line| &line.accesses) {
            code_of.entry(access.code).or_insert_with(|| {
                let (frame, own) = code(names, access.code, &process.program);
                let at = names.code(access.code);
                let origin = match at {
                    _ if own => Origin::Program,
                    Some(code) if code.is_interpreter() => Origin::Interpreter,
                    Some(code) if !code.module.is_empty() => Origin::Library,
                    _ => Origin::Unknown,
                };
                KnownCode {
                    frame,
                    origin,
                    is_exchange: at.is_some_and(|code| code.is_exchange),
                    is_exit_code: at.is_some_and(Code::is_exit_code),
                }
            });
        }
        let ends = code_of.values().any(|known| known.is_exit_code);
        Self { process, code: code_of, has_exit_code: ends }
    }

    fn code(&self, access: &LineAccess) -> &KnownCode {
        // `code` has an entry for every access of the process's lines.
        &self.code[&access.code]
    }
}

/// A shared line of a process, with its names.
pub(super) struct HotLine<'a> {
    pub process: &'a Process,
    named: &'a NamedProcess<'a>,
    /// The line, without the accesses of the C runtime's start and exit code.
    pub line: Cow<'a, SharedLine>,
    pub layout: LineLayout,
    pub data: DataOwner,
}

impl<'a> HotLine<'a> {
    /// Creates a hot line. `line` must be one of the process's lines.
    pub fn new(named: &'a NamedProcess<'a>, line: &'a SharedLine, layout: LineLayout) -> Self {
        let process = named.process;
        let is_at_the_end = |access: &LineAccess| named.code(access).is_exit_code;
        let mut line = Cow::Borrowed(line);
        if named.has_exit_code && line.accesses.iter().any(is_at_the_end) {
            line.to_mut().accesses.retain(|access| !is_at_the_end(access));
        }
        let data = data_owner(process, &line);
        Self { process, named, line, layout, data }
    }

    /// Returns whether an access takes or releases a lock, as far as the code shows. Exchanges in libraries
    /// do not count: they may belong to a barrier or a queue.
    pub fn is_of_lock(&self, access: &LineAccess) -> bool {
        let known = self.named.code(access);
        access.of_lock || access.writes > 0 && known.is_exchange && known.origin == Origin::Program
    }

    /// Returns the frame by which the report names the code of an access, and whether it is the program's own.
    pub fn code(&self, access: &LineAccess) -> (&'a Frame, bool) {
        let known = self.named.code(access);
        (&known.frame, known.origin == Origin::Program)
    }

    /// Returns the frames of all accesses, without duplicates.
    pub fn frames(&self) -> Vec<Frame> {
        let frames: BTreeSet<&Frame> = self.line.accesses.iter().map(|access| self.code(access).0).collect();
        frames.into_iter().cloned().collect()
    }

    /// Returns whether the program itself could change the sharing: its code accesses the line, or allocated
    /// or declared the data.
    pub fn is_own(&self) -> bool {
        let touched = self.line.accesses.iter().any(|access| self.code(access).1);
        match &self.data {
            // The program's own code accesses variables of the runtime too, and libraries access the program's.
            DataOwner::Globals { variables } => {
                // A Go program contains all packages, including the standard library. Only the code shows the owner.
                variables.iter().any(|it| self.declares(it)) && (touched || !self.process.names.is_go())
            }
            DataOwner::Heap { blocks } => touched || blocks.iter().any(|block| block.is_own),
            _ => touched,
        }
    }

    /// Returns whether the line may be the program's although none of its code is known to access it: code
    /// without a name takes part, or an interpreter's code accesses it most. Lines that the runtime itself
    /// accesses most, such as the counters of a method that is not compiled yet, belong to the runtime.
    pub fn is_possibly_own(&self) -> bool {
        let total = line_total(&self.line);
        let part = |origin| {
            let of_origin =
                self.line.accesses.iter().filter(|access| self.named.code(access).origin == origin);
            of_origin
                .fold(0_u64, |sum, access| sum.saturating_add(access.reads).saturating_add(access.writes))
        };
        let (unknown, interpreted) = (part(Origin::Unknown), part(Origin::Interpreter));
        let is_file = matches!(self.data, DataOwner::Module { .. });
        unknown > 0 && !is_negligible(unknown, total) || interpreted > total / 2 && !is_file
    }

    /// Returns whether a variable belongs to the program or to a library that comes with it.
    fn declares(&self, variable: &Variable) -> bool {
        !names::is_of_system(&variable.module, &self.process.program)
            && !names::is_runtime(&variable.name)
            && !self.process.names.runtimes.contains(&variable.module)
    }
}

/// Returns the name of a thread for the report.
pub(super) fn thread_name(pid: i32, thread: &Thread) -> String {
    match &thread.name {
        _ if thread.tid == pid => "main thread".to_owned(),
        name if name.is_empty() => "thread".to_owned(),
        name => name.clone(),
    }
}

/// Returns the frame by which code is named, and whether it is the program's own.
fn code(names: &Names, address: u64, program: &str) -> (Frame, bool) {
    if let Some(own) = names.own_frame(address, program) {
        return (own.clone(), true);
    }
    let innermost = names.code(address).and_then(|code| code.frames.first().cloned());
    (innermost.unwrap_or_else(|| Frame { function: format!("{address:#x}"), ..Frame::default() }), false)
}

/// Returns whether any access is to a byte of a range of addresses.
fn is_accessed(line: &SharedLine, from: u64, upto: u64) -> bool {
    line.accesses.iter().any(|access| overlaps(line, access, from, upto))
}

fn overlaps(line: &SharedLine, access: &LineAccess, from: u64, upto: u64) -> bool {
    let start = line.address.saturating_add(u64::from(access.offset));
    start < upto && from < start.saturating_add(u64::from(access.bytes.max(1)))
}

/// Returns the number of accesses to any byte of a range of addresses.
fn count_accesses(line: &SharedLine, from: u64, upto: u64) -> u64 {
    let inside = line.accesses.iter().filter(|access| overlaps(line, access, from, upto));
    inside.fold(0, |sum, access| sum.saturating_add(access.reads).saturating_add(access.writes))
}

/// Returns the number of all accesses to a line.
fn line_total(line: &SharedLine) -> u64 {
    line.accesses.iter().fold(0, |sum, access| sum.saturating_add(access.reads).saturating_add(access.writes))
}

/// Returns whether `count` is less than 0.1 % of `of`, as for exit code or initialization.
pub fn is_negligible(count: u64, of: u64) -> bool {
    count < of / 1000
}

fn data_owner(process: &Process, line: &SharedLine) -> DataOwner {
    match &line.memory {
        MemoryKind::Module { module } => in_module(process, line, process.modules.get(*module)),
        MemoryKind::Heap { blocks } => {
            let share = |block: &&HeapBlock| {
                count_accesses(line, block.start, block.start.saturating_add(block.bytes.max(1)))
            };
            // A block that takes no part in the transfers is only adjacent: it was initialized once, or is
            // freed at the end.
            let part = |block: &&HeapBlock| {
                let count = share(block);
                count > 0
                    && count.saturating_mul(10) >= line.false_transfers
                    && !is_negligible(count, line_total(line))
            };
            let mut touched: Vec<&HeapBlock> = blocks.iter().filter(part).collect();
            if touched.is_empty() {
                touched = blocks.iter().filter(|block| share(block) > 0).collect();
            }
            DataOwner::Heap { blocks: touched.into_iter().map(|block| allocation(process, block)).collect() }
        }
        MemoryKind::Stack { .. } | MemoryKind::Mapping { .. } if process.names.is_go() => DataOwner::GoHeap,
        MemoryKind::Stack { thread } => {
            let owner = process.threads.get(*thread);
            let name = owner.map(|owner| thread_name(process.pid, owner));
            DataOwner::Stack { thread: name.unwrap_or_default(), tid: owner.map(|owner| owner.tid) }
        }
        MemoryKind::Mapping { bytes, .. } => DataOwner::Mapping { bytes: *bytes },
        MemoryKind::Unknown => DataOwner::Unknown,
    }
}

fn in_module(process: &Process, line: &SharedLine, module: Option<&MappedFile>) -> DataOwner {
    let path = module.map(|module| module.path.clone()).unwrap_or_default();
    let touched =
        process.names.globals.iter().filter(|global| {
            is_accessed(line, global.start, global.start.saturating_add(global.bytes.max(1)))
        });
    let variables: Vec<Variable> = touched
        .map(|global| Variable { name: global.name.clone(), bytes: global.bytes, module: path.clone() })
        .collect();
    if variables.is_empty() { DataOwner::Module { path } } else { DataOwner::Globals { variables } }
}

fn allocation(process: &Process, block: &HeapBlock) -> Allocation {
    // A return address is that of the instruction after the call; the byte before it belongs to the call.
    let calls = block.callers.iter().map(|caller| caller.saturating_sub(1));
    let mut callers: Vec<Frame> = calls
        .clone()
        .filter_map(|call| process.names.own_frame(call, &process.program).cloned())
        .take(CALLERS)
        .collect();
    let own = !callers.is_empty();
    if !own {
        callers.extend(calls.take(1).map(|call| code(&process.names, call, &process.program).0));
    }
    Allocation { bytes: block.bytes, callers, is_own: own }
}
