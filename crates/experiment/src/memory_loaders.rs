//! Processes that load memory. Each is pinned to one CPU and has its own arrays on a chosen node.
//!
//! They are processes, so that they can be put into control groups: [`PoolSubject::worker_ids`] returns their ids.
//! They stay alive through all treatments.
//!
//! [`PoolSubject::worker_ids`]: crate::pool_subject::PoolSubject::worker_ids

use crate::{
    error::Result,
    pool_subject::{Trial, WorkerOrder},
    worker_pool::WorkerPool,
};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::{LoadKind, stream::Task};

/// Starts a process for each of `cpus`, and returns them with the trial in which all of them do `task`. The
/// work of a sample is in bytes, counted as STREAM does; for [`manycore_workload::stream::Kernel::Chase`] it
/// is in loads.
///
/// Preparing takes as long as writing the arrays once: call `PoolSubject::prepare` first. Other trials may
/// leave processes out or give them another task. A task with another size or node has to prepare again.
///
/// # Errors
/// As [`WorkerPool::start`].
pub fn start(cpus: &[CpuId], task: Task) -> Result<(WorkerPool, Trial)> {
    let order = |(worker, &cpu): (usize, &CpuId)| WorkerOrder {
        worker,
        cpus: CpuSet::single(cpu),
        parameter: task.parameter(),
        ticks: 0,
        expected_cpu: None,
    };
    let orders = cpus.iter().enumerate().map(order).collect();
    let trial = Trial { orders, servers: Vec::new(), unit_per_tick: task.work.per_tick() as f64 };
    Ok((WorkerPool::start(LoadKind::Stream, 0, cpus.len())?, trial))
}
