//! The compiled programs.

use super::{Error, Result};
use manycore_bpf::Loader;
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

/// Returns the number of CPUs that can ever be online, by their largest number.
pub(crate) fn possible_cpus() -> Result<u32> {
    let tree = SysTree::open(Path::new("/"))?;
    let possible = tree.cpu_list("sys/devices/system/cpu/possible")?;
    Ok(possible.and_then(|cpus| cpus.last()).map_or(1, |last| last + 1))
}
