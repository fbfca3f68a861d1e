//! Rejects light processes with values that cannot have been measured.

use super::{MOST_COUNTED, MOST_WORKERS};
use crate::{
    histogram::BUCKETS,
    spawn::{Io, Memory, Run, Spawning, Spin},
};

/// Shares above this are damaged. Ticks are whole numbers, so a short interval may count one more than it
/// contains.
const MOST_SHARE: f32 = 1.5;

/// Maximum number of cells in a table of shares. Larger tables would only consume memory.
const MOST_CELLS: usize = 1 << 26;

pub(super) fn check(spawning: &Spawning) -> Result<(), String> {
    let schedulers = &spawning.schedulers;
    let count = schedulers.count.unwrap_or(0).max(schedulers.cpus.len());
    if count > MOST_WORKERS {
        return Err(format!("{count} schedulers or CPUs"));
    }
    if schedulers.quota_cpus.is_some_and(|quota| !quota.is_finite() || quota <= 0.0) {
        return Err(format!("quota_cpus is {:?}", schedulers.quota_cpus));
    }
    if spawning.memory_bytes > MOST_COUNTED {
        return Err(format!("memory_bytes is {}", spawning.memory_bytes));
    }
    spawning
        .runs
        .iter()
        .enumerate()
        .try_for_each(|(index, run)| check_run(run).map_err(|what| format!("run {index}: {what}")))
}

fn check_run(run: &Run) -> Result<(), String> {
    let seconds = [
        ("start_seconds", Some(run.start_seconds)),
        ("own_start_seconds", run.own_start_seconds),
        ("end_seconds", run.end_seconds),
    ];
    for (name, value) in seconds {
        if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
            return Err(format!("{name} is {value:?}"));
        }
    }
    let counts = [("asked", run.asked), ("alive", run.alive)];
    let limit = [("memory_limit_bytes", run.memory_limit_bytes.unwrap_or(0))];
    let memory = figures(&run.before).into_iter().chain(figures(&run.held));
    let largest = counts.into_iter().chain(limit).chain(memory).max_by_key(|figure| figure.1);
    if let Some((name, count)) = largest.filter(|figure| figure.1 > MOST_COUNTED) {
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
        ("own_bytes", memory.own_bytes.unwrap_or(0)),
        ("group_bytes", memory.group_bytes.unwrap_or(0)),
    ]
}

fn check_spin(spin: &Spin) -> Result<(), String> {
    if !spin.interval_seconds.is_finite() || spin.interval_seconds <= 0.0 {
        return Err(format!("interval_seconds is {}", spin.interval_seconds));
    }
    let (cpus, intervals) = (spin.cpus.len(), spin.busy.len());
    if cpus > MOST_WORKERS || cpus.saturating_mul(intervals) > MOST_CELLS {
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
    if spin.schedulers.len() > MOST_WORKERS {
        return Err(format!("{} schedulers", spin.schedulers.len()));
    }
    if let Some(queued) = spin.queued.iter().find(|&&queued| queued > MOST_COUNTED) {
        return Err(format!("queued is {queued}"));
    }
    let mut shares = spin.busy.iter().flatten().chain(&spin.stolen).chain(&spin.schedulers);
    match shares.find(|share| !(0.0..=MOST_SHARE).contains(*share)) {
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
        Some(counted) if counted.max(io.operations) <= MOST_COUNTED => Ok(()),
        _ => Err("io: more rounds were counted than are possible".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Record,
        spawn::{Run, Work},
        synthetic::World,
    };

    fn broken(work: Work, change: impl FnOnce(&mut Run)) -> String {
        let mut record: Record = World::guest().spawn(work);
        record.check().unwrap();
        change(&mut record.spawnings[1].runs[0]);
        record.check().unwrap_err().to_string()
    }

    #[test]
    fn light_processes_that_cannot_have_been_measured_are_named() {
        let spin = |change: fn(&mut crate::spawn::Spin)| {
            broken(Work::Spin, |run| change(run.spin.as_mut().unwrap()))
        };
        let io = |change: fn(&mut crate::spawn::Io)| broken(Work::Io, |run| change(run.io.as_mut().unwrap()));
        for (message, expected) in [
            (broken(Work::Idle, |run| run.start_seconds = f64::NAN), "start_seconds is Some(NaN)"),
            (broken(Work::Idle, |run| run.end_seconds = Some(-1.0)), "end_seconds is Some(-1.0)"),
            (broken(Work::Idle, |run| run.alive = u64::MAX), "alive is 18446744073709551615"),
            (
                broken(Work::Idle, |run| run.held.pss_bytes = Some(1 << 60)),
                "pss_bytes is 1152921504606846976",
            ),
            (spin(|spin| spin.interval_seconds = 0.0), "interval_seconds is 0"),
            (spin(|spin| spin.busy[2].push(0.0)), "busy has 3 shares for 2 CPUs"),
            (spin(|spin| spin.running.truncate(1)), "running has 1 entries for 20 intervals"),
            (spin(|spin| spin.queued.resize(21, 1)), "queued has 21 entries for 20 intervals"),
            (spin(|spin| spin.busy[0][1] = f32::NAN), "a share of CPU time is NaN"),
            (spin(|spin| spin.stolen[0] = -0.5), "a share of CPU time is -0.5"),
            (io(|io| io.latency[0].0 = u32::MAX), "io: latency bucket 4294967295 of 2240"),
            (io(|io| io.operations = u64::MAX), "io: more rounds were counted than are possible"),
            (io(|io| io.seconds = f64::INFINITY), "io: seconds is inf"),
        ] {
            assert_eq!(message, format!("light processes of go: run 0: {expected}"));
        }
    }

    #[test]
    fn runtimes_that_cannot_be_are_named() {
        let mut record = World::guest().spawn(Work::Idle);
        record.spawnings[0].schedulers.quota_cpus = Some(f64::NAN);
        assert_eq!(
            record.check().unwrap_err().to_string(),
            "light processes of beam: quota_cpus is Some(NaN)"
        );
        record.spawnings[0].schedulers.quota_cpus = None;
        record.spawnings[0].schedulers.count = Some(1 << 30);
        assert!(record.check().unwrap_err().to_string().ends_with("schedulers or CPUs"));
    }
}
