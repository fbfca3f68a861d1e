//! Finds the program of a command and checks that it can be observed.

use super::Program;
use crate::{
    error::{Error, Result},
    shadow::{
        elf::{self, ElfMismatch},
        program::{self, MAX_INTERPRETERS, START_BYTES, Script},
    },
};
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Finds the program of a command as a shell does, or its interpreter if it is a script.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotExecutable`], [`Error::OtherArchitecture`].
pub fn find(command: &[OsString]) -> Result<Program> {
    let Some(name) = command.first() else {
        return Err(Error::Request("the command is empty; name a program after --".to_owned()));
    };
    if name.is_empty() {
        return Err(Error::Request(
            "the command's name is an empty word; name a program after --".to_owned(),
        ));
    }
    let path = in_path(name)?;
    let mut program = Program { path, arguments: command.to_vec(), is_dynamic: false, notes: Vec::new() };
    let mut script: Option<PathBuf> = None;
    for _ in 0..=MAX_INTERPRETERS {
        let mut start = Vec::new();
        let file = fs::File::open(&program.path).map_err(|error| match script.take() {
            Some(script) => Error::NotExecutable {
                program: script.display().to_string(),
                why: format!("its interpreter {} (#!): {error}", program.path.display()),
            },
            None => refused(&program.path, &error),
        })?;
        let bytes = file.metadata().map_err(|error| refused(&program.path, &error))?.len();
        file.take(START_BYTES).read_to_end(&mut start).map_err(|error| refused(&program.path, &error))?;
        match Script::parse(&start) {
            Some(line) => {
                script = Some(program.path.clone());
                interpret(&mut program, line)?;
            }
            None => {
                program.is_dynamic = elf(&program.path, &start, bytes)?;
                return Ok(program);
            }
        }
    }
    Err(Error::NotExecutable {
        program: name.display().to_string(),
        why: "too many interpreters of interpreters (#!)".to_owned(),
    })
}

fn refused(path: &Path, error: &io::Error) -> Error {
    let program = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound(program),
        io::ErrorKind::PermissionDenied => {
            Error::NotExecutable { program, why: "it cannot be read (chmod +r)".to_owned() }
        }
        _ => Error::NotExecutable { program, why: error.to_string() },
    }
}

/// Resolves `name` to a file, through `PATH` unless it is a path.
fn in_path(name: &OsStr) -> Result<PathBuf> {
    let shown = || name.display().to_string();
    if program::is_path(name) {
        let path = PathBuf::from(name);
        return match fs::metadata(&path) {
            Err(error) => Err(refused(&path, &error)),
            Ok(file) if file.is_dir() => {
                Err(Error::NotExecutable { program: shown(), why: "it is a directory".to_owned() })
            }
            Ok(_) if !program::is_executable(&path) => Err(Error::NotExecutable {
                program: shown(),
                why: "it is not executable (chmod +x)".to_owned(),
            }),
            Ok(_) => Ok(path),
        };
    }
    program::in_path(name).ok_or_else(|| Error::NotFound(shown()))
}

/// Makes the interpreter run the script, as `execve(2)` does.
fn interpret(program: &mut Program, script: Script) -> Result {
    let interpreter = script.interpreter.clone();
    if interpreter.as_os_str().is_empty() {
        let program = program.path.display().to_string();
        return Err(Error::NotExecutable { program, why: "its first line names no interpreter".to_owned() });
    }
    program.notes.push(format!(
        "{} is a script: its interpreter {} was observed",
        program.path.display(),
        interpreter.display()
    ));
    let path = std::mem::replace(&mut program.path, interpreter);
    program.arguments = script.words(path, std::mem::take(&mut program.arguments));
    Ok(())
}

/// Checks the ELF header of a file of `bytes` bytes. Returns whether the program is linked dynamically with glibc.
fn elf(path: &Path, start: &[u8], bytes: u64) -> Result<bool> {
    let program = path.display().to_string();
    elf::check_program(start, bytes).map_err(|foreign| match foreign {
        ElfMismatch::NotElf if !start.is_empty() && !start.contains(&0) => Error::NotExecutable {
            why: format!("it is a text file without a first line such as '#!/bin/sh'; run it as: sh {program}"),
            program,
        },
        ElfMismatch::NotElf => Error::NotExecutable {
            program,
            why: "it is neither a program (ELF) nor a script (#!)".to_owned(),
        },
        ElfMismatch::NoProgram => {
            Error::NotExecutable { program, why: "it is an ELF file, but not a program".to_owned() }
        }
        ElfMismatch::CutShort(needed) => Error::NotExecutable {
            program,
            why: format!(
                "it is a program (ELF) that is cut short, of {bytes} bytes where its header requires {needed}: copy or \
                 build it again"
            ),
        },
        ElfMismatch::Architecture(found) => {
            Error::OtherArchitecture { program, found, expected: elf::NATIVE.1.to_owned() }
        }
    })
}
