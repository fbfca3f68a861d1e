//! Processes and times in sentences.

use super::Holder;
use manycore_topology::CpuSet;

/// How many processes of a list are named.
const NAMED: usize = 3;

/// How many commands of a list are printed.
const COMMANDS: usize = 8;

/// Commands that pin these threads, where each holder is one process with its pinned threads.
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

/// Commands one after the other, as a shell takes them; of many the first, and how many there are.
pub(super) fn commands_of(commands: &[String]) -> String {
    let text = commands.iter().take(COMMANDS).map(String::as_str).collect::<Vec<_>>().join("; ");
    match commands.len().saturating_sub(COMMANDS) {
        0 => text,
        more => format!("{text} (and {more} more like these)"),
    }
}

/// `1 thread`, `5 threads`.
pub(super) fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// `CPU 3`, `CPUs 2-3`.
pub(super) fn cpus(cpus: &CpuSet) -> String {
    format!("{} {}", if cpus.len() == 1 { "CPU" } else { "CPUs" }, cpus.brief())
}

/// `nginx (pid 214)`.
pub(super) fn process(holder: &Holder) -> String {
    format!("{} (pid {})", holder.name, holder.pid)
}

/// `a (pid 1), b (pid 2), c (pid 3) and 7 more`.
pub(super) fn processes(holders: &[Holder]) -> String {
    let named: Vec<String> = holders.iter().take(NAMED).map(process).collect();
    match holders.len().saturating_sub(NAMED) {
        0 => manycore_text::names::list(&named),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// `0.98 CPUs while we looked, 312 s in all`.
pub(super) fn use_of_cpu(busy_cpus: f64, seconds: f64) -> String {
    let digits = usize::from(seconds < 10.0);
    format!("{busy_cpus:.2} CPUs while we looked, {seconds:.digits$} s in all")
}
