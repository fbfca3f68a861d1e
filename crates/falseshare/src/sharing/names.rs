//! What code and data of an observed process are called.

use serde::{Deserialize, Serialize};

/// Names that were looked up in the files of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Names {
    /// Code, by address.
    pub code: Vec<Code>,
    /// Global variables that hold shared bytes, by address.
    pub globals: Vec<Global>,
    /// Files that are a language's interpreter or virtual machine: what their code does with their data, such as counts
    /// of references, a program in that language does not change.
    #[serde(default)]
    pub runtimes: Vec<String>,
}

/// What is at a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The address, as it is in [`Access::code`](super::Access::code) and [`Block::callers`](super::Block::callers).
    pub address: u64,
    /// The file that it belongs to; [`GENERATED`] where it was generated at run time and has a name; empty where it was
    /// and has none.
    pub module: String,
    /// The function with those that were inlined there, innermost first; never empty.
    pub frames: Vec<Frame>,
    /// Whether the instruction exchanges a value, or does so if it is the expected one: locks are made of such.
    #[serde(default)]
    pub exchanges: bool,
}

/// A function, and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The function; with an offset where no line is known; the file with an offset where no function is.
    pub function: String,
    /// The source file, where debug information names it.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// A variable of a mapped file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its first address, in the process.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What is the file of code that was generated at run time, in [`Code::module`].
pub const GENERATED: &str = "[generated]";

/// Beginnings of names of generated code that belongs to the runtime: of V8, of Java's virtual machine, and its classes.
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

/// Parts of paths of sources that belong to a language and not to a program.
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

/// Packages of Go itself, the folders behind `go/src/` or `go-1.26/src/`.
const GO_PACKAGES: [&str; 14] = [
    "runtime", "internal", "sync", "syscall", "time", "os", "net", "fmt", "io", "reflect", "context", "log",
    "math", "crypto",
];

/// Folders of files that come with the system.
const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];

/// Beginnings of functions and variables that belong to a language's runtime.
const RUNTIMES: [&str; 9] =
    ["runtime.", "internal/", "sync/atomic.", "std::", "core::", "alloc::", "__gnu_cxx::", "_cgo_", "_rjem_"];

impl Names {
    /// What is at a code address.
    pub fn code(&self, address: u64) -> Option<&Code> {
        self.code.binary_search_by_key(&address, |code| code.address).ok().map(|at| &self.code[at])
    }

    /// Whether Go's scheduler is among the code: goroutines have their stacks in its heap.
    pub(super) fn is_go(&self) -> bool {
        self.code.iter().flat_map(|code| &code.frames).any(|frame| frame.function == "runtime.schedule")
    }

    /// Whether debug information of `program` is there.
    fn tells_lines(&self, program: &str) -> bool {
        self.code.iter().any(|code| {
            code.module == program
                && code.frames.iter().any(|frame| frame.file.is_some() && !frame.is_library())
        })
    }

    /// What is the program's own at an address: the innermost frame that is no library's, if there is one.
    pub fn own(&self, address: u64, program: &str) -> Option<&Frame> {
        let code = self.code(address)?;
        if is_of_system(&code.module, program) || self.runtimes.contains(&code.module) {
            return None;
        }
        if code.module == GENERATED {
            return code.frames.iter().find(|frame| !self.is_generated_by_runtime(&frame.function));
        }
        let silent = code.frames.iter().all(|frame| frame.file.is_none());
        if silent && (code.module != program || self.tells_lines(program)) {
            return None;
        }
        code.frames.iter().find(|frame| !frame.is_library())
    }
}

impl Names {
    /// Whether generated code of this name is a part of the language's runtime, or of its library.
    fn is_generated_by_runtime(&self, name: &str) -> bool {
        // `java.lang.Object java.util.Map.get(java.lang.Object)`: without its result and its arguments.
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
    /// Whether it belongs to a language's library or runtime.
    pub fn is_library(&self) -> bool {
        match &self.file {
            Some(file) => LIBRARIES.iter().any(|part| file.contains(part)) || is_of_go(file),
            None => is_runtime(&self.function),
        }
    }

    /// `main.c:12 (worker)`, without the folders of the file; the function where no line is known.
    pub fn brief(&self) -> String {
        let Some(file) = &self.file else { return self.function.clone() };
        let file = file.rsplit('/').next().unwrap_or(file);
        match self.line {
            Some(line) => format!("{file}:{line} ({})", self.function),
            None => format!("{file} ({})", self.function),
        }
    }
}

/// Functions of the C runtime that the linker puts into each program and that run as it begins and ends.
const AT_THE_END: [&str; 9] = [
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
    /// Whether it is code of Java's virtual machine or of V8 that accesses memory for the program: the interpreter, and
    /// what V8 calls for an access (inline caches and `Atomics`). The access may be the runtime's own as well.
    pub(super) fn is_interpreter(&self) -> bool {
        self.frames.iter().any(|frame| {
            let name = frame.function.split('+').next().unwrap_or_default();
            // As V8 names its parts in maps for profilers, and in its own file.
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

    /// Whether the C runtime does it as the program begins or ends, when no other thread works.
    pub(super) fn is_at_the_end(&self) -> bool {
        let name =
            |frame: &Frame| frame.function.split("+0x").next().is_some_and(|name| AT_THE_END.contains(&name));
        self.frames.first().is_some_and(name)
    }
}

/// Whether a file of a process comes with the system: the program itself never does.
pub(super) fn is_of_system(module: &str, program: &str) -> bool {
    module != program && SYSTEM.iter().any(|folder| module.starts_with(folder))
}

/// Whether a source file is one of Go's own.
fn is_of_go(file: &str) -> bool {
    let Some((root, rest)) = file.split_once("/src/") else { return false };
    let root = root.rsplit('/').next().unwrap_or_default();
    let package = rest.split('/').next().unwrap_or_default();
    root.starts_with("go") && GO_PACKAGES.contains(&package)
}

/// Whether a function or variable of this name belongs to a language's runtime.
pub(super) fn is_runtime(name: &str) -> bool {
    RUNTIMES.iter().any(|start| name.trim_start_matches('<').starts_with(start))
}
