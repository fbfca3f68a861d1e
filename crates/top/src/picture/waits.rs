//! Waits for a CPU over several intervals.

use super::Picture;
use manycore_topology::CpuId;
use std::collections::BTreeMap;

/// Waits for a CPU in intervals that follow each other. The waits of tasks that ended before the last sample are not in a picture of all
/// the time, but in those of its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitSums {
    /// Seconds by the last CPU of the tasks.
    by_cpu: BTreeMap<CpuId, f64>,
    /// Seconds by process and its start time.
    by_process: BTreeMap<(u32, u64), f64>,
    seconds: f64,
}

impl WaitSums {
    /// Adds an interval.
    pub fn add(&mut self, picture: &Picture) {
        self.seconds += picture.seconds;
        for one in &picture.cpus {
            if let Some(wait) = one.wait.filter(|&wait| wait > 0.0) {
                *self.by_cpu.entry(one.cpu).or_default() += wait * picture.seconds;
            }
        }
        for (process, wait) in waits_of_processes(picture).filter(|(_, wait)| *wait > 0.0) {
            *self.by_process.entry(process).or_default() += wait * picture.seconds;
        }
    }

    /// Enters the means of these waits into a picture of all the time: of its CPUs, of the units of these, and of its processes.
    pub fn enter(&self, picture: &mut Picture) {
        if self.seconds <= 0.0 {
            return;
        }
        let of = |cpu: CpuId| self.by_cpu.get(&cpu).map_or(0.0, |seconds| seconds / self.seconds);
        for one in &mut picture.cpus {
            one.wait = one.wait.map(|_| of(one.cpu));
        }
        for unit in &mut picture.units {
            unit.task_wait = unit.cpus.iter().map(of).sum();
        }
        for one in &mut picture.processes {
            let seconds = self.by_process.get(&(one.pid, one.start)).unwrap_or(&0.0);
            one.wait = Some(seconds / self.seconds);
        }
    }
}

/// Returns the waits of the threads of each process.
fn waits_of_processes(picture: &Picture) -> impl Iterator<Item = ((u32, u64), f64)> {
    picture.tasks.chunk_by(|a, b| a.id.pid == b.id.pid).filter_map(|tasks| {
        let at = picture.processes.binary_search_by_key(&tasks[0].id.pid, |process| process.pid).ok()?;
        let process = &picture.processes[at];
        Some(((process.pid, process.start), tasks.iter().filter_map(|task| task.wait).sum()))
    })
}
