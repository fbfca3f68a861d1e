//! Finds the file to execute as the kernel and the C library do: the interpreter of a script, and a name in `PATH`.

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

/// Maximum number of interpreters that are scripts themselves, as in the kernel (`binfmt_script`, `exec.c`).
pub const MAX_INTERPRETERS: usize = 4;

/// Number of bytes from the start of a file that are needed to recognize its kind.
pub const START_BYTES: u64 = 4096;

/// The first line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Path of the interpreter; empty if the line names none.
    pub interpreter: PathBuf,
    argument: Option<OsString>,
}

impl Script {
    /// Parses the first bytes of a file; returns `None` if it is not a script.
    pub fn parse(start: &[u8]) -> Option<Self> {
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
        let mut words = line.splitn(2, u8::is_ascii_whitespace);
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let interpreter = text(words.next().unwrap_or_default()).into();
        let argument = words.next().map(<[u8]>::trim_ascii).filter(|argument| !argument.is_empty());
        Some(Self { interpreter, argument: argument.map(text) })
    }

    /// Returns the arguments with which the interpreter runs the script at `path`, given the script's
    /// arguments `words`, as described in `execve(2)`.
    pub fn words(self, path: PathBuf, words: Vec<OsString>) -> Vec<OsString> {
        let start = [Some(self.interpreter.into_os_string()), self.argument, Some(path.into_os_string())];
        start.into_iter().flatten().chain(words.into_iter().skip(1)).collect()
    }
}

/// Returns whether there is an executable file at `path`.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns whether `name` is a path, which is not searched in `PATH`.
pub fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// Searches the folders of `PATH` for `name`.
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
            let words = Script::parse(line.as_bytes()).map(|script| script.words("/s".into(), words));
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
