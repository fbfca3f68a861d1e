//! Measures the choice of a CPU alone, on an invented machine, with the code of the scheduler (`bpf/select.h`). The kernel
//! needs no `sched_ext` for that.

use crate::{
    engine::MISSING,
    error::{Error, Result},
    layout::Layout,
    maps,
    run::FixedPolicy,
};
use manycore_bpf::Loader;
use manycore_topology::{CpuSet, Machine};

/// The compiled measurement; empty if it was built without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/choice.bpf.o"));

/// The cost of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceCost {
    /// Mean time of a choice in nanoseconds, with the two readings of the clock around it.
    pub mean_ns: f64,
    /// Share of choices that found an idle CPU.
    pub found: f64,
}

/// Measures `choices` choices in a row on a machine of which a share of the CPUs is busy.
///
/// # Errors
/// [`Error::NotBuilt`], [`Error::OneCluster`], or [`Error::Bpf`] if the kernel refuses the program.
pub fn measure(machine: &Machine, policy: FixedPolicy, busy: f64, choices: u32) -> Result<ChoiceCost> {
    if OBJECT.is_empty() {
        return Err(Error::NotBuilt(MISSING));
    }
    let layout = Layout::of(machine).ok_or(Error::OneCluster)?;
    let mut object = Loader::new(OBJECT)?;
    let possible: &CpuSet = &machine.online;
    maps::declare(&mut object, &layout, possible)?;
    let busy = ((possible.len() as f64 * busy).round() as u32).clamp(1, 8191);
    object.set("choices", u64::from(choices));
    object.set("busy", u64::from(busy));
    object.set("pack", u64::from(policy == FixedPolicy::Pack));
    let loaded = object.load()?;
    maps::fill(&loaded, &layout)?;
    let results = loaded.map("results")?.mapped()?;
    loaded.run("measure")?;
    let share = |word: u64| word as f64 / f64::from(choices.max(1));
    Ok(ChoiceCost { mean_ns: share(results.word(0, 0)), found: share(results.word(1, 0)) })
}
