//! `srun(1)`: a task for each worker, each with its CPUs.
//!
//! Slurm honours a map of CPUs only where the step has every CPU of the node. `srun --exclusive` alone gives a
//! step as many CPUs as it has tasks, so the node is allocated first, by `salloc`.

use super::{Export, comments};
use crate::{Level, Memory, PlannedWorker, PolicyKind};
use manycore_topology::CpuSet;

pub(super) fn text(export: &Export) -> String {
    let workers = &export.plan.workers;
    let mut lines = vec![format!("{}: task N of the step is worker N.", export.title())];
    let mut words =
        vec!["salloc --nodes=1 --exclusive srun".to_owned(), format!("--ntasks={}", workers.len())];
    if workers.len() > export.plan.cpus().len() {
        words.push("--overcommit".to_owned());
    }
    // The order in which Slurm would deal tasks itself; the map says it exactly.
    words.push(format!("--distribution={}", distribution(&export.policy.kind)));
    words.push(format!("--cpu-bind={}", cpus(workers)));
    if export.policy.nosmt {
        words.push("--hint=nomultithread".to_owned());
    }
    match export.memory {
        Memory::Default => {}
        Memory::Local => words.push("--mem-bind=local".to_owned()),
        Memory::Bind(_) => match memory(export) {
            Some(bind) => words.push(bind),
            None => {
                lines.push("The machine does not show the memory of all workers: none is bound.".to_owned());
            }
        },
        Memory::Interleave(_) => {
            lines.push("srun cannot interleave memory: put this before the program:".to_owned());
            lines.extend(export.memory_by_numactl());
        }
    }
    format!("{}{}\n", comments(&lines), words.join(" "))
}

/// How tasks go over nodes, sockets and cores: neighbours first, or in turn.
fn distribution(kind: &PolicyKind) -> &'static str {
    match kind {
        PolicyKind::Free | PolicyKind::Close | PolicyKind::Cpus(_) => "block:block:block",
        PolicyKind::SpreadAt(Level::Package | Level::Node) => "block:cyclic:block",
        PolicyKind::Spread | PolicyKind::SpreadAt(_) | PolicyKind::Near(_) => "block:cyclic:cyclic",
    }
}

/// A map where each worker has one CPU, masks otherwise.
fn cpus(workers: &[PlannedWorker]) -> String {
    let single = workers.iter().all(|worker| worker.cpus.len() == 1);
    let name = if single { "map_cpu" } else { "mask_cpu" };
    let of = |worker: &PlannedWorker| match worker.cpus.first() {
        Some(cpu) if single => cpu.to_string(),
        _ => mask(&worker.cpus),
    };
    format!("{name}:{}", repeated(workers.iter().map(of)))
}

/// Binds each task to its nodes; none where a worker has none.
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

/// `0x0f*4,0xf0`: equal neighbours once, with their number.
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

/// One hexadecimal number, of as many digits as the highest CPU needs.
fn mask(cpus: &CpuSet) -> String {
    let mut digits = vec![0_u32; cpus.last().map_or(1, |last| last as usize / 4 + 1)];
    let highest = digits.len() - 1;
    cpus.iter().for_each(|cpu| digits[highest - cpu as usize / 4] |= 1 << (cpu % 4));
    let digits: String = digits.into_iter().filter_map(|digit| char::from_digit(digit, 16)).collect();
    format!("0x{digits}")
}
