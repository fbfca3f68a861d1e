//! Processes and times in sentences.

use super::Holder;
use crate::CpuSet;

/// How many processes of a list are named.
const NAMED: usize = 3;

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
        0 => crate::evaluation::list(&named),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// `0.98 CPUs while we looked, 312 s in all`.
pub(super) fn use_of_cpu(busy_cpus: f64, seconds: f64) -> String {
    let digits = usize::from(seconds < 10.0);
    format!("{busy_cpus:.2} CPUs while we looked, {seconds:.digits$} s in all")
}
