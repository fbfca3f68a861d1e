//! The compiled programs.

use super::{Error, Result};
use manycore_bpf::{Loader, program::Loaded};
use manycore_topology::SysTree;
use std::path::Path;

/// The program that counts; empty if it was built without clang.
pub(crate) static LATENCY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/latency.bpf.o"));
/// The program that sends events; empty as above.
pub(crate) static TRACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"));
/// What was missing when they were built.
static MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/missing"));

/// Parses an object.
pub(crate) fn loader(object: &[u8]) -> Result<Loader> {
    if object.is_empty() {
        return Err(Error::NotBuilt(MISSING));
    }
    Ok(Loader::new(object)?)
}

/// Adds a process to those that programs watch, or removes it.
pub(crate) fn watch_process(loaded: &Loaded, pid: u32, is_watched: bool) -> Result<()> {
    let processes = loaded.map("processes")?;
    if is_watched {
        processes.update(&pid.to_ne_bytes(), &1_u32.to_ne_bytes())?;
    } else {
        processes.remove(&pid.to_ne_bytes())?;
    }
    Ok(())
}

/// Returns the number of CPUs that can ever be online, by their largest number.
pub(crate) fn possible_cpus() -> Result<u32> {
    let tree = SysTree::open(Path::new("/"))?;
    let possible = tree.cpu_list("sys/devices/system/cpu/possible")?;
    Ok(possible.and_then(|cpus| cpus.last()).map_or(1, |last| last + 1))
}
