//! How the kernel and the C library find what to run: the interpreter of a script, and a name in the PATH.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::PermissionsExt,
    },
    path::{Path, PathBuf},
};

/// Interpreters that run interpreters that run scripts: as many as the kernel follows (`binfmt_script`, `exec.c`).
pub const MOST_INTERPRETERS: usize = 4;

/// Bytes of a file that tell what kind of program it is.
pub const START_BYTES: u64 = 4096;

/// The first line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The program that it names; empty where it names none.
    pub interpreter: PathBuf,
    argument: Option<OsString>,
}

impl Script {
    /// Reads the first bytes of a file; `None` for what is no script.
    pub fn of(start: &[u8]) -> Option<Self> {
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
        let mut words = line.splitn(2, u8::is_ascii_whitespace);
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let interpreter = text(words.next().unwrap_or_default()).into();
        let argument = words.next().map(<[u8]>::trim_ascii).filter(|argument| !argument.is_empty());
        Some(Self { interpreter, argument: argument.map(text) })
    }

    /// The words with which the interpreter runs the script at `path`, which was to be run with `words`, as
    /// `execve(2)` says.
    pub fn words(self, path: PathBuf, words: Vec<OsString>) -> Vec<OsString> {
        let start = [Some(self.interpreter.into_os_string()), self.argument, Some(path.into_os_string())];
        start.into_iter().flatten().chain(words.into_iter().skip(1)).collect()
    }
}

/// Whether there is a file at `path` that somebody may execute.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Whether `name` is a path, and not to be looked for.
pub fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// The file of the PATH that `name` stands for.
pub fn in_path(name: &OsStr) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_run_as_the_kernel_does() {
        let words = |line: &str| {
            let words = ["name", "a", "b"].map(OsString::from).to_vec();
            let words = Script::of(line.as_bytes()).map(|script| script.words("/s".into(), words));
            words.map(|words| words.join(OsStr::new("|")).into_string().unwrap())
        };
        assert_eq!(words("#!/bin/sh\necho").as_deref(), Some("/bin/sh|/s|a|b"));
        assert_eq!(
            words("#! /usr/bin/env  python3 -u \nx").as_deref(),
            Some("/usr/bin/env|python3 -u|/s|a|b")
        );
        assert_eq!(words("\x7fELF"), None);
    }
}
