//! The program of a command: found, and of a kind that can be observed.

use super::{Error, Program};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::PermissionsExt,
    },
    path::{Path, PathBuf},
};

/// Interpreters that run interpreters that run scripts: as many as the kernel follows.
const MOST_INTERPRETERS: usize = 4;

/// The architecture of this build, as an ELF header and people name it.
#[cfg(target_arch = "x86_64")]
const OURS: (u16, &str) = (62, "x86-64");
#[cfg(target_arch = "aarch64")]
const OURS: (u16, &str) = (183, "AArch64");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OURS: (u16, &str) = (0, "another architecture");

/// Finds the program of a command, as a shell does, and the interpreter where it is a script.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotExecutable`], [`Error::OtherArchitecture`].
pub fn find(command: &[OsString]) -> Result<Program, Error> {
    let Some(name) = command.first() else {
        return Err(Error::Request("there is no command to observe".to_owned()));
    };
    let path = in_path(name)?;
    let mut program = Program { path, arguments: command.to_vec(), is_dynamic: false, notes: Vec::new() };
    for _ in 0..=MOST_INTERPRETERS {
        let mut start = Vec::new();
        let file = fs::File::open(&program.path).map_err(|error| refused(&program.path, &error))?;
        file.take(4096).read_to_end(&mut start).map_err(|error| refused(&program.path, &error))?;
        match start.strip_prefix(b"#!") {
            Some(line) => interpret(&mut program, line)?,
            None => {
                program.is_dynamic = elf(&program.path, &start)?;
                return Ok(program);
            }
        }
    }
    Err(Error::NotExecutable {
        program: name.display().to_string(),
        why: "its interpreters never end".to_owned(),
    })
}

fn refused(path: &Path, error: &io::Error) -> Error {
    let program = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound(program),
        io::ErrorKind::PermissionDenied => {
            Error::NotExecutable { program, why: "you may not read it, which observing needs".to_owned() }
        }
        _ => Error::NotExecutable { program, why: error.to_string() },
    }
}

/// The file that `name` stands for.
fn in_path(name: &OsStr) -> Result<PathBuf, Error> {
    let shown = || name.display().to_string();
    let executable = |path: &Path| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match fs::metadata(&path) {
            Err(error) => Err(refused(&path, &error)),
            Ok(file) if file.is_dir() => {
                Err(Error::NotExecutable { program: shown(), why: "it is a folder".to_owned() })
            }
            Ok(_) if !executable(&path) => Err(Error::NotExecutable {
                program: shown(),
                why: "it may not be executed (chmod +x)".to_owned(),
            }),
            Ok(_) => Ok(path),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| executable(path))
        .ok_or_else(|| Error::NotFound(shown()))
}

/// Has the interpreter run the script, as `execve(2)` does.
fn interpret(program: &mut Program, line: &[u8]) -> Result<(), Error> {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let mut words = line.splitn(2, u8::is_ascii_whitespace);
    let interpreter = PathBuf::from(OsString::from_vec(words.next().unwrap_or_default().to_vec()));
    let argument = words.next().map(<[u8]>::trim_ascii).filter(|argument| !argument.is_empty());
    if interpreter.as_os_str().is_empty() {
        let program = program.path.display().to_string();
        return Err(Error::NotExecutable { program, why: "its first line names no interpreter".to_owned() });
    }
    program.notes.push(format!(
        "{} is a script: its interpreter {} was observed",
        program.path.display(),
        interpreter.display()
    ));
    let mut arguments = vec![interpreter.clone().into_os_string()];
    arguments.extend(argument.map(|argument| OsString::from_vec(argument.to_vec())));
    arguments.push(program.path.clone().into_os_string());
    arguments.extend(program.arguments.drain(..).skip(1));
    program.arguments = arguments;
    program.path = interpreter;
    Ok(())
}

/// Whether the ELF file that begins so is one for us that loads GNU's shared libraries.
fn elf(path: &Path, start: &[u8]) -> Result<bool, Error> {
    let program = || path.display().to_string();
    let half = |at: usize| start.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if start.get(..4) != Some(b"\x7fELF") {
        let why = "it is neither a program (ELF) nor a script (#!)".to_owned();
        return Err(Error::NotExecutable { program: program(), why });
    }
    let machine = half(18).unwrap_or_default();
    if machine != OURS.0 || start.get(4..6) != Some(&[2, 1]) {
        let found = match (machine, start.get(4)) {
            (3, _) => "32-bit x86".to_owned(),
            (62, Some(1)) => "x32".to_owned(),
            (62, _) => "x86-64".to_owned(),
            (40, _) => "32-bit Arm".to_owned(),
            (183, _) => "AArch64".to_owned(),
            (243, _) => "RISC-V".to_owned(),
            (258, _) => "LoongArch".to_owned(),
            (21, _) => "PowerPC".to_owned(),
            (22, _) => "S/390".to_owned(),
            _ => format!("another architecture (ELF machine {machine})"),
        };
        return Err(Error::OtherArchitecture { program: program(), found, expected: OURS.1.to_owned() });
    }
    if !matches!(half(16), Some(2 | 3)) {
        let why = "it is an ELF file, but no program".to_owned();
        return Err(Error::NotExecutable { program: program(), why });
    }
    Ok(loader(start).is_some_and(|loader| {
        Path::new(OsStr::from_bytes(loader))
            .file_name()
            .is_some_and(|name| name.as_bytes().starts_with(b"ld-linux"))
    }))
}

/// The loader that an ELF file names (`PT_INTERP`).
fn loader(start: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u64::from_le_bytes(start.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(start.get(at..at + 2)?.try_into().ok()?));
    let (table, size, count) = (word(32)? as usize, half(54)? as usize, half(56)? as usize);
    (0..count).find_map(|index| {
        let header = table.checked_add(index * size)?;
        let kind = start.get(header..header + 4)?;
        let (offset, bytes) = (word(header + 8)? as usize, word(header + 32)? as usize);
        let text = (kind == [3, 0, 0, 0]).then(|| start.get(offset..offset.checked_add(bytes)?)).flatten()?;
        Some(text.strip_suffix(&[0]).unwrap_or(text))
    })
}
