//! Tables of limits: how many fit, the runs up to the limit, the limits in force, and schedulers compared
//! with CPUs.

use crate::sections::spawning::{Table, how_it_ended};
use manycore_analysis::LightProcesses;
use manycore_experiment::spawning::capacity::{Capacity, LowestLimit};
use manycore_render::{
    figure::{ABSENT, grouped, percent},
    table::Align,
};
use manycore_text::units::{count, decimal};

pub(super) fn tables(all: &[LightProcesses]) -> Vec<Table> {
    vec![capacities(all), reached(all), limits(all), schedulers(all)]
}

fn evaluated(all: &[LightProcesses]) -> impl Iterator<Item = (&LightProcesses, &Capacity)> {
    all.iter().filter_map(|light| Some((light, light.capacity.as_ref()?)))
}

fn capacities(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "How many fit: (memory - fixed) / bytes each, and the lowest limit",
        ("runtime", Align::Left),
        &["fixed", "bytes each", "spread", "memory", "it holds", "limit", "most"],
    );
    table.rows = evaluated(all)
        .map(|(light, capacity)| {
            let line = &capacity.line;
            vec![
                light.name.clone(),
                decimal(line.fixed_bytes),
                grouped(line.bytes_each),
                line.bytes_each_range.map_or_else(
                    || "unknown".to_owned(),
                    |(low, high)| format!("{} to {}", grouped(low), grouped(high)),
                ),
                decimal(light.memory_bytes as f64),
                count(capacity.by_memory),
                match &capacity.lowest_limit {
                    LowestLimit::Memory => "memory".to_owned(),
                    LowestLimit::Limit(limit) => limit.name.clone(),
                },
                count(capacity.count),
            ]
        })
        .collect();
    if evaluated(all).any(|(_, capacity)| capacity.line.bytes_each_range.is_none()) {
        table.notes.push(
            "Spread: the slopes between adjacent counts. Three counts are needed to see how straight the line is; \
             one or two are not enough."
                .to_owned(),
        );
    }
    table.notes.extend(evaluated(all).map(|(light, capacity)| {
        format!(
            "{}: by {}; memory is the {}.",
            light.name,
            capacity.line.measure.words(),
            light.memory_source.trim_start_matches("the ")
        )
    }));
    table
}

fn reached(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Starting until the limit",
        ("runtime", Align::Left),
        &["memory", "predicted", "alive", "alive of predicted"],
    );
    table.head.push(("ended".to_owned(), Align::Left));
    let runs =
        evaluated(all).flat_map(|(light, capacity)| capacity.tests.iter().map(move |run| (light, run)));
    table.rows = runs
        .map(|(light, run)| {
            vec![
                light.name.clone(),
                decimal(run.memory_bytes as f64),
                count(run.predicted),
                count(run.alive),
                percent(run.ratio),
                how_it_ended(&run.ending),
            ]
        })
        .collect();
    table
}

fn limits(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Limits below which counts must stay, lowest first",
        ("runtime", Align::Left),
        &["limit", "allows"],
    );
    table.head[1].1 = Align::Left;
    table.head.push(("how to raise it".to_owned(), Align::Left));
    let limits = all.iter().flat_map(|light| light.limits.iter().map(move |limit| (light, limit)));
    // The source goes into a note: the table is too narrow for a path beside the command, which must stay
    // copyable.
    for (light, limit) in limits {
        table.rows.push(vec![
            light.name.clone(),
            limit.name.clone(),
            count(limit.max_count),
            limit.raise_command.clone(),
        ]);
        let source = format!("{}: {}", limit.name, limit.source);
        if !table.notes.contains(&source) {
            table.notes.push(source);
        }
    }
    table
}

fn schedulers(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Schedulers and CPUs",
        ("runtime", Align::Left),
        &["schedulers", "CPUs", "quota", "can run", "binding"],
    );
    table.head.extend(["set by", "to correct it"].map(|head| (head.to_owned(), Align::Left)));
    let absent = || ABSENT.to_owned();
    table.rows = all
        .iter()
        .filter_map(|light| {
            let schedulers = &light.schedulers;
            let wrong = light.mismatch.as_ref();
            let has = schedulers.count?;
            Some(vec![
                light.name.clone(),
                has.to_string(),
                schedulers.cpus.len().to_string(),
                schedulers.quota_cpus.map_or_else(absent, |quota| format!("{quota:.2}")),
                wrong.map_or(has, |wrong| wrong.fitting).to_string(),
                schedulers.binding.clone().unwrap_or_else(absent),
                if schedulers.option.is_empty() { absent() } else { schedulers.option.clone() },
                wrong.map_or_else(absent, |wrong| wrong.fix.clone()),
            ])
        })
        .collect();
    table
}
