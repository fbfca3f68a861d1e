//! Processes, CPUs and times as parts of sentences.

use super::ProcessRef;
use manycore_topology::CpuSet;

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
