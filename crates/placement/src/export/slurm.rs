//! Exports for `srun(1)`: one task per worker, each with its CPUs.
//!
//! Slurm applies a map of CPUs only if the step has every CPU of the node. `srun --exclusive` alone gives a
//! step as many CPUs as it has tasks, so the node is allocated first, with `salloc`.

use super::{Export, comments};
use crate::{Level, MemoryPlacement, PlannedWorker, PolicyKind};
use manycore_topology::CpuSet;

pub(super) fn text(export: &Export) -> String {
    let workers = &export.plan.workers;
    let mut lines = vec![format!("{}: task N of the step is worker N.", export.title())];
    let mut words =
        vec!["salloc --nodes=1 --exclusive srun".to_owned(), format!("--ntasks={}", workers.len())];
    if workers.len() > export.plan.cpus().len() {
        words.push("--overcommit".to_owned());
    }
    // The order in which Slurm would distribute tasks itself; the map specifies it exactly.
    words.push(format!("--distribution={}", distribution(&export.policy.kind)));
    words.push(format!("--cpu-bind={}", cpus(workers)));
    if export.policy.nosmt {
        words.push("--hint=nomultithread".to_owned());
    }
    match export.memory {
        MemoryPlacement::Default => {}
        MemoryPlacement::Local => words.push("--mem-bind=local".to_owned()),
        MemoryPlacement::Bind(_) => match memory(export) {
            Some(bind) => words.push(bind),
            None => {
                lines.push("The memory nodes of some workers are unknown: memory is not bound.".to_owned());
            }
        },
        MemoryPlacement::Interleave(_) => {
            lines.push("srun cannot interleave memory: put this before the program:".to_owned());
            lines.extend(export.memory_by_numactl());
        }
    }
    format!("{}{}\n", comments(&lines), words.join(" "))
}

/// Returns how tasks are distributed over nodes, sockets and cores: adjacent first, or round-robin.
fn distribution(kind: &PolicyKind) -> &'static str {
    match kind {
        PolicyKind::Free | PolicyKind::Close | PolicyKind::Cpus(_) => "block:block:block",
        PolicyKind::SpreadAt(Level::Package | Level::Node) => "block:cyclic:block",
        PolicyKind::Spread | PolicyKind::SpreadAt(_) | PolicyKind::Near(_) => "block:cyclic:cyclic",
    }
}

/// Returns a map if each worker has one CPU, and masks otherwise.
fn cpus(workers: &[PlannedWorker]) -> String {
    let single = workers.iter().all(|worker| worker.cpus.len() == 1);
    let name = if single { "map_cpu" } else { "mask_cpu" };
    let of = |worker: &PlannedWorker| match worker.cpus.first() {
        Some(cpu) if single => cpu.to_string(),
        _ => mask(&worker.cpus),
    };
    format!("{name}:{}", repeated(workers.iter().map(of)))
}

/// Returns the option that binds each task to its memory nodes; `None` if a worker has no nodes.
fn memory(export: &Export) -> Option<String> {
    let nodes: Vec<CpuSet> =
        export.plan.workers.iter().map(|worker| export.nodes(worker).into_iter().collect()).collect();
    if nodes.iter().any(CpuSet::is_empty) {
        return None;
    }
    let single = nodes.iter().all(|nodes| nodes.len() == 1);
    let name = if single { "map_mem" } else { "mask_mem" };
    let of = |nodes: &CpuSet| if single { nodes.to_string() } else { mask(nodes) };
    Some(format!("--mem-bind={name}:{}", repeated(nodes.iter().map(of))))
}

/// Formats equal adjacent items once, with their number: `0x0f*4,0xf0`.
fn repeated(items: impl Iterator<Item = String>) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for item in items {
        match runs.last_mut() {
            Some((last, count)) if *last == item => *count += 1,
            _ => runs.push((item, 1)),
        }
    }
    let run = |(item, count): (String, usize)| if count == 1 { item } else { format!("{item}*{count}") };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

/// Formats a mask as one hexadecimal number with as many digits as the highest CPU needs.
fn mask(cpus: &CpuSet) -> String {
    let mut digits = vec![0_u32; cpus.last().map_or(1, |last| last as usize / 4 + 1)];
    let highest = digits.len() - 1;
    cpus.iter().for_each(|cpu| digits[highest - cpu as usize / 4] |= 1 << (cpu % 4));
    let digits: String = digits.into_iter().filter_map(|digit| char::from_digit(digit, 16)).collect();
    format!("0x{digits}")
}
