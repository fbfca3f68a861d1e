//! Exports for OpenMP (OpenMP API 5.2, chapter 21): environment variables with one place per thread, in
//! order.
//!
//! With as many places as threads, `OMP_PROC_BIND=close` puts thread *i* on place *i*, since the primary
//! thread is on place 0. If all threads may use all CPUs there is one place for all of them.

use super::{Export, comments};
use manycore_topology::CpuSet;

pub(super) fn text(export: &Export) -> String {
    let mut lines = vec![format!("{}: thread N of the program is worker N.", export.title())];
    if let Some(words) = export.memory_by_numactl() {
        lines.push(format!("OpenMP cannot set a memory policy ({}): start the program with", export.memory));
        lines.push(format!("{words} PROGRAM"));
    }
    let workers = &export.plan.workers;
    let apart = if export.all_workers_equal() { &workers[..1] } else { workers };
    let places: Vec<String> = apart.iter().map(|worker| place(&worker.cpus)).collect();
    format!(
        "{}export OMP_NUM_THREADS={}\nexport OMP_PLACES='{}'\nexport OMP_PROC_BIND=close\nexport OMP_DYNAMIC=false\n",
        comments(&lines),
        workers.len(),
        places.join(",")
    )
}

/// Returns `{0:4,8}`: an interval is its first CPU and its number of CPUs.
fn place(cpus: &CpuSet) -> String {
    let intervals = cpus.ranges().map(|(first, last)| match last - first + 1 {
        1 => first.to_string(),
        count => format!("{first}:{count}"),
    });
    format!("{{{}}}", intervals.collect::<Vec<_>>().join(","))
}
