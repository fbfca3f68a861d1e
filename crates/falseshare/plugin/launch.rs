//! How a program that this process becomes is run in the emulator too.
//!
//! The plugin sees the system call itself, so that it does not matter which function led there, whether the program is
//! static, or what it did with its environment. The emulator cannot be given other arguments for the call, so the
//! plugin makes the call for it; where that fails, the emulator goes on with the program's own.

use crate::shadow::{
    elf,
    escape::{self, SET_ID},
    program::{MOST_INTERPRETERS, START_BYTES, Script},
    sys,
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

/// The variable that says how a program was started: emulator, plugin, region, library, with `;` between.
const VARIABLE: &str = "MANYCORE_EMULATOR";

/// What this emulator was started with.
#[derive(Debug)]
struct Known {
    whole: OsString,
    emulator: OsString,
    plugin: OsString,
    plugin_file: OsString,
    region: OsString,
    library: OsString,
}

static KNOWN: OnceLock<Option<Known>> = OnceLock::new();

/// Remembers what this emulator was started with, before the program can change its environment.
pub fn remember() {
    KNOWN.get_or_init(|| {
        let whole = env::var_os(VARIABLE)?;
        let mut words = whole.to_str()?.split(';');
        let (emulator, plugin, region, library) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Known {
            emulator: OsString::from(emulator),
            plugin: OsString::from(format!("{plugin},region={region}")),
            plugin_file: OsString::from(plugin),
            region: OsString::from(region),
            library: OsString::from(library),
            whole: whole.clone(),
        })
    });
}

/// A program that is to be run.
#[derive(Debug)]
pub struct Start {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments, its own name first.
    pub words: Vec<Vec<u8>>,
    /// Its environment.
    pub variables: Vec<Vec<u8>>,
}

impl Start {
    /// The start of the emulator that runs this program, and true; or of the program itself without our library, which
    /// it could not load, where it cannot run in the emulator. `None` where what we were started with is unknown.
    pub fn in_emulator(self) -> Option<(Self, bool)> {
        let known = KNOWN.get()?.as_ref()?;
        let resolved = if known.is_in_reach() { resolve(&self.path, &self.words) } else { None };
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

    /// Becomes this program; returns where that fails.
    pub fn execute(self) {
        let texts = |texts: Vec<Vec<u8>>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>();
        let path = CString::new(self.path.into_os_string().into_vec());
        if let (Ok(path), Ok(words), Ok(variables)) = (path, texts(self.words), texts(self.variables)) {
            sys::execute(&path, &words, &variables);
        }
    }
}

impl Known {
    /// Whether the emulator and our files are where they were.
    fn is_in_reach(&self) -> bool {
        let ours = [&self.plugin_file, &self.region, &self.library];
        Path::new(&self.emulator).is_file()
            && ours.into_iter().all(|path| escape::reach(Path::new(path)).is_ok())
    }

    /// The words that have the emulator run `program` with `words`, its own name first, and with variable `preload`.
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
            // It is no option of the emulator.
            program.splice(0..0, *b"./");
        }
        command.push(program);
        command.extend(words);
        command
    }
}

/// What the program is to load first: our library, and what else was asked for.
fn preloads(ours: &[u8], theirs: &[u8], is_dynamic: bool) -> Vec<u8> {
    let separator = |byte: &u8| matches!(byte, b':' | b' ');
    let others = theirs.split(separator).filter(|word| !word.is_empty() && *word != ours);
    let all = is_dynamic.then_some(ours).into_iter().chain(others);
    all.collect::<Vec<_>>().join(&b':')
}

/// The file that the emulator has to run, with its arguments and whether it loads GNU's libraries. Scripts become
/// their interpreters. `None` for what the kernel has to run, or to refuse.
fn resolve(path: &Path, words: &[Vec<u8>]) -> Option<(PathBuf, Vec<Vec<u8>>, bool)> {
    let mut path = path.to_owned();
    let mut words: Vec<OsString> = words.iter().cloned().map(OsString::from_vec).collect();
    for _ in 0..=MOST_INTERPRETERS {
        let mut start = Vec::new();
        // Opening a pipe would wait, and opening alone makes some devices act.
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let file = File::open(&path).ok()?;
        let status = file.metadata().ok()?;
        if !status.is_file() || status.mode() & 0o111 == 0 || status.mode() & SET_ID != 0 {
            return None;
        }
        file.take(START_BYTES).read_to_end(&mut start).ok()?;
        let Some(script) = Script::of(&start) else {
            let is_dynamic = elf::kind(&start, status.len()).ok()?;
            return Some((path, words.into_iter().map(OsString::into_vec).collect(), is_dynamic));
        };
        let interpreter = script.interpreter.clone();
        words = script.words(path, words);
        path = interpreter;
    }
    None
}

/// The file that `path` of the emulated program stands for. Where it leads to the program of a process below `/proc`,
/// the kernel would give the emulator: `program_of` knows what runs in it. Where it leads to an open file, it becomes
/// the name of that, if it has one; else the file is kept open for the emulator.
pub fn file(path: PathBuf, program_of: impl Fn(i32) -> Option<PathBuf>) -> PathBuf {
    /// Links that the kernel follows (`MAXSYMLINKS`).
    const MOST_LINKS: usize = 40;
    let mut at = path.clone();
    for _ in 0..MOST_LINKS {
        if let Some(found) = below_proc(&at, &program_of) {
            return found;
        }
        let Ok(target) = fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("/")).join(target);
    }
    path
}

/// What `exe` and the numbers of `fd` below `/proc/PID` stand for; `None` for other paths.
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

/// The current folder as a descriptor.
pub const AT_FDCWD: i32 = -100;

/// The file that `execveat(2)` means.
pub fn at(directory: i32, path: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_absolute() || directory == AT_FDCWD {
        return path.to_owned();
    }
    let opened = PathBuf::from(format!("/proc/self/fd/{directory}"));
    if path.as_os_str().is_empty() { opened } else { opened.join(path) }
}
