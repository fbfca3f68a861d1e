//! CPUs that are reserved for the system and for other work.

use crate::{
    PlacementError,
    cpu_tree::{indices_of, kind},
    pool,
};
use manycore_topology::{CpuId, CpuSet, Machine, cpuset::ParseCpuSetError};
use std::{cmp::Reverse, fmt, str::FromStr};

/// CPUs that no worker gets, parsed and printed as on the command line: `0`, `2`, `cpus=0-1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reserve {
    /// Reserves nothing.
    #[default]
    Nothing,
    /// Reserves this many of the usable CPUs. Slow cores come first, then low numbers, because the kernel
    /// puts interrupts and its own work on the lowest CPUs by default. CPUs named by `cpus=LIST` come last.
    /// Whole cores are taken; a core is split only if no whole core fits into the remaining number.
    Count(usize),
    /// Reserves these CPUs, as far as the machine has them.
    Cpus(CpuSet),
}

/// Reasons why a text is not a reserve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseReserveError {
    /// The text is neither a number nor `cpus=LIST`.
    #[error("'{0}' is not a reserve; write a number of CPUs or a list, such as 2 or cpus=0-1")]
    Unknown(String),
    /// The text after `cpus=` is not a list of CPUs.
    #[error("cpus={0}: {1}")]
    Cpus(String, ParseCpuSetError),
}

impl FromStr for Reserve {
    type Err = ParseReserveError;

    fn from_str(text: &str) -> Result<Self, ParseReserveError> {
        let text = text.trim();
        if let Some(list) = text.strip_prefix("cpus=") {
            let cpus = list.parse().map_err(|reason| ParseReserveError::Cpus(list.to_owned(), reason))?;
            return Ok(Self::Cpus(cpus));
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse().ok().filter(|_| digits) {
            Some(0) => Ok(Self::Nothing),
            Some(count) => Ok(Self::Count(count)),
            None => Err(ParseReserveError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("0"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Cpus(cpus) => write!(f, "cpus={cpus}"),
        }
    }
}

impl Reserve {
    /// Checks that all CPUs of the reserve are online. Used by subcommands that run threads on them.
    ///
    /// # Errors
    /// Returns the CPUs that are not online.
    pub fn check_online(&self, machine: &Machine) -> Result<(), PlacementError> {
        match self {
            Self::Cpus(requested) if !requested.is_subset(&machine.online) => {
                Err(PlacementError::ReserveCpus {
                    requested: requested.clone(),
                    why: pool::unusable_reasons(machine, &machine.online, &CpuSet::new(), requested),
                    usable: machine.online.intersection(&machine.usable()).difference(&machine.isolated),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the reserved CPUs among `usable`. `wanted` are the CPUs that the placement names.
    pub fn cpus(&self, machine: &Machine, usable: &CpuSet, wanted: &CpuSet) -> CpuSet {
        match self {
            Self::Nothing => CpuSet::new(),
            Self::Cpus(cpus) => cpus.intersection(usable),
            Self::Count(count) if *count >= usable.len() => usable.clone(),
            Self::Count(count) => take(cores(machine, usable, wanted), *count),
        }
    }
}

/// Returns the usable CPUs of each core, in the order in which they are reserved.
fn cores(machine: &Machine, usable: &CpuSet, wanted: &CpuSet) -> Vec<Vec<CpuId>> {
    let ids: Vec<CpuId> = usable.iter().collect();
    let mut in_core = vec![false; ids.len()];
    let mut cores: Vec<Vec<CpuId>> = Vec::new();
    for core in &machine.cores {
        let new = indices_of(&core.cpus, &ids).filter(|&at| !std::mem::replace(&mut in_core[at], true));
        cores.push(new.map(|at| ids[at]).collect());
    }
    cores.extend(ids.iter().zip(in_core).filter(|(_, in_core)| !in_core).map(|(&cpu, _)| vec![cpu]));
    cores.retain(|core| !core.is_empty());
    cores.sort_by_key(|core| {
        (core.iter().any(|&cpu| wanted.contains(cpu)), Reverse(kind(machine, core[0])), core[0])
    });
    cores
}

fn take(cores: Vec<Vec<CpuId>>, count: usize) -> CpuSet {
    let (mut taken, mut divided) = (Vec::new(), Vec::new());
    for core in cores {
        if core.len() <= count - taken.len() {
            taken.extend(core);
        } else {
            divided.extend(core);
        }
    }
    let left = count - taken.len();
    taken.extend(divided.into_iter().take(left));
    taken.into_iter().collect()
}
