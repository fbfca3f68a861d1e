//! Whether what is asked for will fit, before it is started: memory, ids of tasks, room for files.

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
use manycore_topology::Tree;
use std::{env, path::Path};

/// Limits of the whole machine, which others need too: a tenth is left to them.
const SHARED: [&str; 2] = ["kernel.pid_max", "kernel.threads-max"];

/// Small runs, by which the memory of larger ones is foretold.
#[derive(Default)]
pub struct Pilots {
    /// What the runtime said about itself.
    pub versed: Versed,
    /// None where all that was asked for is as small.
    pub runs: Vec<Run>,
}

/// Memory that a runtime may take, in bytes, and what says so; absent where nothing tells.
pub fn memory() -> Option<(u64, String)> {
    ceilings::memory(&Tree::open(Path::new("/")).ok()?)
}

/// The limits that hold for what we start, of `asked` for the largest count.
pub fn limits(runtime: Runtime, unit: &str, work: Work, largest: u64) -> Vec<Limit> {
    let needs = Needs::of(runtime, unit, work, largest);
    Tree::open(Path::new("/")).map(|tree| ceilings::find(&tree, "self", runtime, &needs)).unwrap_or_default()
}

/// Refuses what cannot be had whatever a light process takes: counts for which the runtime has no place, and ceilings
/// above the memory.
///
/// # Errors
/// [`Error::Invalid`] with the bound, [`Error::Unavailable`] where the memory is not told and has to be known.
pub fn check_bounds(asked: &Asked, program: &dyn Program, room: Option<&(u64, String)>) -> Result {
    match room {
        None if asked.force || asked.ceiling.is_some() => {
            return Err(Error::unavailable(
                "how much memory is available is not told here, and has to be known",
            ));
        }
        Some((bytes, source)) if asked.ceiling.is_some_and(|limit| limit > *bytes) => {
            let [limit, bytes] = [asked.ceiling.unwrap_or(0), *bytes].map(units::bytes);
            return Err(Error::invalid(format!(
                "--ceiling: {limit} are more than {bytes} ({source}): take less"
            )));
        }
        _ => {}
    }
    let largest = asked.largest();
    match program.most() {
        Some((most, why)) if largest > most => {
            let [largest, most] = [largest, most].map(units::count);
            Err(Error::invalid(format!("{largest} are too many: {why} leaves room for {most}")))
        }
        _ => Ok(()),
    }
}

/// Refuses a count that will not fit, with the arithmetic.
///
/// # Errors
/// [`Error::Invalid`]. More than the memory holds is none with `--beyond-memory`.
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
                "{name}: {why}; ask for fewer, or have the limit of a control group stop them (--beyond-memory)"
            ))
        })?;
    }
    let limits = limits(runtime, unit, asked.work, count);
    let shared = limits.iter().filter(|limit| SHARED.contains(&limit.name.as_str()));
    for limit in shared {
        if count > limit.room / 10 * 9 {
            return Err(Error::invalid(format!(
                "{}: {} {} are more than nine tenths of the {} that {} leaves room for ({}), and others need some; ask \
                 for fewer, or: {}",
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

/// Refuses more files than there is room for.
fn check_files(asked: &Asked, count: u64) -> Result {
    let folder = asked.scratch.clone().unwrap_or_else(env::temp_dir);
    let Some((bytes, files)) = scratch::room(&folder) else { return Ok(()) };
    let needed = count.saturating_mul(FILE_BYTES);
    if needed <= bytes / 10 * 9 && files.is_none_or(|files| count <= files / 10 * 9) {
        return Ok(());
    }
    let files = files.map_or_else(String::new, |files| format!(" in {} files", units::count(files)));
    Err(Error::invalid(format!(
        "{} files of {FILE_BYTES} bytes are more than nine tenths of what {} has room for: {}{files}; name another \
         folder (--scratch), or ask for fewer",
        units::count(count),
        folder.display(),
        units::bytes(bytes)
    )))
}
