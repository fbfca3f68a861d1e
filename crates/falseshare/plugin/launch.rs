//! Runs programs that the observed process executes in the emulator too.
//!
//! The plugin intercepts the system call itself. Therefore it does not matter which function made the call,
//! whether the program is static, or whether it changed its environment. A plugin cannot change the arguments
//! of a call, so it makes the call itself; if that fails, the emulator continues with the original call.

use crate::shadow::{
    elf,
    program::{MAX_INTERPRETERS, START_BYTES, Script},
    sys,
    unobserved::{self, SET_ID},
};
use std::{
    env,
    ffi::{CString, OsStr, OsString},
    fs::{self, File},
    io::Read,
    os::unix::{ffi::OsStrExt, ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The environment variable that describes how a program was started: the paths of emulator, plugin, region
/// and library, separated by `;`.
const VARIABLE: &str = "MANYCORE_EMULATOR";

/// The paths with which this emulator was started.
#[derive(Debug)]
struct EmulatorPaths {
    whole: OsString,
    emulator: OsString,
    plugin: OsString,
    plugin_file: OsString,
    region: OsString,
    library: OsString,
}

static KNOWN: OnceLock<Option<EmulatorPaths>> = OnceLock::new();

/// Stores the paths with which this emulator was started, before the program can change its environment.
pub fn store_paths() {
    KNOWN.get_or_init(|| {
        let whole = env::var_os(VARIABLE)?;
        let mut words = whole.to_str()?.split(';');
        let (emulator, plugin, region, library) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(EmulatorPaths {
            emulator: OsString::from(emulator),
            plugin: OsString::from(format!("{plugin},region={region}")),
            plugin_file: OsString::from(plugin),
            region: OsString::from(region),
            library: OsString::from(library),
            whole: whole.clone(),
        })
    });
}

/// A program to execute.
#[derive(Debug)]
pub struct ProgramStart {
    /// Path of its file.
    pub path: PathBuf,
    /// Its arguments, starting with its own name.
    pub words: Vec<Vec<u8>>,
    /// Its environment.
    pub variables: Vec<Vec<u8>>,
}

impl ProgramStart {
    /// Returns the command that runs this program in the emulator, and true. If it cannot run in the
    /// emulator, returns the program itself without our library, which it could not load, and false. Returns
    /// `None` if the paths of this emulator are unknown.
    pub fn in_emulator(self) -> Option<(Self, bool)> {
        let known = KNOWN.get()?.as_ref()?;
        let resolved = if known.is_accessible() { resolve(&self.path, &self.words) } else { None };
        let (preload, mut variables): (Vec<_>, Vec<_>) =
            self.variables.into_iter().partition(|variable| variable.starts_with(b"LD_PRELOAD="));
        variables.retain(|variable| !variable.starts_with(format!("{VARIABLE}=").as_bytes()));
        variables.push([VARIABLE.as_bytes(), b"=", known.whole.as_bytes()].concat());
        let theirs = preload.first().map_or(&b""[..], |variable| &variable["LD_PRELOAD=".len()..]);
        let is_dynamic = resolved.as_ref().is_some_and(|(_, _, is_dynamic)| *is_dynamic);
        let value = preloads(known.library.as_bytes(), theirs, is_dynamic);
        let preload = (!value.is_empty()).then(|| [b"LD_PRELOAD=".to_vec(), value].concat());
        Some(match resolved {
            Some((path, words, _)) => {
                let words = known.command(path, preload, words.into_iter());
                (Self { path: PathBuf::from(&known.emulator), words, variables }, true)
            }
            None => {
                variables.extend(preload);
                (Self { path: self.path, words: self.words, variables }, false)
            }
        })
    }

    /// Executes this program; returns only on failure.
    pub fn execute(self) {
        let texts = |texts: Vec<Vec<u8>>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>();
        let path = CString::new(self.path.into_os_string().into_vec());
        if let (Ok(path), Ok(words), Ok(variables)) = (path, texts(self.words), texts(self.variables)) {
            sys::execute(&path, &words, &variables);
        }
    }
}

impl EmulatorPaths {
    /// Returns whether the emulator and our files are still accessible.
    fn is_accessible(&self) -> bool {
        let ours = [&self.plugin_file, &self.region, &self.library];
        Path::new(&self.emulator).is_file()
            && ours.into_iter().all(|path| unobserved::check_access(Path::new(path)).is_ok())
    }

    /// Returns the emulator's arguments to run `program` with `words`, its own name first, and with the
    /// variable `preload`.
    fn command(
        &self,
        program: PathBuf,
        preload: Option<Vec<u8>>,
        mut words: impl Iterator<Item = Vec<u8>>,
    ) -> Vec<Vec<u8>> {
        let mut command =
            vec![self.emulator.as_bytes().to_vec(), b"-plugin".to_vec(), self.plugin.as_bytes().to_vec()];
        command.extend(words.next().into_iter().flat_map(|name| [b"-0".to_vec(), name]));
        command.extend(preload.into_iter().flat_map(|variable| [b"-E".to_vec(), variable]));
        let mut program = program.into_os_string().into_vec();
        if program.starts_with(b"-") {
            // A name that starts with `-` would be taken for an option of the emulator.
            program.splice(0..0, *b"./");
        }
        command.push(program);
        command.extend(words);
        command
    }
}

/// Returns the value of `LD_PRELOAD`: our library, if the program can load it, and what was requested besides.
fn preloads(ours: &[u8], theirs: &[u8], is_dynamic: bool) -> Vec<u8> {
    let separator = |byte: &u8| matches!(byte, b':' | b' ');
    let others = theirs.split(separator).filter(|word| !word.is_empty() && *word != ours);
    let all = is_dynamic.then_some(ours).into_iter().chain(others);
    all.collect::<Vec<_>>().join(&b':')
}

/// Returns the file that the emulator has to run, its arguments, and whether it is linked dynamically with glibc.
/// Scripts are replaced by their interpreters. Returns `None` for files that the kernel has to run or reject itself.
fn resolve(path: &Path, words: &[Vec<u8>]) -> Option<(PathBuf, Vec<Vec<u8>>, bool)> {
    let mut path = path.to_owned();
    let mut words: Vec<OsString> = words.iter().cloned().map(OsString::from_vec).collect();
    for _ in 0..=MAX_INTERPRETERS {
        let mut start = Vec::new();
        // Opening a FIFO would block, and opening some devices has side effects.
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let file = File::open(&path).ok()?;
        let status = file.metadata().ok()?;
        if !status.is_file() || status.mode() & 0o111 == 0 || status.mode() & SET_ID != 0 {
            return None;
        }
        file.take(START_BYTES).read_to_end(&mut start).ok()?;
        let Some(script) = Script::parse(&start) else {
            let is_dynamic = elf::check_program(&start, status.len()).ok()?;
            return Some((path, words.into_iter().map(OsString::into_vec).collect(), is_dynamic));
        };
        let interpreter = script.interpreter.clone();
        words = script.words(path, words);
        path = interpreter;
    }
    None
}

/// Resolves a `path` of the emulated program. If it leads to the program of a process below `/proc`, the kernel
/// would return the emulator, so `program_of` provides the emulated program. If it leads to an open file, it is
/// replaced by the name of that file. If the file has no name, its descriptor is kept open for the emulator.
pub fn resolve_path(path: PathBuf, program_of: impl Fn(i32) -> Option<PathBuf>) -> PathBuf {
    /// Maximum number of symbolic links in a path (`MAXSYMLINKS`).
    const MAX_LINKS: usize = 40;
    let mut at = path.clone();
    for _ in 0..MAX_LINKS {
        if let Some(found) = below_proc(&at, &program_of) {
            return found;
        }
        let Ok(target) = fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("/")).join(target);
    }
    path
}

/// Resolves `exe` and the numbers in `fd` below `/proc/PID`; returns `None` for other paths.
fn below_proc(path: &Path, program_of: impl Fn(i32) -> Option<PathBuf>) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let folder = fs::canonicalize(path.parent()?).ok()?;
    let rest = folder.strip_prefix("/proc").ok()?;
    let pid: i32 = rest.iter().next()?.to_str()?.parse().ok()?;
    if name == "exe" {
        return program_of(pid);
    }
    let fd: i32 = name.parse().ok().filter(|_| rest.ends_with("fd"))?;
    let named = fs::read_link(path).ok()?;
    let same = |file: &fs::Metadata| {
        fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
    };
    if fs::metadata(&named).is_ok_and(|file| same(&file)) {
        return Some(named);
    }
    if pid == std::process::id() as i32 {
        sys::keep_open(fd);
    }
    Some(path.to_owned())
}

/// The current folder as a file descriptor argument.
pub const AT_FDCWD: i32 = -100;

/// Returns the path that `execveat(2)` would execute.
pub fn execveat_path(directory: i32, path: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_absolute() || directory == AT_FDCWD {
        return path.to_owned();
    }
    let opened = PathBuf::from(format!("/proc/self/fd/{directory}"));
    if path.as_os_str().is_empty() { opened } else { opened.join(path) }
}
