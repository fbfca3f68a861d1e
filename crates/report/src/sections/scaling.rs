//! Events, speed-up, event times and the scalability law.

use crate::sections::{NamedEvaluation, Table, by_workers, compare};
use manycore_analysis::{
    Clock, EventTimeSummary, MetricAtWorkers, MetricByWorkers, Scaling, ScalingPoint, UslFit,
};
use manycore_experiment::record::id;
use manycore_render::{
    figure::{
        ABSENT, factor, grouped, interval, number, optional, percent, percent_number, times, with_interval,
    },
    table::Align,
};
use manycore_stats::{median, quantile};

const WORKERS: (&str, Align) = ("workers", Align::Right);

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let evaluation = &named.evaluation;
    let unit = named.record.experiment(id::SCALING).map_or("events", |experiment| experiment.unit.as_str());
    let mut tables = evaluation.scaling.as_ref().map(|scaling| of_scaling(scaling, unit)).unwrap_or_default();
    tables.extend(evaluation.metric_by_workers.as_ref().map(of_levels));
    tables.extend(evaluation.clock.as_ref().map(of_clock));
    tables
}

/// Returns the table of a metric of which less is better: its value, and the value relative to one worker.
fn of_levels(metric: &MetricByWorkers) -> Table {
    let primary = &metric.metric;
    let unit = if primary.unit.is_empty() { String::new() } else { format!(", in {}", primary.unit) };
    let mut table = Table::numeric(
        format!("{}{unit}: less is better", primary.name),
        (&metric.worker_noun, Align::Right),
        &["median", "95 % interval", "relative to 1", "95 % interval", "samples"],
    );
    let row = |level: &MetricAtWorkers| {
        let over = level.relative_to_one.as_ref();
        vec![
            level.workers.to_string(),
            number(level.value.median),
            interval(&level.value, number),
            optional(over.map(|over| over.median), times),
            over.map_or_else(|| ABSENT.to_owned(), |over| interval(over, factor)),
            level.value.n.to_string(),
        ]
    };
    table.rows = metric.points.iter().map(row).collect();
    let note = "This metric does not count work per time. Use the wall time or a rate for speed-ups.";
    table.notes.push(note.to_owned());
    table
}

fn of_scaling(scaling: &Scaling, unit: &str) -> Vec<Table> {
    let timed = scaling.points.iter().any(|point| point.event_times.is_some());
    let event_times = timed.then(|| event_times(scaling));
    [throughput(scaling, unit), speedup(scaling)]
        .into_iter()
        .chain(event_times)
        .chain([busy_shares(scaling)])
        .collect()
}

fn throughput(scaling: &Scaling, unit: &str) -> Table {
    let mut table = points(
        "Throughput",
        scaling,
        &[unit, "seconds", &format!("{unit}/s"), "95 % interval", "fairness (Jain)"],
        |point| {
            vec![
                grouped(point.events),
                format!("{:.2}", point.seconds),
                number(point.rate.median),
                interval(&point.rate, number),
                optional(point.fairness, |index| format!("{index:.4}")),
            ]
        },
    );
    let has_fairness = scaling.points.iter().any(|point| point.fairness.is_some());
    let note = "Fairness is 1 where all workers did the same, 1/n where one did all.";
    table.notes.extend(has_fairness.then(|| note.to_owned()));
    table
}

fn speedup(scaling: &Scaling) -> Table {
    let title = if scaling.is_cpu_bound() {
        "Speed-up over one worker, and efficiency for each CPU in use"
    } else {
        "Speed-up over one worker, and its share of linear"
    };
    let share = if scaling.is_cpu_bound() { "efficiency" } else { "of linear" };
    let mut table =
        points(title, scaling, &["speed-up", "95 % interval", share, "95 % interval", "pairs"], |point| {
            vec![
                times(point.speedup.median),
                interval(&point.speedup, factor),
                percent(point.efficiency.median),
                interval(&point.efficiency, percent_number),
                point.speedup.n.to_string(),
            ]
        });
    table.notes.extend(scaling.points.iter().filter_map(superlinear));
    table.notes.extend(scaling.usl.as_ref().map(law));
    table.notes.extend(demand_note(scaling));
    table.notes.push(speedup_note(scaling));
    table
}

/// Explains the columns of the speed-up.
fn speedup_note(scaling: &Scaling) -> String {
    let share = if scaling.is_cpu_bound() {
        "Efficiency is the speed-up per worker, or per CPU where there are fewer CPUs than workers."
    } else {
        "Of linear is the share of the largest speed-up that is possible."
    };
    format!("Speed-up is the work per second relative to one worker, from pairs of the same round. {share}")
}

fn event_times(scaling: &Scaling) -> Table {
    points("Time of one event, in ms", scaling, &["min", "mean", "p95", "p99", "max"], |point| {
        match point.event_times {
            Some(times) => milliseconds(times).into(),
            None => vec![ABSENT.to_owned(); 5],
        }
    })
}

fn points(
    title: &str,
    scaling: &Scaling,
    columns: &[&str],
    cells: impl Fn(&ScalingPoint) -> Vec<String>,
) -> Table {
    let mut table = Table::numeric(title, WORKERS, columns);
    table.rows = scaling
        .points
        .iter()
        .map(|point| std::iter::once(point.workers.to_string()).chain(cells(point)).collect())
        .collect();
    table
}

fn milliseconds(times: EventTimeSummary) -> [String; 5] {
    [times.min_ms, times.mean_ms, times.p95_ms, times.p99_ms, times.max_ms].map(number)
}

/// Explains what linear means where workers are not CPU-bound.
fn demand_note(scaling: &Scaling) -> Option<String> {
    match scaling.demand {
        _ if scaling.is_cpu_bound() => None,
        Some(demand) => Some(format!(
            "One worker uses a CPU for {} of its time: linear is the number of workers until the CPUs are full.",
            percent(demand)
        )),
        None => Some(
            "The CPU demand of one worker is not in the record: linear is the number of workers.".to_owned(),
        ),
    }
}

fn superlinear(point: &ScalingPoint) -> Option<String> {
    let superlinear = point.superlinear.as_ref()?;
    Some(format!("{} workers: above linear: {}.", point.workers, superlinear.cause()))
}

fn law(fit: &UslFit) -> String {
    let without = fit
        .contention_without_one
        .map(|contention| format!("; without the point of one worker, contention {contention:.5}"))
        .unwrap_or_default();
    format!(
        "Universal Scalability Law: {}, {}{without}.",
        fit.contention_in_words(),
        fit.coherence_in_words()
    )
}

/// Returns how busy the CPUs were, in one line for each number of workers, whatever the size of the
/// machine.
fn busy_shares(scaling: &Scaling) -> Table {
    let columns = ["CPUs", "least busy", "median", "most busy", "busy above 50 %"];
    let table = points("Share of time in which CPUs were busy", scaling, &columns, |point| {
        let shares: Vec<f64> = point.cpu_share.iter().map(|&(_, share)| share).collect();
        vec![
            shares.len().to_string(),
            optional(quantile(&shares, 0.0), percent),
            optional(median(&shares), percent),
            optional(quantile(&shares, 1.0), percent),
            shares.iter().filter(|&&share| share > 0.5).count().to_string(),
        ]
    });
    Table { is_detail: true, ..table }
}

fn of_clock(clock: &Clock) -> Table {
    let mut table = Table::numeric(
        "Clock of the CPUs, in GHz, from chains of dependent additions",
        ("", Align::Left),
        &["GHz", "95 % interval"],
    );
    let gigahertz = |hz: f64| format!("{:.3}", hz / 1e9);
    let medians: Vec<f64> = clock.alone.iter().map(|(_, hz)| hz.median).collect();
    for (name, value) in [
        ("slowest CPU alone", quantile(&medians, 0.0)),
        ("median CPU alone", median(&medians)),
        ("fastest CPU alone", quantile(&medians, 1.0)),
    ] {
        table.rows.push(vec![name.to_owned(), optional(value, gigahertz), String::new()]);
    }
    if let Some(together) = &clock.all_busy {
        table.rows.push(vec![
            "each CPU, all busy".to_owned(),
            gigahertz(together.median),
            interval(together, gigahertz),
        ]);
    }
    if let Some(ratio) = &clock.ratio {
        table.notes.push(format!("All busy relative to alone: {}.", with_interval(ratio, times, factor)));
    }
    table
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let column = |title: &str, cell: fn(&ScalingPoint) -> String| {
        by_workers(title, all, |named| {
            let points = named.evaluation.scaling.iter().flat_map(|scaling| &scaling.points);
            points.map(|point| (point.workers, cell(point))).collect()
        })
    };
    let mut speedup = column("Speed-up over one worker (95 % interval)", |point| {
        let mark = if point.superlinear.as_ref().is_some_and(|s| !s.within_noise) { " !" } else { "" };
        format!("{}{mark}", with_interval(&point.speedup, times, factor))
    });
    let flagged = speedup.rows.iter().flatten().any(|cell| cell.ends_with('!'));
    speedup.notes.extend(flagged.then(|| "! above linear: see the findings of that record.".to_owned()));
    vec![
        column("Events per second (95 % interval)", |point| with_interval(&point.rate, number, number)),
        speedup,
        column("Efficiency for each CPU in use (95 % interval, in %)", |point| {
            with_interval(&point.efficiency, percent, percent_number)
        }),
        column("Mean time of one event, in ms", |point| {
            optional(point.event_times.map(|times| times.mean_ms), number)
        }),
        column("95th percentile of the time of one event, in ms", |point| {
            optional(point.event_times.map(|times| times.p95_ms), number)
        }),
        laws(all),
    ]
}

fn laws(all: &[NamedEvaluation]) -> Table {
    let name = |(_, name): &(u8, &str)| (*name).to_owned();
    compare("Universal Scalability Law", ("", Align::Left), all, name, |named| {
        let fit = named.evaluation.scaling.as_ref().and_then(|scaling| scaling.usl.as_ref());
        fit.map_or_else(Vec::new, |fit| {
            vec![
                ((0, "contention"), format!("{:.5}", fit.law.contention)),
                ((1, "coherence"), format!("{:.2e}", fit.law.coherence)),
            ]
        })
    })
}
