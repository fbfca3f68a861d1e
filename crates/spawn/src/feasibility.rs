//! Checks before the start whether a request will fit: memory, task ids, space for files.

use crate::{
    error::{Error, Result},
    limits::{self, ResourceNeeds},
    options::SpawnOptions,
    runtimes::RuntimeProgram,
    trial::{FILE_BYTES, RuntimeInfo},
};
use manycore_experiment::spawning::{
    CountLimit, Runtime, SpawnRun, Work,
    capacity::{MemoryLine, plural},
};
use manycore_linux::scratch;
use manycore_text::units;
use manycore_topology::SysTree;
use std::{env, path::Path};

/// Limits of the whole machine. A tenth of them is left to other processes.
const SHARED: [&str; 2] = ["kernel.pid_max", "kernel.threads-max"];

/// Small runs from which the memory of larger ones is predicted.
#[derive(Default)]
pub struct PilotRuns {
    /// Information that the runtime reported about itself.
    pub info: RuntimeInfo,
    /// Empty if all requested counts are as small as the pilots.
    pub runs: Vec<SpawnRun>,
}

/// Memory that a runtime may use.
#[derive(Clone, Debug, Default)]
pub struct AvailableMemory {
    pub bytes: u64,
    /// `available memory less a tenth`, `memory limit of the control group`, or the name of a limit.
    pub source: String,
}

/// Returns the memory that a runtime may use. Absent if unknown.
pub fn available_memory() -> Option<AvailableMemory> {
    let (bytes, source) = limits::available_memory(&SysTree::open(Path::new("/")).ok()?)?;
    Some(AvailableMemory { bytes, source })
}

/// Returns the limits that apply to the processes started here, if `largest` is the largest requested count.
pub fn limits(runtime: Runtime, unit: &str, work: Work, largest: u64) -> Vec<CountLimit> {
    let needs = ResourceNeeds::new(runtime, unit, work, largest);
    SysTree::open(Path::new("/")).map(|tree| limits::find(&tree, "self", runtime, &needs)).unwrap_or_default()
}

/// Returns whether the limits of the machine allow a count, as far as they are known before the runtime has started.
pub fn is_allowed(runtime: Runtime, work: Work, count: u64) -> bool {
    let is_shared = |limit: &CountLimit| SHARED.contains(&limit.name.as_str());
    limits(runtime, "", work, count)
        .into_iter()
        .filter(is_shared)
        .all(|limit| count <= limit.max_count / 10 * 9)
}

/// Refuses requests that no light process could meet, however small: counts above the limit of the runtime,
/// and memory limits above the available memory.
///
/// # Errors
/// [`Error::LimitTooLarge`] or [`Error::TooManyForRuntime`] with the limit; [`Error::UnknownMemory`] if the
/// available memory is unknown but needed.
pub fn check_bounds(
    options: &SpawnOptions,
    program: &dyn RuntimeProgram,
    available: Option<&AvailableMemory>,
) -> Result {
    match (available, options.memory_limit) {
        (None, _) if options.needs_memory_group() => return Err(Error::UnknownMemory),
        (Some(available), Some(limit)) if limit > available.bytes => {
            return Err(Error::LimitTooLarge {
                limit,
                available: available.bytes,
                memory_source: available.source.clone(),
            });
        }
        _ => {}
    }
    let count = options.largest();
    match program.max_count() {
        Some((max_count, limited_by)) if count > max_count => {
            Err(Error::TooManyForRuntime { count, max_count, limited_by })
        }
        _ => Ok(()),
    }
}

/// Refuses a count that will not fit, and shows the arithmetic.
///
/// # Errors
/// [`Error::TooManyForMemory`], unless the options allow counts beyond the memory; [`Error::TooManyForMachine`];
/// [`Error::TooManyFiles`].
pub fn check(
    options: &SpawnOptions,
    count: u64,
    runtime: Runtime,
    pilots: &PilotRuns,
    available: Option<&AvailableMemory>,
) -> Result {
    let unit = &pilots.info.unit;
    if let (Some(line), Some(available), false) =
        (MemoryLine::of(&pilots.runs), available, options.beyond_memory)
    {
        line.fits(count, unit, available.bytes, &available.source)
            .map_err(|arithmetic| Error::TooManyForMemory { runtime, arithmetic })?;
    }
    let limits = limits(runtime, unit, options.work, count);
    let shared = limits.into_iter().filter(|limit| SHARED.contains(&limit.name.as_str()));
    for limit in shared {
        if count > limit.max_count / 10 * 9 {
            return Err(Error::TooManyForMachine {
                runtime,
                count: format!("{} {}", units::count(count), plural(unit)),
                allowed: units::count(limit.max_count),
                limit: limit.name,
                limit_source: limit.source,
                raise_command: limit.raise_command,
            });
        }
    }
    if options.work == Work::Io { check_files(options, count) } else { Ok(()) }
}

/// Refuses more files than the file system has space for.
fn check_files(options: &SpawnOptions, count: u64) -> Result {
    let directory = options.scratch.clone().unwrap_or_else(env::temp_dir);
    let Some((bytes, files)) = scratch::free_space(&directory) else { return Ok(()) };
    let needed = count.saturating_mul(FILE_BYTES);
    if needed <= bytes / 10 * 9 && files.is_none_or(|files| count <= files / 10 * 9) {
        return Ok(());
    }
    let files = files.map_or_else(String::new, |files| format!(" in {} files", units::count(files)));
    Err(Error::TooManyFiles {
        files: format!("{} files of {FILE_BYTES} bytes", units::count(count)),
        directory,
        free: format!("{}{files}", units::bytes(bytes)),
    })
}
