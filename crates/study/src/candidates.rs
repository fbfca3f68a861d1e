//! The candidates of `tune`: numbers of workers, placements and memory policies that differ on this machine.

use crate::{
    error::{Error, Result},
    format_command,
    subject::Variant,
    tune::Search,
    with_workers,
};
use manycore_control::placement::place_workers;
use manycore_placement::{Level, MemoryPlacement, PlacementPlan, Policy, PolicyKind};
use manycore_topology::{CpuSet, Machine};
use std::collections::{BTreeSet, HashSet};

/// Limit for the number of candidates. More would spend the budget before there is any result.
const MAX_CANDIDATES: usize = 256;

/// One way to run the command.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Displayed name: `4 workers, close, interleave`.
    pub name: String,
    /// Number of workers.
    pub workers: usize,
    /// The command and its placement.
    pub variant: Variant,
    /// The plan of the placement; `None` if the scheduler places the command.
    pub plan: Option<PlacementPlan>,
    /// An equivalent command line with standard tools: `taskset -c 0-3 COMMAND`.
    pub command_line: String,
}

/// Returns today's behaviour, then all candidates that differ from it and from each other on this machine.
///
/// # Errors
/// [`Error::Placement`] if a requested placement is not possible, [`Error::NoCandidates`],
/// [`Error::TooManyCandidates`].
pub fn candidates(
    search: &Search,
    service: bool,
    machine: &Machine,
    usable: &CpuSet,
) -> Result<Vec<Candidate>> {
    let today_workers = search.today.unwrap_or(usable.len());
    let free = Policy::new(PolicyKind::Free, false);
    let mut candidates = vec![candidate(search, machine, &free, &MemoryPlacement::Default, today_workers)?];
    let mut seen = HashSet::from([key(&candidates[0], machine, &MemoryPlacement::Default)]);
    for workers in worker_counts(search, machine, usable) {
        for policy in policies(search, machine) {
            for memory in memories(search, service, machine) {
                let found = candidate(search, machine, &policy, &memory, workers);
                let candidate = match found {
                    Ok(candidate) => candidate,
                    // A default placement that is not possible on this machine is left out.
                    Err(_) if search.place.is_empty() => continue,
                    Err(failure) => return Err(failure),
                };
                // If the command has no placeholder for its number of workers, more workers than CPUs use the same
                // CPUs in turns, under the same name.
                let is_named = candidates.iter().any(|known| known.name == candidate.name);
                if seen.insert(key(&candidate, machine, &memory)) && !is_named {
                    candidates.push(candidate);
                }
            }
        }
    }
    match candidates.len() {
        1 => Err(Error::NoCandidates),
        2..=MAX_CANDIDATES => Ok(candidates),
        count => Err(Error::TooManyCandidates { count, max: MAX_CANDIDATES }),
    }
}

/// Returns the identity of a candidate: its command, its CPUs up to the symmetries of the machine, and its
/// memory policy.
fn key(candidate: &Candidate, machine: &Machine, memory: &MemoryPlacement) -> String {
    let place = candidate.plan.as_ref().map(|plan| plan.canonical(machine).to_string()).unwrap_or_default();
    // Binding memory to the only node changes nothing.
    let nodes = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count();
    let memory = if nodes > 1 { memory.to_string() } else { String::new() };
    format!("{:?} {place} {memory}", candidate.variant.command)
}

fn candidate(
    search: &Search,
    machine: &Machine,
    policy: &Policy,
    memory: &MemoryPlacement,
    workers: usize,
) -> Result<Candidate> {
    let (command, has_placeholder) = with_workers(&search.command, workers);
    let (place, plan) = place_workers(machine, Some(policy), memory, workers)?;
    let free = place.workers.is_empty();
    let mut name = match (has_placeholder, free) {
        (true, _) => format!("{workers} worker{}, {policy}", if workers == 1 { "" } else { "s" }),
        (false, true) => policy.to_string(),
        (false, false) => format!("{policy} on CPUs {}", plan.cpus()),
    };
    if *memory != MemoryPlacement::Default {
        name = format!("{name}, {memory}");
    }
    let prefix = match (free, memory) {
        (true, MemoryPlacement::Default) => String::new(),
        (false, MemoryPlacement::Default) => format!("{} ", plan.taskset()),
        _ => format!("{} ", plan.numactl(memory)),
    };
    Ok(Candidate {
        name,
        workers,
        command_line: format!("{prefix}{}", format_command(&command)),
        variant: Variant { command, env: Vec::new(), copies: 1, place },
        plan: (!free).then_some(plan),
    })
}

/// Returns the numbers of workers: the requested ones, or powers of two, all cores, all CPUs and twice as
/// many.
fn worker_counts(search: &Search, machine: &Machine, usable: &CpuSet) -> BTreeSet<usize> {
    if !search.workers.is_empty() {
        return search.workers.iter().copied().collect();
    }
    let cpus = usable.len();
    let has_placeholder = with_workers(&search.command, 1).1;
    let cores = machine.cores.iter().filter(|core| core.cpus.iter().any(|cpu| usable.contains(cpu))).count();
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    // More workers than CPUs make sense only if the command takes their number.
    let beyond = has_placeholder.then_some(2 * cpus);
    powers.chain([cores.max(1), cpus]).chain(beyond).collect()
}

fn policies(search: &Search, machine: &Machine) -> Vec<Policy> {
    if !search.place.is_empty() {
        return search.place.clone();
    }
    let mut kinds = vec![PolicyKind::Free, PolicyKind::Close, PolicyKind::Spread];
    kinds.extend(Level::ALL.map(PolicyKind::SpreadAt));
    let smt: &[bool] = if machine.has_smt() { &[false, true] } else { &[false] };
    kinds.iter().flat_map(|kind| smt.iter().map(|&nosmt| Policy::new(kind.clone(), nosmt))).collect()
}

fn memories(search: &Search, service: bool, machine: &Machine) -> Vec<MemoryPlacement> {
    let with_memory = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count();
    match (search.memory.is_empty(), service, with_memory) {
        (false, ..) => search.memory.clone(),
        (true, false, 2..) => {
            vec![
                MemoryPlacement::Default,
                MemoryPlacement::Local,
                MemoryPlacement::Interleave(Vec::new()),
                MemoryPlacement::Bind(Vec::new()),
            ]
        }
        _ => vec![MemoryPlacement::Default],
    }
}
