//! Processes, CPUs and times as parts of sentences.

use super::{AuditFacts, Claim, Process, ProcessRef};
use manycore_topology::CpuSet;
use std::collections::BTreeSet;

/// Maximum number of processes that are listed.
const MAX_NAMED: usize = 3;

/// Maximum number of commands that are printed.
const MAX_COMMANDS: usize = 8;

/// Returns the commands that pin these threads. Each entry is a process, its pinned threads, and whether
/// these are all its threads.
pub(super) fn taskset(cpus: &CpuSet, pinned: &[(u32, Vec<u32>, bool)]) -> String {
    let commands: Vec<String> = pinned
        .iter()
        .flat_map(|(pid, tids, all)| {
            let one = |option: &str, id: u32| format!("taskset {option} {cpus} {id}");
            if *all { vec![one("-acp", *pid)] } else { tids.iter().map(|&tid| one("-cp", tid)).collect() }
        })
        .collect();
    commands_of(&commands)
}

/// Returns processes as [`taskset`] takes them, each with all its threads.
pub(super) fn whole(processes: &[ProcessRef]) -> Vec<(u32, Vec<u32>, bool)> {
    processes.iter().map(|process| (process.pid, Vec::new(), true)).collect()
}

/// Returns the command that moves all threads of these processes. `pin` moves descendants as well, so those of a
/// process in the list are left out.
pub(super) fn pin(facts: &AuditFacts, processes: &[ProcessRef], cpus: &CpuSet) -> String {
    let listed: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
    let is_root = |pid: &u32| !ancestors(facts, *pid).iter().any(|above| listed.contains(above));
    let pids: Vec<String> = listed.iter().filter(|pid| is_root(pid)).map(u32::to_string).collect();
    format!("manycore pin --pid {} --place cpus={cpus} --once", pids.join(","))
}

/// Returns the ids of the ancestors of a process, the parent first.
fn ancestors(facts: &AuditFacts, pid: u32) -> Vec<u32> {
    let find = |pid: u32| facts.processes.iter().find(|process| process.pid == pid);
    let mut found = Vec::new();
    let mut child = find(pid);
    while let Some(process) = child.filter(|process| !found.contains(&process.parent)) {
        found.push(process.parent);
        child = find(process.parent);
    }
    found
}

/// Returns how to undo the change of manycore that pinned one of these processes, if there is one.
pub(super) fn undo(facts: &AuditFacts, processes: &[ProcessRef]) -> Option<String> {
    let mut named = of(facts, processes);
    let pin = named.find_map(|process| process.pinned_by.as_ref())?;
    Some(match pin.owner {
        None => format!("undo the pinning: manycore undo {}", pin.change),
        Some(pid) if pin.change.starts_with("run-") => {
            format!("manycore run (pid {pid}) keeps it there: start it with another --place")
        }
        Some(pid) => format!("undo the pinning: kill -INT {pid} ends the manycore that keeps it there"),
    })
}

/// Returns the CPUs that the control groups of all these processes allow.
pub(super) fn usable(facts: &AuditFacts, processes: &[ProcessRef]) -> CpuSet {
    of(facts, processes)
        .fold(facts.online.clone(), |cpus, process| cpus.intersection(&process.limits.usable(&facts.online)))
}

fn of<'a>(facts: &'a AuditFacts, processes: &[ProcessRef]) -> impl Iterator<Item = &'a Process> {
    facts.processes.iter().filter(|process| processes.iter().any(|named| named.pid == process.pid))
}

/// Returns the first commands separated by `;`, and how many more there are.
pub(super) fn commands_of(commands: &[String]) -> String {
    let text = commands.iter().take(MAX_COMMANDS).map(String::as_str).collect::<Vec<_>>().join("; ");
    match commands.len().saturating_sub(MAX_COMMANDS) {
        0 => text,
        more => format!("{text} (and {more} more similar commands)"),
    }
}

/// Returns `1 thread`, `5 threads`.
pub(super) fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Returns `CPU 3`, `CPUs 2-3`.
pub(super) fn cpus(cpus: &CpuSet) -> String {
    format!("{} {}", if cpus.len() == 1 { "CPU" } else { "CPUs" }, cpus.brief())
}

/// Returns `CPU 3 is`, `CPUs 2-3 are`.
pub(super) fn cpus_are(set: &CpuSet) -> String {
    format!("{} {}", cpus(set), if set.len() == 1 { "is" } else { "are" })
}

/// Returns a tenant as one noun: `redis (pid 214)`, `stress-ng (pid 18200 and 2 more)`, `db (pid 10, group /job)`.
pub(super) fn owner(claim: &Claim) -> String {
    let group = claim.group.as_ref().map(|name| format!("group {name}"));
    let Some(first) = claim.processes.first() else { return group.unwrap_or_default() };
    let more = match claim.processes.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let group = group.map(|group| format!(", {group}")).unwrap_or_default();
    format!("{} (pid {}{more}{group})", first.name, first.pid)
}

/// Returns `nginx (pid 214)`.
pub(super) fn process(reference: &ProcessRef) -> String {
    format!("{} (pid {})", reference.name, reference.pid)
}

/// Returns `a (pid 1), b (pid 2), c (pid 3) and 7 more`.
pub(super) fn processes(references: &[ProcessRef]) -> String {
    let named: Vec<String> = references.iter().take(MAX_NAMED).map(process).collect();
    match references.len().saturating_sub(MAX_NAMED) {
        0 => manycore_text::names::list(&named),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns `0.98 CPUs during the audit, 312 s in total`.
pub(super) fn use_of_cpu(busy_cpus: f64, seconds: f64) -> String {
    let digits = usize::from(seconds < 10.0);
    format!("{busy_cpus:.2} CPUs during the audit, {seconds:.digits$} s in total")
}
