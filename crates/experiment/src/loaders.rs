//! Processes that load memory. Each is pinned to one CPU and has its own arrays on a chosen node.
//!
//! They are processes, so that they can be put into control groups: [`Live::worker_ids`] returns their ids.
//! They stay alive through all treatments.
//!
//! [`Live::worker_ids`]: crate::live::Live::worker_ids

use crate::error::Result;
use crate::{
    crew::Crew,
    live::{Order, Trial},
};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::{Kind, stream::Task};

/// Starts a process for each of `cpus`, and returns them with the trial in which all of them do `task`. The
/// work of a sample is in bytes, counted as STREAM does; for [`manycore_workload::stream::Kernel::Chase`] it
/// is in loads.
///
/// Getting ready takes as long as it takes to touch the arrays: [`crate::live::Live::get_ready`] comes first. Other trials
/// may leave processes out, or give them another task; one with another size or node costs the same again.
///
/// # Errors
/// As [`Crew::hire`].
pub fn hire(cpus: &[CpuId], task: Task) -> Result<(Crew, Trial)> {
    let order = |(worker, &cpu): (usize, &CpuId)| Order {
        worker,
        cpus: CpuSet::single(cpu),
        parameter: task.parameter(),
        ticks: 0,
        watch: None,
    };
    let orders = cpus.iter().enumerate().map(order).collect();
    let trial = Trial { orders, servers: Vec::new(), unit_per_tick: task.work.per_tick() as f64 };
    Ok((Crew::hire(Kind::Stream, 0, cpus.len())?, trial))
}
