//! Names of the code and data of an observed process.

use serde::{Deserialize, Serialize};

/// Names that were looked up in the files of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Names {
    /// Names of code, by address.
    pub code: Vec<Code>,
    /// Global variables that contain shared bytes, by address.
    pub globals: Vec<Global>,
    /// Paths of files that are a language's interpreter or virtual machine. A program in that language cannot
    /// change what their code does with their data, such as reference counts.
    #[serde(default)]
    pub runtimes: Vec<String>,
}

/// Names of the code at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Code {
    /// The address, as in [`LineAccess::code`](super::LineAccess::code) and
    /// [`HeapBlock::callers`](super::HeapBlock::callers).
    pub address: u64,
    /// The file that contains it; [`GENERATED`] for code that was generated at run time and has a name; empty
    /// for such code without a name.
    pub module: String,
    /// The function and the functions that were inlined there, innermost first; never empty.
    pub frames: Vec<Frame>,
    /// Whether the instruction is an exchange or a compare-and-exchange, which locks are made of.
    #[serde(default)]
    pub is_exchange: bool,
}

/// A function and a position in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frame {
    /// The function; with an offset if no line is known; the file with an offset if no function is known.
    pub function: String,
    /// The source file, where debug information names it.
    pub file: Option<String>,
    /// The line number, from 1.
    pub line: Option<u32>,
}

/// A global variable of a mapped file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its address in the process.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Value of [`Code::module`] for code that was generated at run time.
pub const GENERATED: &str = "[generated]";

/// Prefixes of names of generated code that belongs to the runtime: to V8, to Java's virtual machine, and to
/// its class library.
const GENERATED_RUNTIMES: [&str; 15] = [
    "Builtin:",
    "BytecodeHandler:",
    "Stub:",
    "RegExp:",
    "Interpreter",
    "StubRoutines",
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "Ljava/",
    "Ljdk/",
    "Lsun/",
    "Ljavax/",
];

/// Parts of source paths that belong to a language's library and not to a program.
const LIBRARIES: [&str; 8] = [
    "/rustc/",
    "/library/core/src/",
    "/library/alloc/src/",
    "/library/std/src/",
    "/include/c++/",
    "/include/x86_64-linux-gnu/c++/",
    "/lib/gcc/",
    "jemalloc-sys",
];

/// Packages of Go's standard library: the folders below `go/src/` or `go-1.26/src/`.
const GO_PACKAGES: [&str; 14] = [
    "runtime", "internal", "sync", "syscall", "time", "os", "net", "fmt", "io", "reflect", "context", "log",
    "math", "crypto",
];

/// Folders of files that come with the system.
const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];

/// Prefixes of functions and variables that belong to a language's runtime.
const RUNTIMES: [&str; 9] =
    ["runtime.", "internal/", "sync/atomic.", "std::", "core::", "alloc::", "__gnu_cxx::", "_cgo_", "_rjem_"];

impl Names {
    /// Returns the names of the code at an address.
    pub fn code(&self, address: u64) -> Option<&Code> {
        self.code.binary_search_by_key(&address, |code| code.address).ok().map(|at| &self.code[at])
    }

    /// Returns whether Go's scheduler is among the code. Goroutines have their stacks in Go's heap.
    pub(super) fn is_go(&self) -> bool {
        self.code.iter().flat_map(|code| &code.frames).any(|frame| frame.function == "runtime.schedule")
    }

    /// Returns whether there is debug information for `program`.
    fn has_debug_lines(&self, program: &str) -> bool {
        self.code.iter().any(|code| {
            code.module == program
                && code.frames.iter().any(|frame| frame.file.is_some() && !frame.is_library())
        })
    }

    /// Returns the innermost frame at an address that belongs to the program and not to a library, if there is one.
    pub fn own_frame(&self, address: u64, program: &str) -> Option<&Frame> {
        let code = self.code(address)?;
        if is_of_system(&code.module, program) || self.runtimes.contains(&code.module) {
            return None;
        }
        if code.module == GENERATED {
            return code.frames.iter().find(|frame| !self.is_generated_by_runtime(&frame.function));
        }
        let silent = code.frames.iter().all(|frame| frame.file.is_none());
        if silent && (code.module != program || self.has_debug_lines(program)) {
            return None;
        }
        code.frames.iter().find(|frame| !frame.is_library())
    }
}

impl Names {
    /// Returns whether generated code of this name belongs to the language's runtime or library.
    fn is_generated_by_runtime(&self, name: &str) -> bool {
        // For `java.lang.Object java.util.Map.get(java.lang.Object)`, this removes the result and the arguments.
        let (head, is_method) = match name.split_once('(') {
            Some((head, _)) => (head.trim_end(), true),
            None => (name, false),
        };
        let last = head.rsplit(' ').next().unwrap_or(head);
        let is_runtime = |name: &str| GENERATED_RUNTIMES.iter().any(|start| name.starts_with(start));
        // HotSpot's own pieces of code have no class.
        let is_piece = !(is_method && last.contains('.') || name.contains("::") || name.contains(';'));
        is_runtime(head) && !is_method
            || is_runtime(last)
            || name.contains("[System.")
            || is_piece && self.runtimes.iter().any(|path| path.ends_with("/libjvm.so"))
    }
}

impl Frame {
    /// Returns whether it belongs to a language's library or runtime.
    pub fn is_library(&self) -> bool {
        match &self.file {
            Some(file) => LIBRARIES.iter().any(|part| file.contains(part)) || is_of_go(file),
            None => is_runtime(&self.function),
        }
    }

    /// Formats the frame as `main.c:12 (worker)`, without the folders of the file, or as the function if no
    /// line is known.
    pub fn brief(&self) -> String {
        let Some(file) = &self.file else { return self.function.clone() };
        let file = file.rsplit('/').next().unwrap_or(file);
        match self.line {
            Some(line) => format!("{file}:{line} ({})", self.function),
            None => format!("{file} ({})", self.function),
        }
    }
}

/// Functions of the C runtime that the linker adds to every program and that run at its start and exit.
const C_RUNTIME_FUNCTIONS: [&str; 9] = [
    "__do_global_dtors_aux",
    "__do_global_ctors_aux",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "_init",
    "_fini",
    "__cxa_finalize",
    "_dl_fini",
];

impl Code {
    /// Returns whether it is code of Java's virtual machine or of V8 that accesses memory for the program:
    /// the interpreter, and the code that V8 calls for an access (inline caches and `Atomics`). The access
    /// may also be one of the runtime's own.
    pub(super) fn is_interpreter(&self) -> bool {
        self.frames.iter().any(|frame| {
            let name = frame.function.split('+').next().unwrap_or_default();
            // V8 names its parts in this way in maps for profilers, and in its own file.
            let builtin = name.strip_prefix("Builtin:").or_else(|| name.strip_prefix("Builtins_"));
            name == "Interpreter"
                || name.starts_with("BytecodeHandler:")
                || builtin.is_some_and(|name| {
                    name.starts_with("Atomics")
                        || name.ends_with("Handler")
                        || name.ends_with("IC")
                        || name.contains("IC_")
                })
        })
    }

    /// Returns whether it is code of the C runtime that runs at the program's start or exit, when no other
    /// thread works.
    pub(super) fn is_exit_code(&self) -> bool {
        let name = |frame: &Frame| {
            frame.function.split("+0x").next().is_some_and(|name| C_RUNTIME_FUNCTIONS.contains(&name))
        };
        self.frames.first().is_some_and(name)
    }
}

/// Returns whether a file of a process comes with the system. The program itself never does.
pub(super) fn is_of_system(module: &str, program: &str) -> bool {
    module != program && SYSTEM.iter().any(|folder| module.starts_with(folder))
}

/// Returns whether a source file belongs to Go's standard library.
fn is_of_go(file: &str) -> bool {
    let Some((root, rest)) = file.split_once("/src/") else { return false };
    let root = root.rsplit('/').next().unwrap_or_default();
    let package = rest.split('/').next().unwrap_or_default();
    root.starts_with("go") && GO_PACKAGES.contains(&package)
}

/// Returns whether a function or variable of this name belongs to a language's runtime.
pub(super) fn is_runtime(name: &str) -> bool {
    RUNTIMES.iter().any(|start| name.trim_start_matches('<').starts_with(start))
}
