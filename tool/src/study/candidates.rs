//! The candidates of `tune`: numbers of workers, placements and memory policies that differ on this machine.

use super::{commands::Side, line, with_workers};
use crate::placing::{Place, placed};
use crate::{
    cli::Tune,
    failure::{Failure, Outcome},
};
use manycore_model::{
    CpuSet, Machine,
    placement::{Level, Memory, Plan, Policy, PolicyKind},
};
use std::collections::{BTreeSet, HashSet};

/// Limit for the number of candidates. More would spend the budget before there is any result.
const MOST: usize = 256;

/// One way to run the command.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Displayed name: `4 workers, close, interleave`.
    pub name: String,
    /// Number of workers.
    pub workers: usize,
    /// The command and its placement.
    pub side: Side,
    /// The plan of the placement; `None` if the scheduler places the command.
    pub plan: Option<Plan>,
    /// An equivalent command line with standard tools: `taskset -c 0-3 COMMAND`.
    pub line: String,
}

/// Returns today's behaviour, then all candidates that differ from it and from each other on this machine.
///
/// # Errors
/// [`Failure::Input`] if a requested placement is not possible, or there are too many candidates or none.
pub fn of(args: &Tune, machine: &Machine, usable: &CpuSet) -> Outcome<Vec<Candidate>> {
    let today_workers = args.today.map_or(usable.len(), |workers| workers as usize);
    let free = Policy::of(PolicyKind::Free, false);
    let mut field = vec![candidate(args, machine, &free, &Memory::Default, today_workers)?];
    let mut seen = HashSet::from([key(&field[0], machine, &Memory::Default)]);
    for workers in worker_counts(args, machine, usable) {
        for policy in policies(args, machine) {
            for memory in memories(args, machine) {
                let found = candidate(args, machine, &policy, &memory, workers);
                let candidate = match found {
                    Ok(candidate) => candidate,
                    // A default placement that is not possible on this machine is left out.
                    Err(_) if args.place.is_empty() => continue,
                    Err(failure) => return Err(failure),
                };
                // If the command does not take its number of workers, more workers than CPUs use the same
                // CPUs in turns, under the same name.
                let is_named = field.iter().any(|known| known.name == candidate.name);
                if seen.insert(key(&candidate, machine, &memory)) && !is_named {
                    field.push(candidate);
                }
            }
        }
    }
    if field.len() > MOST {
        return Err(Failure::input(format!(
            "{} candidates are too many; give fewer with --workers, --place and --memory",
            field.len()
        )));
    }
    if field.len() == 1 {
        return Err(Failure::input(
            "no candidate differs from today's behaviour on this machine; give other --workers or --place",
        ));
    }
    Ok(field)
}

/// Returns the identity of a candidate: its command, its CPUs up to the symmetries of the machine, and its
/// memory policy.
fn key(candidate: &Candidate, machine: &Machine, memory: &Memory) -> String {
    let place = candidate.plan.as_ref().map(|plan| plan.shape(machine).to_string()).unwrap_or_default();
    // Binding memory to the only node changes nothing.
    let nodes = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count();
    let memory = if nodes > 1 { memory.to_string() } else { String::new() };
    format!("{:?} {place} {memory}", candidate.side.command)
}

fn candidate(
    args: &Tune,
    machine: &Machine,
    policy: &Policy,
    memory: &Memory,
    workers: usize,
) -> Outcome<Candidate> {
    let (command, has_hole) = with_workers(&args.command.command, workers);
    let (place, plan): (Place, Plan) = placed(machine, Some(policy), memory, workers)?;
    let free = place.workers.is_empty();
    let mut name = match (has_hole, free) {
        (true, _) => format!("{workers} worker{}, {policy}", if workers == 1 { "" } else { "s" }),
        (false, true) => policy.to_string(),
        (false, false) => format!("{policy} on CPUs {}", plan.cpus()),
    };
    if *memory != Memory::Default {
        name = format!("{name}, {memory}");
    }
    let prefix = match (free, memory) {
        (true, Memory::Default) => String::new(),
        (false, Memory::Default) => format!("{} ", plan.taskset()),
        _ => format!("{} ", plan.numactl(memory)),
    };
    Ok(Candidate {
        name,
        workers,
        line: format!("{prefix}{}", line(&command)),
        side: Side { command, env: Vec::new(), copies: 1, place },
        plan: (!free).then_some(plan),
    })
}

/// Returns the numbers of workers: the requested ones, or powers of two, all cores, all CPUs and twice as
/// many.
fn worker_counts(args: &Tune, machine: &Machine, usable: &CpuSet) -> BTreeSet<usize> {
    if !args.workers.is_empty() {
        return args.workers.iter().map(|&workers| workers as usize).collect();
    }
    let cpus = usable.len();
    let has_hole = with_workers(&args.command.command, 1).1;
    let cores = machine.cores.iter().filter(|core| core.cpus.iter().any(|cpu| usable.contains(cpu))).count();
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    // More workers than CPUs make sense only if the command takes their number.
    let beyond = has_hole.then_some(2 * cpus);
    powers.chain([cores.max(1), cpus]).chain(beyond).collect()
}

fn policies(args: &Tune, machine: &Machine) -> Vec<Policy> {
    if !args.place.is_empty() {
        return args.place.clone();
    }
    let mut kinds = vec![PolicyKind::Free, PolicyKind::Close, PolicyKind::Spread];
    kinds.extend(Level::ALL.map(PolicyKind::SpreadAt));
    let smt: &[bool] = if machine.has_smt() { &[false, true] } else { &[false] };
    kinds.iter().flat_map(|kind| smt.iter().map(|&nosmt| Policy::of(kind.clone(), nosmt))).collect()
}

fn memories(args: &Tune, machine: &Machine) -> Vec<Memory> {
    let with_memory = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count();
    match (args.memory.is_empty(), args.measuring.service.is_some(), with_memory) {
        (false, ..) => args.memory.clone(),
        (true, false, 2..) => {
            vec![Memory::Default, Memory::Local, Memory::Interleave(Vec::new()), Memory::Bind(Vec::new())]
        }
        _ => vec![Memory::Default],
    }
}
