//! Renders the placement trace as text: where the tasks of a placed command ran.

use manycore_placement::{Residence, SHOWN, TaskStay};
use manycore_render::table::{Align, Table};
use manycore_text::units;
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Maximum number of tasks that are listed one by one.
const TASKS: usize = 12;

/// Renders a summary and a table of the tasks, or of the workers if there are many tasks.
pub fn render(stay: &Residence) -> String {
    let place = stay.plan.as_ref().map_or("none", |plan| plan.place.as_str());
    let mut text = format!(
        "manycore: {}, placement {place}, {:.2} s",
        units::counted(stay.tasks.len(), "task"),
        stay.seconds
    );
    if let (Some(median), Some(most), Some(longest)) =
        (stay.delay_ns(0.5), stay.delay_ns(0.99), stay.delay_ns(1.0))
    {
        let delays = [median, most, longest].map(|ns| format!("{:.2}", ns as f64 / 1e6));
        let [median, most, longest] = delays;
        text += &format!(
            ", pinned {median} ms after creation (median of {}; 99 %: {most}, maximum {longest})",
            stay.delays_ns.len()
        );
    }
    text += &format!("\nheld by {}\n", stay.hold);
    if !stay.tasks.is_empty() {
        text += &table(stay).text();
    }
    for note in &stay.notes {
        text += &format!("{note}\n");
    }
    text + &verdict(stay)
}

fn verdict(stay: &Residence) -> String {
    let seen = stay
        .coverage()
        .map_or(String::new(), |share| format!(" ({} of all CPU time was observed)", units::percent(share)));
    match (stay.share_in_place(), stay.held()) {
        (None, _) => "too short to observe where the tasks ran\n".to_owned(),
        (_, None) => format!("inconclusive: too little was observed to say that the plan held{seen}\n"),
        (_, Some(true)) if stay.shown(SHOWN).is_none() => {
            format!("the observed part kept to the plan: all CPU time on planned CPUs{seen}\n")
        }
        (_, Some(true)) => format!("the plan held: all CPU time on planned CPUs{seen}\n"),
        (Some(share), Some(false)) => {
            format!(
                "the plan did not hold: {} of the CPU time on planned CPUs{seen}\n",
                units::percent(share)
            )
        }
    }
}

fn table(stay: &Residence) -> Table {
    let by_task = stay.tasks.len() <= TASKS;
    let first = if by_task { ("task", Align::Left) } else { ("worker", Align::Left) };
    let columns = ["place", "tasks", "CPU time", "ran on", "outside", "migrations", "wake-ups off-node"];
    let mut table = Table::figures("", first, &columns);
    let groups: Vec<(String, Vec<&TaskStay>)> = if by_task {
        stay.tasks.iter().map(|task| (format!("{} {}", task.tid, task.name), vec![task])).collect()
    } else {
        let mut workers: BTreeMap<Option<usize>, Vec<&TaskStay>> = BTreeMap::new();
        stay.tasks.iter().for_each(|task| workers.entry(task.worker).or_default().push(task));
        workers
            .into_iter()
            .map(|(worker, tasks)| {
                (worker.map_or("own affinity".to_owned(), |worker| worker.to_string()), tasks)
            })
            .collect()
    };
    table.rows = groups.into_iter().map(|(name, tasks)| row(stay, name, &tasks)).collect();
    table
}

fn row(stay: &Residence, name: String, tasks: &[&TaskStay]) -> Vec<String> {
    let plan = stay.plan.as_ref();
    let worker = tasks.first().and_then(|task| task.worker);
    let place = worker.and_then(|worker| Some(plan?.workers.get(worker)?.cpus.brief()));
    let sum = |value: fn(&TaskStay) -> u64| tasks.iter().map(|task| value(task)).sum::<u64>();
    let total = |value: fn(&TaskStay) -> Option<u64>| {
        let known: Vec<u64> = tasks.iter().filter_map(|task| value(task)).collect();
        if known.is_empty() { "-".to_owned() } else { known.iter().sum::<u64>().to_string() }
    };
    let (all, before) = (sum(|task| task.cpu_ns), sum(|task| task.before_ns));
    vec![
        name,
        place.unwrap_or_else(|| "-".to_owned()),
        tasks.len().to_string(),
        format!("{:.3} s", all as f64 / 1e9),
        ran_on(tasks),
        match all.saturating_sub(before) {
            0 => "-".to_owned(),
            placed => units::percent(sum(|task| task.outside_ns) as f64 / placed as f64),
        },
        total(|task| task.migrations),
        total(|task| task.wakeups.map(|_| task.wakeups_elsewhere)),
    ]
}

/// Returns the CPU with most of the CPU time, its share, and the other CPUs.
fn ran_on(tasks: &[&TaskStay]) -> String {
    let mut on: BTreeMap<u32, u64> = BTreeMap::new();
    for (cpu, ns) in tasks.iter().flat_map(|task| &task.on) {
        *on.entry(*cpu).or_default() += ns;
    }
    let all: u64 = on.values().sum();
    let Some((&most, &ns)) = on.iter().max_by_key(|(_, ns)| **ns) else { return "-".to_owned() };
    let others: CpuSet = on.keys().copied().filter(|cpu| *cpu != most).collect();
    let share = format!("{most} ({})", units::percent(ns as f64 / all as f64));
    if others.is_empty() { most.to_string() } else { format!("{share}, {}", others.brief()) }
}
