//! CSV rows of light processes: one for each run, for each limit, and for each CPU in each interval.

use crate::{NamedEvaluation, csv::cell};
use manycore_analysis::LightProcesses;
use manycore_experiment::spawning::{Ending, Purpose, RuntimeRuns, SpawnRun, Work, capacity::Capacity};

fn work(work: Work) -> &'static str {
    match work {
        Work::Idle => "idle",
        Work::Spin => "spin",
        Work::Io => "io",
    }
}

fn ending(ending: &Ending) -> &'static str {
    match ending {
        Ending::Clean => "clean",
        Ending::Refused { .. } => "refused",
        Ending::Killed { .. } => "killed",
        Ending::Failed { .. } => "failed",
        Ending::Interrupted => "interrupted",
    }
}

fn whole(value: impl Into<Option<u64>>) -> String {
    value.into().map_or_else(String::new, |value| value.to_string())
}

/// Returns each measurement with its evaluation.
fn both(named: &NamedEvaluation) -> impl Iterator<Item = (&RuntimeRuns, &LightProcesses)> {
    named.record.light_processes.iter().zip(&named.evaluation.light_processes)
}

pub(super) fn runs(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let of_one = |(spawning, light)| {
        spawning_runs(spawning).zip(evaluated(light)).map(|(start, end)| [start, end].concat())
    };
    both(named).flat_map(of_one).collect()
}

fn spawning_runs(spawning: &RuntimeRuns) -> impl Iterator<Item = Vec<String>> {
    let of_run = |run: &SpawnRun| {
        let purpose = match run.purpose {
            Purpose::Count => "count",
            Purpose::Pilot => "pilot",
            Purpose::CapacityTest => "capacity_test",
        };
        let first =
            [spawning.runtime.name(), &spawning.version, work(spawning.work), purpose].map(str::to_owned);
        let counts = [whole(run.requested), whole(run.alive), ending(&run.ending).to_owned()];
        let times = [Some(run.start_seconds), run.reported_start_seconds, run.end_seconds].map(cell);
        let memory = [run.held.pss_bytes, Some(run.held.rss_bytes), run.memory_limit_bytes].map(whole);
        first.into_iter().chain(counts).chain(times).chain(memory).collect()
    };
    spawning.runs.iter().map(of_run)
}

/// Returns the figures computed from each run, beginning with the bytes per light process.
fn evaluated(light: &LightProcesses) -> impl Iterator<Item = Vec<String>> {
    light.runs.iter().map(|run| {
        let each = [run.pss_bytes_each, run.rss_bytes_each, run.kernel_bytes_each, run.reported_bytes_each]
            .map(cell);
        let balance = run.balance.as_ref();
        let spread = [
            balance.and_then(|balance| balance.fairness),
            balance.and_then(|balance| balance.scheduler_fairness),
            balance.and_then(|balance| balance.running),
            balance.and_then(|balance| balance.queued),
            balance.and_then(|balance| balance.steal),
        ];
        let rounds = run.file_rounds.as_ref();
        let files = [
            rounds.map(|rounds| rounds.per_second),
            rounds.and_then(|rounds| rounds.p50_ns),
            rounds.and_then(|rounds| rounds.p99_ns),
        ];
        each.into_iter().chain(spread.map(cell)).chain(files.map(cell)).collect()
    })
}

/// Returns a row for memory, then one for each limit.
pub(super) fn capacities(named: &NamedEvaluation) -> Vec<Vec<String>> {
    both(named).flat_map(|(_, light)| bounds(light)).collect()
}

fn bounds(light: &LightProcesses) -> Vec<Vec<String>> {
    let first = || [light.runtime.name().to_owned(), work(light.work).to_owned()];
    let by_memory = |capacity: &Capacity| {
        let (low, high) = capacity.line.bytes_each_range.unzip();
        let figures = [Some(capacity.line.bytes_each), low, high, Some(capacity.line.fixed_bytes)].map(cell);
        let start = first().into_iter().chain(["memory".to_owned(), whole(capacity.by_memory)]);
        let (memory, source) = (&light.memory_bytes, &light.memory_source);
        start.chain(figures).chain([whole(*memory), source.clone(), String::new()]).collect()
    };
    let limits = light.limits.iter().map(|limit| {
        let start = first().into_iter().chain([limit.name.clone(), whole(limit.max_count)]);
        let none = std::iter::repeat_n(String::new(), 5);
        start.chain(none).chain([limit.source.clone(), limit.raise_command.clone()]).collect()
    });
    light.capacity.iter().map(by_memory).chain(limits).collect()
}

pub(super) fn cpus(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for spawning in &named.record.light_processes {
        for (index, run) in spawning.runs.iter().enumerate() {
            let Some(spin) = &run.spin else { continue };
            for (interval, shares) in spin.busy.iter().enumerate() {
                let second = cell(interval as f64 * spin.interval_seconds);
                rows.extend(spin.cpus.iter().zip(shares).map(|(cpu, &share)| {
                    let first = [spawning.runtime.name(), work(spawning.work)].map(str::to_owned);
                    let place = [index.to_string(), second.clone(), cpu.to_string(), cell(f64::from(share))];
                    first.into_iter().chain(place).collect()
                }));
            }
        }
    }
    rows
}
