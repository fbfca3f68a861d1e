//! Checks before the start whether a request will fit: memory, task ids, space for files.

use crate::ceilings::{self, Needs};
use crate::error::{Error, Result};
use crate::{
    Asked,
    runtimes::Program,
    trial::{FILE_BYTES, Versed},
};
use manycore_experiment::spawning::{
    Limit, Run, Runtime, Work,
    ceiling::{Line, plural},
};
use manycore_linux::scratch;
use manycore_text::units;
use manycore_topology::SysTree;
use std::{env, path::Path};

/// Limits of the whole machine. A tenth of them is left to other processes.
const SHARED: [&str; 2] = ["kernel.pid_max", "kernel.threads-max"];

/// Small runs from which the memory of larger ones is predicted.
#[derive(Default)]
pub struct Pilots {
    /// Information that the runtime reported about itself.
    pub versed: Versed,
    /// Empty if all requested counts are as small as the pilots.
    pub runs: Vec<Run>,
}

/// Returns the memory that a runtime may use, in bytes, with its source. Absent if unknown.
pub fn memory() -> Option<(u64, String)> {
    ceilings::memory(&SysTree::open(Path::new("/")).ok()?)
}

/// Returns the limits that apply to the processes started here, if `largest` is the largest requested count.
pub fn limits(runtime: Runtime, unit: &str, work: Work, largest: u64) -> Vec<Limit> {
    let needs = Needs::of(runtime, unit, work, largest);
    SysTree::open(Path::new("/"))
        .map(|tree| ceilings::find(&tree, "self", runtime, &needs))
        .unwrap_or_default()
}

/// Refuses requests that no light process could meet, however small: counts above the limit of the runtime,
/// and memory limits above the available memory.
///
/// # Errors
/// [`Error::Invalid`] with the bound, [`Error::Unavailable`] where the memory is not told and has to be known.
pub fn check_bounds(asked: &Asked, program: &dyn Program, room: Option<&(u64, String)>) -> Result {
    match room {
        None if asked.force || asked.ceiling.is_some() => {
            return Err(Error::unavailable(
                "the available memory is unknown on this system, and --ceiling and --beyond-memory need it",
            ));
        }
        Some((bytes, source)) if asked.ceiling.is_some_and(|limit| limit > *bytes) => {
            let [limit, bytes] = [asked.ceiling.unwrap_or(0), *bytes].map(units::bytes);
            return Err(Error::invalid(format!(
                "--ceiling: {limit} are more than {bytes} ({source}): choose a smaller limit"
            )));
        }
        _ => {}
    }
    let largest = asked.largest();
    match program.most() {
        Some((most, why)) if largest > most => {
            let [largest, most] = [largest, most].map(units::count);
            Err(Error::invalid(format!("{largest} are too many: {why} allows at most {most}")))
        }
        _ => Ok(()),
    }
}

/// Refuses a count that will not fit, and shows the arithmetic.
///
/// # Errors
/// [`Failure::Input`]. With `--beyond-memory`, a count that exceeds the memory is not an error.
pub fn check(
    asked: &Asked,
    count: u64,
    runtime: Runtime,
    pilots: &Pilots,
    room: Option<&(u64, String)>,
) -> Result {
    let unit = &pilots.versed.unit;
    if let (Some(line), Some((bytes, source)), false) = (Line::of(&pilots.runs), room, asked.force) {
        line.fits(count, unit, *bytes, source).map_err(|why| {
            let name = runtime.name();
            Error::invalid(format!(
                "{name}: {why}; request fewer, or let the limit of a control group stop them (--beyond-memory)"
            ))
        })?;
    }
    let limits = limits(runtime, unit, asked.work, count);
    let shared = limits.iter().filter(|limit| SHARED.contains(&limit.name.as_str()));
    for limit in shared {
        if count > limit.room / 10 * 9 {
            return Err(Error::invalid(format!(
                "{}: {} {} are more than nine tenths of the {} that {} allows ({}), and other processes need some; \
                     request fewer, or raise the limit: {}",
                runtime.name(),
                units::count(count),
                plural(unit),
                units::count(limit.room),
                limit.name,
                limit.source,
                limit.lift
            )));
        }
    }
    if asked.work == Work::Io { check_files(asked, count) } else { Ok(()) }
}

/// Refuses more files than the file system has space for.
fn check_files(asked: &Asked, count: u64) -> Result {
    let folder = asked.scratch.clone().unwrap_or_else(env::temp_dir);
    let Some((bytes, files)) = scratch::free_space(&folder) else { return Ok(()) };
    let needed = count.saturating_mul(FILE_BYTES);
    if needed <= bytes / 10 * 9 && files.is_none_or(|files| count <= files / 10 * 9) {
        return Ok(());
    }
    let files = files.map_or_else(String::new, |files| format!(" in {} files", units::count(files)));
    Err(Error::invalid(format!(
        "{} files of {FILE_BYTES} bytes are more than nine tenths of the free space in {}: {}{files}; give another \
         directory with --scratch, or request fewer",
        units::count(count),
        folder.display(),
        units::bytes(bytes)
    )))
}
