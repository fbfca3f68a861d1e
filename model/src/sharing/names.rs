//! What code and data of an observed process are called.

use serde::{Deserialize, Serialize};

/// Names that were looked up in the files of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Names {
    /// Code, by address.
    pub code: Vec<Code>,
    /// Global variables that hold shared bytes, by address.
    pub globals: Vec<Global>,
}

/// What is at a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The address, as it is in [`Access::code`](super::Access::code) and [`Block::callers`](super::Block::callers).
    pub address: u64,
    /// The file that it belongs to; empty where no mapped file holds it.
    pub module: String,
    /// The function with those that were inlined there, innermost first; never empty.
    pub frames: Vec<Frame>,
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
        if is_of_system(&code.module, program) {
            return None;
        }
        let silent = code.frames.iter().all(|frame| frame.file.is_none());
        if silent && (code.module != program || self.tells_lines(program)) {
            return None;
        }
        code.frames.iter().find(|frame| !frame.is_library())
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
