//! The families of metrics.

use super::{
    exposition::{Exposition, Family, Labels},
    histogram, node_metrics,
    published::{Published, SeriesUnit},
    totals::{CpuTotals, MODES, TaskTotals},
};
use manycore_linux::counters::ticks_per_second;

/// Distances of migrations, in the order of [`Migration`](crate::Migration).
const DISTANCES: [&str; 4] = ["within_cluster", "across_cluster", "across_llc", "across_node"];

/// Resources that pressure is known of, in the order of [`GroupUse::pressure`](crate::GroupUse::pressure).
const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

/// Returns all metrics in the `OpenMetrics` format.
pub(super) fn text(published: &Published) -> String {
    let mut families = unit_counters(published);
    families.extend(unit_gauges(published));
    families.extend(machine(published));
    families.push(findings(published));
    families.extend(node_metrics::families(published));
    families.extend(named_counters(published));
    families.extend(named_gauges(published));
    let histograms = published.totals.latency.as_ref().map(histogram::families).unwrap_or_default();
    Exposition { families, histograms }.text()
}

/// Returns `labels` with one more.
pub(super) fn and(labels: &Labels, name: &'static str, value: impl Into<String>) -> Labels {
    labels.iter().cloned().chain([(name, value.into())]).collect()
}

fn unit_counters(published: &Published) -> Vec<Family> {
    let mut cpu = Family::counter("manycore_cpu_seconds", "CPU time by mode.");
    let mut wait =
        Family::counter("manycore_run_delay_seconds", "Time that tasks waited for a CPU, by their last CPU.");
    let mut switches = Family::counter(
        "manycore_task_switches",
        "Context switches of tasks, because they blocked or were displaced, by their last CPU.",
    );
    let mut migrations = Family::counter(
        "manycore_migrations",
        "Migrations to a CPU of the unit, by distance. With counted=at_least, those that two samples show.",
    );
    let mut interrupts = Family::counter("manycore_interrupts", "Interrupts and softirqs that were handled.");
    for unit in &published.units {
        let (totals, labels) = (sum(published, unit), unit.labels());
        for (mode, ticks) in MODES.iter().zip(totals.ticks) {
            cpu.push(and(&labels, "mode", *mode), Some(ticks as f64 / ticks_per_second() as f64));
        }
        push_tasks(
            &totals.tasks,
            published.totals.has_exact_migrations(),
            &labels,
            [&mut wait, &mut switches, &mut migrations],
        );
        interrupts.push(and(&labels, "kind", "interrupt"), totals.interrupts);
        interrupts.push(and(&labels, "kind", "softirq"), totals.softirqs);
    }
    vec![cpu, wait, switches, migrations, interrupts]
}

fn sum(published: &Published, unit: &SeriesUnit) -> CpuTotals {
    match &unit.cpus {
        Some(cpus) => published.totals.sum(cpus.iter()),
        None => published.totals.machine(),
    }
}

/// Adds what tasks did. `is_exact`: migrations are counted in the kernel.
fn push_tasks(
    tasks: &TaskTotals,
    is_exact: bool,
    labels: &Labels,
    [wait, switches, migrations]: [&mut Family; 3],
) {
    wait.push(labels.clone(), tasks.wait);
    switches.push(and(labels, "kind", "voluntary"), tasks.voluntary);
    switches.push(and(labels, "kind", "involuntary"), tasks.involuntary);
    // A unit without tasks has exact counts, too: of nothing.
    let (counted, counts) = if is_exact {
        ("exact", tasks.exact_migrations.unwrap_or_default())
    } else {
        ("at_least", tasks.seen_migrations)
    };
    for (distance, count) in DISTANCES.iter().zip(counts) {
        let labels = and(&and(labels, "distance", *distance), "counted", counted);
        migrations.push(labels, Some(count));
    }
}

fn unit_gauges(published: &Published) -> Vec<Family> {
    let mut cpus = Family::gauge("manycore_cpus", "Online CPUs.");
    let mut runnable = Family::gauge("manycore_runnable_tasks", "Tasks that run or wait for a CPU.");
    let mut clock = Family::gauge("manycore_frequency_hertz", "Mean of the CPUs' frequencies.");
    let mut heat = Family::gauge("manycore_temperature_celsius", "Highest temperature.");
    for unit in &published.units {
        let labels = unit.labels();
        let states: Vec<_> = published.states(unit).collect();
        cpus.push(labels.clone(), Some(states.len() as f64));
        runnable.push(labels.clone(), Some(states.iter().map(|one| one.runnable).sum::<usize>() as f64));
        let clocks: Vec<u64> = states.iter().filter_map(|one| one.khz).collect();
        let mean = clocks.iter().sum::<u64>() as f64 * 1e3 / clocks.len() as f64;
        clock.push(labels.clone(), (!clocks.is_empty()).then_some(mean));
        let hottest = states.iter().filter_map(|one| one.millidegrees).max();
        heat.push(labels, hottest.map(|one| f64::from(one) / 1e3));
    }
    vec![cpus, runnable, clock, heat]
}

fn machine(published: &Published) -> Vec<Family> {
    let (totals, system) = (&published.totals, &published.totals.system);
    let count = |value: Option<u64>| value.map(|value| value as f64);
    let kib = |value: Option<u64>| value.map(|value| value as f64 * 1024.0);
    let latency = totals.latency.as_ref();
    let mut pressure = Family::counter(
        "manycore_pressure_seconds",
        "Time in which some task of the machine waited for the resource (PSI some).",
    );
    let mut share = Family::gauge(
        "manycore_pressure_ratio",
        "Share of the last interval in which some task of the machine waited for the resource.",
    );
    push_pressure(&mut pressure, &Vec::new(), totals.pressure);
    push_pressure(&mut share, &Vec::new(), published.pressure);
    vec![
        Family::counter(
            "manycore_context_switches",
            "Context switches of the machine, counted by the kernel.",
        )
        .only(count(system.switches)),
        Family::counter("manycore_tasks_created", "Tasks created, threads included.")
            .only(count(system.created)),
        Family::counter(
            "manycore_throttled_seconds",
            "Time in which control groups were throttled by CPU quotas.",
        )
        .only(totals.throttled),
        Family::counter(
            "manycore_cluster_conflict_seconds",
            "Time in which two tasks ran on one cluster while another was idle (BPF).",
        )
        .only(latency.map(|latency| latency.conflict_ns as f64 / 1e9)),
        Family::gauge("manycore_blocked_tasks", "Tasks that wait for a disk.").only(count(system.blocked)),
        Family::gauge("manycore_memory_bytes", "Memory.").only(kib(system.memory_kib)),
        Family::gauge("manycore_memory_available_bytes", "Memory that programs can get without swapping.")
            .only(kib(system.available_kib)),
        Family::gauge(
            "manycore_sample_timestamp_seconds",
            "When the last sample was taken, since 1970 (UTC).",
        )
        .only(Some(published.unix_ms as f64 / 1e3)),
        Family::gauge("manycore_sample_interval_seconds", "Length of the last interval.")
            .only(Some(published.seconds)),
        pressure,
        share,
    ]
}

fn findings(published: &Published) -> Family {
    let mut family =
        Family::gauge("manycore_findings", "Problems that hold now, by kind. The page shows their text.");
    for (kind, count) in published.findings {
        family.push(vec![("kind", kind.name().to_owned())], Some(count as f64));
    }
    family
}

fn push_pressure(family: &mut Family, labels: &Labels, values: Option<[f64; 3]>) {
    for (resource, value) in RESOURCES.iter().zip(values.into_iter().flatten()) {
        family.push(and(labels, "resource", *resource), Some(value));
    }
}

fn named_counters(published: &Published) -> Vec<Family> {
    let mut cpu =
        Family::counter("manycore_named_cpu_seconds", "CPU time of its processes or control group.");
    let mut wait =
        Family::counter("manycore_named_run_delay_seconds", "Time that its tasks waited for a CPU.");
    let mut switches = Family::counter("manycore_named_task_switches", "Context switches of its tasks.");
    let mut migrations = Family::counter(
        "manycore_named_migrations",
        "Migrations of its tasks by distance. With counted=at_least, those that two samples show.",
    );
    let mut throttled = Family::counter(
        "manycore_named_throttled_seconds",
        "Time in which its control group, or one below, was throttled by a CPU quota.",
    );
    let mut pressure = Family::counter(
        "manycore_named_pressure_seconds",
        "Time in which some task of its control group waited for the resource (PSI some).",
    );
    for (name, totals) in &published.totals.named {
        let labels = vec![("name", name.clone())];
        cpu.push(labels.clone(), Some(totals.run));
        push_tasks(
            &totals.tasks,
            published.totals.has_exact_migrations(),
            &labels,
            [&mut wait, &mut switches, &mut migrations],
        );
        throttled.push(labels.clone(), totals.throttled);
        push_pressure(&mut pressure, &labels, totals.pressure);
    }
    vec![cpu, wait, switches, migrations, throttled, pressure]
}

fn named_gauges(published: &Published) -> Vec<Family> {
    let mut processes = Family::gauge("manycore_named_processes", "Its processes.");
    let mut threads = Family::gauge("manycore_named_threads", "Its threads.");
    let mut runnable =
        Family::gauge("manycore_named_runnable_tasks", "Its tasks that run or wait for a CPU.");
    let mut memory =
        Family::gauge("manycore_named_resident_bytes", "Sum of the resident sets of its processes.");
    let mut nodes = Family::gauge(
        "manycore_named_node_memory_bytes",
        "Resident memory by node; absent unless it is known of all of its processes.",
    );
    let mut quota = Family::gauge("manycore_named_quota_cpus", "CPU quota of its control group, in CPUs.");
    let mut share = Family::gauge(
        "manycore_named_pressure_ratio",
        "Share of the last interval in which some task of its control group waited for the resource.",
    );
    for (name, state) in &published.named {
        let labels = vec![("name", name.clone())];
        processes.push(labels.clone(), Some(state.processes as f64));
        threads.push(labels.clone(), Some(state.threads as f64));
        runnable.push(labels.clone(), Some(state.runnable as f64));
        memory.push(labels.clone(), Some(state.resident_kib as f64 * 1024.0));
        for (node, kib) in state.node_kib.iter().flatten() {
            nodes.push(and(&labels, "node", node.to_string()), Some(*kib as f64 * 1024.0));
        }
        quota.push(labels.clone(), state.quota_milli.map(|milli| milli as f64 / 1e3));
        push_pressure(&mut share, &labels, state.pressure);
    }
    vec![processes, threads, runnable, memory, nodes, quota, share]
}

#[cfg(test)]
mod tests;
