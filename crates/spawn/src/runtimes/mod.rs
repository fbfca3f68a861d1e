//! The runtimes: one file for each behind the trait [`RuntimeProgram`]. Their programs are in `programs/` beside
//! this directory.

mod beam;
mod builtin;
mod go;
mod jvm;

use crate::{
    cache::ProgramCache,
    error::{Error, Result},
};
use manycore_experiment::{interrupt, spawning::Runtime};
use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use std::{env, os::unix::fs::PermissionsExt, path::PathBuf, process::Command, time::Duration};

/// An installed runtime, with the program that speaks the protocol in it.
pub trait RuntimeProgram {
    /// Returns the command that starts it, configured for `count` light processes.
    fn command(&self, count: u64) -> Command;

    /// Returns the option that makes it use `schedulers` threads.
    fn option(&self, schedulers: usize) -> String;

    /// Returns the largest number of light processes that it can be configured for, and what limits it.
    fn max_count(&self) -> Option<(u64, &'static str)> {
        None
    }
}

/// Returns the count of the larger pilot run, from which the memory of all others is predicted. It is small enough to fit
/// on any machine.
pub fn pilot_count(runtime: Runtime) -> u64 {
    match runtime {
        Runtime::Beam | Runtime::Go => 10_000,
        // Before Java 21 they are threads of the operating system.
        Runtime::Jvm | Runtime::Threads => 1000,
        // A task takes about 700 bytes: fewer of them would be lost in the granularity of a control group's charge.
        Runtime::Tokio => 50_000,
        Runtime::Processes => 200,
    }
}

/// Returns the runtime, with its program compiled.
///
/// # Errors
/// [`Error::Unavailable`] if the runtime is not installed or the compiler fails.
pub fn find(runtime: Runtime, cache: &ProgramCache) -> Result<Box<dyn RuntimeProgram>> {
    Ok(match runtime {
        Runtime::Beam => Box::new(beam::find(cache)?),
        Runtime::Go => Box::new(go::find(cache)?),
        Runtime::Jvm => Box::new(jvm::find(cache)?),
        Runtime::Tokio | Runtime::Threads | Runtime::Processes => Box::new(builtin::Builtin(runtime)),
    })
}

/// Returns the programs that a runtime needs, and whether each is installed; none for the built-in ones.
pub fn needed_programs(runtime: Runtime) -> Vec<(&'static str, bool)> {
    let programs: &[&str] = match runtime {
        Runtime::Beam => &beam::PROGRAMS,
        Runtime::Go => &go::PROGRAMS,
        Runtime::Jvm => &jvm::PROGRAMS,
        Runtime::Tokio | Runtime::Threads | Runtime::Processes => &[],
    };
    programs.iter().map(|&program| (program, in_path(program).is_some())).collect()
}

/// Finds a program in `PATH`.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&path).map(|folder| folder.join(program)).find(is_program)
}

/// Finds a program in `PATH`.
///
/// # Errors
/// [`Error::Unavailable`] with the Debian package that provides it.
fn installed(program: &str, runtime: Runtime, package: &str) -> Result<PathBuf> {
    in_path(program).ok_or_else(|| {
        let name = runtime.name();
        Error::unavailable(format!(
            "runtime {name} needs {program}, which is not in PATH: install it (Debian: apt-get install {package})"
        ))
    })
}

/// Returns what a compiler prints about its version, on standard output and standard error.
///
/// # Errors
/// As [`finish`].
fn version(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let job = finish(command, "print its version")?;
    let printed = format!("{}{}", String::from_utf8_lossy(job.output()), job.stderr_tail());
    Ok(format!("{name}\n{}", printed.trim()))
}

/// Runs a compiler to its end.
///
/// # Errors
/// As [`finish`].
fn compile(command: &mut Command) -> Result {
    finish(command, "compile").map(drop)
}

/// Runs a program until it exits successfully. `what` it does is used in messages.
///
/// # Errors
/// [`Error::Unavailable`] if it cannot be started or fails; [`Error::Interrupted`].
fn finish(command: &mut Command, what: &str) -> Result<Job> {
    let name = command.get_program().to_string_lossy().into_owned();
    let cannot = |error| Error::unavailable(format!("cannot run {name}: {error}"));
    let mut jobs = [Job::start(command, &StartPlacement::default(), true).map_err(cannot)?];
    while !job::wait(&mut jobs, Duration::from_millis(200), &mut |_| {}).map_err(cannot)? {
        interrupt::check()?;
    }
    let [job] = jobs;
    match job.ended() {
        Some(ended) if ended.status.success() => Ok(job),
        ended => {
            let status = ended.map_or_else(String::new, |ended| format!(" ({})", ended.status));
            Err(Error::unavailable(format!("{name} cannot {what}{status}: {}", job.last_stderr_line())))
        }
    }
}
