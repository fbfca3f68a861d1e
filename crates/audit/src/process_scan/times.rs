//! CPU time used between two readings.

use super::stat;
use crate::{Process, Thread};
use manycore_topology::{CpuSet, sys_tree::SysTree};
use std::collections::HashMap;

/// CPU time of processes and threads in seconds, by id.
#[derive(Clone, Debug, Default)]
pub struct Times {
    processes: HashMap<u32, f64>,
    threads: HashMap<u32, f64>,
}

/// Reads the CPU time, in units of clock ticks (`utime` and `stime` of `stat`), of all processes, and of the
/// threads for which it matters: threads pinned to one CPU, and threads of programs that were examined for
/// their number of threads.
pub fn times(tree: &SysTree, online: &CpuSet, processes: &[Process]) -> Times {
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

/// Enters the CPU time used between two readings, `seconds` apart.
pub fn enter_cpu_use(processes: &mut [Process], before: &Times, after: &Times, seconds: f64) {
    let share = |late: f64, early: Option<&f64>| early.map(|early| (late - early).max(0.0) / seconds);
    for process in processes {
        if let Some(&late) = after.processes.get(&process.pid) {
            process.cpu_seconds = late;
            process.busy_cpus = share(late, before.processes.get(&process.pid));
        }
        for thread in &mut process.threads {
            if let Some(&late) = after.threads.get(&thread.tid) {
                thread.cpu_seconds = Some(late);
                // Only whole ticks are counted, so a short interval may show one tick too many.
                thread.busy_cpus = share(late, before.threads.get(&thread.tid)).map(|busy| busy.min(1.0));
            }
        }
    }
}
