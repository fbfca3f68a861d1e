//! Erlang/OTP.

use crate::{
    cache::ProgramCache,
    error::{Error, Result},
    runtimes::{RuntimeProgram, compile, installed, version},
};
use manycore_experiment::spawning::Runtime;
use std::{fs, path::PathBuf, process::Command};

const SOURCE: &str = include_str!("../programs/manycore_light.erl");
/// The runtime and the compiler.
pub(super) const PROGRAMS: [&str; 2] = ["erl", "erlc"];
const PACKAGE: &str = "erlang-base";

/// Maximum number of processes that Erlang allows by default (`+P`, erl(1)).
const DEFAULT_PROCESSES: u64 = 262_144;

/// The largest value of `+P`; Erlang rounds it up to a power of two.
const MAX_PROCESSES: u64 = (1 << 27) - 1;

/// Allowance for processes other than the measured ones. An idle system has about forty.
const OTHER_PROCESSES_ALLOWANCE: u64 = 1024;

pub(super) struct Beam {
    erl: PathBuf,
    folder: PathBuf,
}

pub(super) fn find(cache: &ProgramCache) -> Result<Beam> {
    let [erl, erlc] = PROGRAMS;
    let erl = installed(erl, Runtime::Beam, PACKAGE)?;
    let erlc = installed(erlc, Runtime::Beam, PACKAGE)?;
    let key = version(Command::new(&erl).arg("-version"))?;
    let folder = cache.get("beam", SOURCE, &key, |folder| {
        let source = folder.join("manycore_light.erl");
        fs::write(&source, SOURCE).map_err(Error::unavailable)?;
        compile(Command::new(&erlc).arg("-o").arg(folder).arg(&source))
    })?;
    Ok(Beam { erl, folder })
}

impl RuntimeProgram for Beam {
    fn command(&self, count: u64) -> Command {
        let processes = DEFAULT_PROCESSES.max(count + OTHER_PROCESSES_ALLOWANCE).min(MAX_PROCESSES);
        let mut command = Command::new(&self.erl);
        command.args(["+P", &processes.to_string(), "-noinput", "-pa"]).arg(&self.folder);
        // Neither the user's `.erlang` nor the system's log may write to standard output, which carries the
        // protocol.
        command.args(["-boot", "no_dot_erlang", "-kernel", "logger_level", "none"]);
        // A crash dump of a million processes would fill the disk.
        command.args(["-s", "manycore_light", "main"]).env("ERL_CRASH_DUMP_SECONDS", "0");
        command
    }

    fn option(&self, schedulers: usize) -> String {
        format!("+S {schedulers}:{schedulers}")
    }

    fn max_count(&self) -> Option<(u64, &'static str)> {
        Some((MAX_PROCESSES - OTHER_PROCESSES_ALLOWANCE, "the largest +P of Erlang"))
    }
}
