//! How much CPU time was used between two looks.

use super::stat;
use crate::{Process, Thread};
use manycore_topology::CpuSet;
use manycore_topology::tree::Tree;
use std::collections::HashMap;

/// CPU time in seconds of processes and threads, by their ids.
#[derive(Clone, Debug, Default)]
pub struct Times {
    processes: HashMap<u32, f64>,
    threads: HashMap<u32, f64>,
}

/// The CPU time, in steps of a tick (`utime` and `stime` of `stat`), of all processes, and of threads whose share
/// matters: those pinned to one CPU, and those of programs that were looked at for their number of threads.
pub fn times(tree: &Tree, online: &CpuSet, processes: &[Process]) -> Times {
    let mut times = Times::default();
    let seconds = |id: &str| stat(tree, id).map(|stat| stat.cpu_seconds);
    for process in processes {
        let pid = process.pid;
        let all = process.program.is_some();
        let matters = |thread: &&Thread| all || thread.only_cpu(online).is_some();
        times.processes.extend(seconds(&pid.to_string()).map(|seconds| (pid, seconds)));
        for thread in process.threads.iter().filter(matters) {
            let used = seconds(&format!("{pid}/task/{}", thread.tid));
            times.threads.extend(used.map(|used| (thread.tid, used)));
        }
    }
    times
}

/// Enters what was used between two looks, `seconds` apart.
pub fn settle(processes: &mut [Process], before: &Times, after: &Times, seconds: f64) {
    let share = |late: f64, early: Option<&f64>| early.map(|early| (late - early).max(0.0) / seconds);
    for process in processes {
        if let Some(&late) = after.processes.get(&process.pid) {
            process.cpu_seconds = late;
            process.busy_cpus = share(late, before.processes.get(&process.pid));
        }
        for thread in &mut process.threads {
            if let Some(&late) = after.threads.get(&thread.tid) {
                thread.cpu_seconds = Some(late);
                // Ticks come in whole: a short interval may see one more than it holds.
                thread.busy_cpus = share(late, before.threads.get(&thread.tid)).map(|busy| busy.min(1.0));
            }
        }
    }
}
