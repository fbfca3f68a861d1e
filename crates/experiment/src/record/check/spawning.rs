//! Rejects light processes with values that cannot have been measured.

use super::{MAX_COUNTER, MAX_WORKERS};
use crate::spawning::{Io, Memory, RuntimeRuns, SpawnRun, Spin};
use manycore_stats::histogram::BUCKETS;

/// Shares above this are damaged. Ticks are whole numbers, so a short interval may count one more than it
/// contains.
const MAX_SHARE: f32 = 1.5;

/// Maximum number of cells in a table of shares. Larger tables would only consume memory.
const MAX_CELLS: usize = 1 << 26;

pub(super) fn check(spawning: &RuntimeRuns) -> Result<(), String> {
    let schedulers = &spawning.schedulers;
    let count = schedulers.count.unwrap_or(0).max(schedulers.cpus.len());
    if count > MAX_WORKERS {
        return Err(format!("{count} schedulers or CPUs"));
    }
    if schedulers.quota_cpus.is_some_and(|quota| !quota.is_finite() || quota <= 0.0) {
        return Err(format!("quota_cpus is {:?}", schedulers.quota_cpus));
    }
    if spawning.memory_bytes > MAX_COUNTER {
        return Err(format!("memory_bytes is {}", spawning.memory_bytes));
    }
    spawning
        .runs
        .iter()
        .enumerate()
        .try_for_each(|(index, run)| check_run(run).map_err(|what| format!("run {index}: {what}")))
}

fn check_run(run: &SpawnRun) -> Result<(), String> {
    let seconds = [
        ("start_seconds", Some(run.start_seconds)),
        ("reported_start_seconds", run.reported_start_seconds),
        ("end_seconds", run.end_seconds),
    ];
    for (name, value) in seconds {
        if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
            return Err(format!("{name} is {value:?}"));
        }
    }
    let counts = [("requested", run.requested), ("alive", run.alive)];
    let limit = [("memory_limit_bytes", run.memory_limit_bytes.unwrap_or(0))];
    let memory = figures(&run.before).into_iter().chain(figures(&run.held));
    let largest = counts.into_iter().chain(limit).chain(memory).max_by_key(|figure| figure.1);
    if let Some((name, count)) = largest.filter(|figure| figure.1 > MAX_COUNTER) {
        return Err(format!("{name} is {count}"));
    }
    run.spin.as_ref().map_or(Ok(()), check_spin)?;
    run.io.as_ref().map_or(Ok(()), check_io)
}

fn figures(memory: &Memory) -> [(&'static str, u64); 5] {
    [
        ("pss_bytes", memory.pss_bytes.unwrap_or(0)),
        ("rss_bytes", memory.rss_bytes),
        ("kernel_bytes", memory.kernel_bytes.unwrap_or(0)),
        ("reported_bytes", memory.reported_bytes.unwrap_or(0)),
        ("cgroup_bytes", memory.cgroup_bytes.unwrap_or(0)),
    ]
}

fn check_spin(spin: &Spin) -> Result<(), String> {
    if !spin.interval_seconds.is_finite() || spin.interval_seconds <= 0.0 {
        return Err(format!("interval_seconds is {}", spin.interval_seconds));
    }
    let (cpus, intervals) = (spin.cpus.len(), spin.busy.len());
    if cpus > MAX_WORKERS || cpus.saturating_mul(intervals) > MAX_CELLS {
        return Err(format!("{intervals} intervals of {cpus} CPUs"));
    }
    if let Some(row) = spin.busy.iter().find(|row| row.len() != cpus) {
        return Err(format!("busy has {} shares for {cpus} CPUs", row.len()));
    }
    let lengths = [
        ("stolen", spin.stolen.len()),
        ("running", spin.running.len()),
        // The runtime may not report it, or may report it late while all CPUs are busy.
        ("queued", spin.queued.len().max(intervals)),
    ];
    if let Some((name, length)) = lengths.into_iter().find(|&(_, length)| length != intervals) {
        return Err(format!("{name} has {length} entries for {intervals} intervals"));
    }
    if spin.schedulers.len() > MAX_WORKERS {
        return Err(format!("{} schedulers", spin.schedulers.len()));
    }
    if let Some(queued) = spin.queued.iter().find(|&&queued| queued > MAX_COUNTER) {
        return Err(format!("queued is {queued}"));
    }
    let mut shares = spin.busy.iter().flatten().chain(&spin.stolen).chain(&spin.schedulers);
    match shares.find(|share| !(0.0..=MAX_SHARE).contains(*share)) {
        Some(share) => Err(format!("a share of CPU time is {share}")),
        None => Ok(()),
    }
}

fn check_io(io: &Io) -> Result<(), String> {
    if !io.seconds.is_finite() || io.seconds < 0.0 {
        return Err(format!("io: seconds is {}", io.seconds));
    }
    if let Some((bucket, _)) = io.latency.iter().find(|(bucket, _)| *bucket as usize >= BUCKETS) {
        return Err(format!("io: latency bucket {bucket} of {BUCKETS}"));
    }
    let counted = io.latency.iter().try_fold(0u64, |sum, &(_, count)| sum.checked_add(count));
    match counted {
        Some(counted) if counted.max(io.operations) <= MAX_COUNTER => Ok(()),
        _ => Err("io: more rounds were counted than are possible".to_owned()),
    }
}
