//! The placement trace for reading: where the tasks of a placed command ran.

use manycore_placement::{MIN_COVERAGE, PlacementTrace, TaskTrace};
use manycore_render::{
    document::Document,
    table::{Align, Table},
    terminal::Mark,
};
use manycore_text::units;
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Maximum number of tasks that are listed one by one.
const MAX_TASKS: usize = 12;

/// Returns a summary and a table of the tasks, or of the workers if there are many tasks.
pub fn render(trace: &PlacementTrace) -> Document {
    let place = trace.plan.as_ref().map_or("none", |plan| plan.policy.as_str());
    let mut text = format!(
        "manycore: {}, placement {place}, {:.2} s",
        units::counted(trace.tasks.len(), "task"),
        trace.seconds
    );
    if let (Some(median), Some(most), Some(longest)) =
        (trace.pin_delay_ns(0.5), trace.pin_delay_ns(0.99), trace.pin_delay_ns(1.0))
    {
        let delays = [median, most, longest].map(|ns| format!("{:.2}", ns as f64 / 1e6));
        let [median, most, longest] = delays;
        text += &format!(
            ", pinned {median} ms after creation (median of {}; 99 %: {most}, maximum {longest})",
            trace.pin_delays_ns.len()
        );
    }
    let mut document = Document::new();
    document.paragraph(text);
    document.paragraph(format!("held by {}", trace.held_by));
    if !trace.tasks.is_empty() {
        document.table(table(trace));
    }
    for note in &trace.notes {
        document.paragraph(note);
    }
    let (mark, verdict) = verdict(trace);
    document.marked(mark, verdict);
    document
}

fn verdict(trace: &PlacementTrace) -> (Mark, String) {
    let seen = trace
        .coverage()
        .map_or(String::new(), |share| format!(" ({} of all CPU time was observed)", units::percent(share)));
    match (trace.share_in_place(), trace.held_as_observed()) {
        (None, _) => (Mark::Warning, "too short to observe where the tasks ran".to_owned()),
        (_, None) => {
            (Mark::Warning, format!("inconclusive: too little was observed to say that the plan held{seen}"))
        }
        (_, Some(true)) if trace.held_with_coverage(MIN_COVERAGE).is_none() => {
            (Mark::Good, format!("the observed part kept to the plan: all CPU time on planned CPUs{seen}"))
        }
        (_, Some(true)) => (Mark::Good, format!("the plan held: all CPU time on planned CPUs{seen}")),
        (Some(share), Some(false)) => (
            Mark::Bad,
            format!("the plan did not hold: {} of the CPU time on planned CPUs{seen}", units::percent(share)),
        ),
    }
}

fn table(trace: &PlacementTrace) -> Table {
    let by_task = trace.tasks.len() <= MAX_TASKS;
    let first = if by_task { ("task", Align::Left) } else { ("worker", Align::Left) };
    let columns = ["place", "tasks", "CPU time", "ran on", "outside", "migrations", "wake-ups off-node"];
    let mut table = Table::numeric("", first, &columns);
    let groups: Vec<(String, Vec<&TaskTrace>)> = if by_task {
        trace.tasks.iter().map(|task| (format!("{} {}", task.tid, task.name), vec![task])).collect()
    } else {
        let mut workers: BTreeMap<Option<usize>, Vec<&TaskTrace>> = BTreeMap::new();
        trace.tasks.iter().for_each(|task| workers.entry(task.worker).or_default().push(task));
        workers
            .into_iter()
            .map(|(worker, tasks)| {
                (worker.map_or("own affinity".to_owned(), |worker| worker.to_string()), tasks)
            })
            .collect()
    };
    table.rows = groups.into_iter().map(|(name, tasks)| row(trace, name, &tasks)).collect();
    table
}

fn row(trace: &PlacementTrace, name: String, tasks: &[&TaskTrace]) -> Vec<String> {
    let plan = trace.plan.as_ref();
    let worker = tasks.first().and_then(|task| task.worker);
    let place = worker.and_then(|worker| Some(plan?.workers.get(worker)?.cpus.brief()));
    let sum = |value: fn(&TaskTrace) -> u64| tasks.iter().map(|task| value(task)).sum::<u64>();
    let total = |value: fn(&TaskTrace) -> Option<u64>| {
        let known: Vec<u64> = tasks.iter().filter_map(|task| value(task)).collect();
        if known.is_empty() { "-".to_owned() } else { known.iter().sum::<u64>().to_string() }
    };
    let outside: u64 = tasks.iter().map(|task| trace.outside_ns(task)).sum();
    let (all, before) = (sum(|task| task.cpu_ns), sum(|task| task.unpinned_ns));
    vec![
        name,
        place.unwrap_or_else(|| "-".to_owned()),
        tasks.len().to_string(),
        format!("{:.3} s", all as f64 / 1e9),
        ran_on(tasks),
        match all.saturating_sub(before) {
            0 => "-".to_owned(),
            placed => units::percent(outside as f64 / placed as f64),
        },
        total(|task| task.migrations),
        total(|task| task.wakeups.map(|_| task.wakeups_off_node)),
    ]
}

/// Returns the CPU with most of the CPU time, its share, and the other CPUs.
fn ran_on(tasks: &[&TaskTrace]) -> String {
    let mut on: BTreeMap<u32, u64> = BTreeMap::new();
    for (cpu, ns) in tasks.iter().flat_map(|task| &task.cpu_ns_by_cpu) {
        *on.entry(*cpu).or_default() += ns;
    }
    let all: u64 = on.values().sum();
    let Some((&most, &ns)) = on.iter().max_by_key(|(_, ns)| **ns) else { return "-".to_owned() };
    let others: CpuSet = on.keys().copied().filter(|cpu| *cpu != most).collect();
    let share = format!("{most} ({})", units::percent(ns as f64 / all as f64));
    if others.is_empty() { most.to_string() } else { format!("{share}, {}", others.brief()) }
}
