//! The runtimes: one file each behind [`Program`], with their programs in `programs/` beside this folder.

mod beam;
mod go;
mod jvm;
mod own;

use crate::cache::Cache;
use crate::error::{Error, Result};
use manycore_experiment::interrupt;
use manycore_experiment::spawning::Runtime;
use manycore_linux::{
    child::Start,
    job::{self, Job},
};
use std::{env, os::unix::fs::PermissionsExt, path::PathBuf, process::Command, time::Duration};

/// A runtime that is here, and the program that speaks our protocol in it.
pub trait Program {
    /// The command that starts it, able to hold `count` light processes.
    fn command(&self, count: u64) -> Command;

    /// The option that has it use `schedulers` threads.
    fn option(&self, schedulers: usize) -> String;

    /// Light processes of the larger pilot run, by which the memory of all others is foretold. It must fit anywhere.
    fn pilot(&self) -> u64 {
        10_000
    }

    /// The most that it can be told to hold, and what says so.
    fn most(&self) -> Option<(u64, &'static str)> {
        None
    }
}

/// The runtime, with its program compiled.
///
/// # Errors
/// [`Error::Unavailable`] where it is not installed, or cannot compile.
pub fn find(runtime: Runtime, cache: &Cache) -> Result<Box<dyn Program>> {
    Ok(match runtime {
        Runtime::Beam => Box::new(beam::find(cache)?),
        Runtime::Go => Box::new(go::find(cache)?),
        Runtime::Jvm => Box::new(jvm::find(cache)?),
        Runtime::Tokio | Runtime::Threads | Runtime::Processes => Box::new(own::Own(runtime)),
    })
}

/// A program of the `PATH`.
///
/// # Errors
/// [`Error::Unavailable`] with the Debian package that has it.
fn installed(program: &str, runtime: Runtime, package: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&path).map(|folder| folder.join(program)).find(is_program).ok_or_else(|| {
        let name = runtime.name();
        Error::unavailable(format!(
            "no {program} is in the PATH, which runtime {name} needs: install it (Debian: apt-get install {package})"
        ))
    })
}

/// What a compiler says about its version, on whichever output.
///
/// # Errors
/// As [`finish`].
fn version(command: &mut Command) -> Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let job = finish(command, "tell its version")?;
    let said = format!("{}{}", String::from_utf8_lossy(job.output()), job.complaints());
    Ok(format!("{shown}\n{}", said.trim()))
}

/// Runs a compiler to its end.
///
/// # Errors
/// As [`finish`].
fn compile(command: &mut Command) -> Result {
    finish(command, "compile").map(drop)
}

/// Runs a program to a good end; `what` it does is for messages.
///
/// # Errors
/// [`Error::Unavailable`] where it cannot be started or fails, [`Error::Interrupted`].
fn finish(command: &mut Command, what: &str) -> Result<Job> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let cannot = |error| Error::unavailable(format!("cannot run {shown}: {error}"));
    let mut jobs = [Job::start(command, &Start::default(), true).map_err(cannot)?];
    while !job::wait(&mut jobs, Duration::from_millis(200), &mut |_| {}).map_err(cannot)? {
        interrupt::check()?;
    }
    let [job] = jobs;
    match job.ended() {
        Some(ended) if ended.status.success() => Ok(job),
        ended => {
            let status = ended.map_or_else(String::new, |ended| format!(" ({})", ended.status));
            Err(Error::unavailable(format!("{shown} cannot {what}{status}: {}", job.last_words())))
        }
    }
}
