//! How many instances fit: the answer of each variant, what was measured at each count, and the resources.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::{Density, InstanceCount, ResourceTrend, VariantDensity};
use manycore_render::{
    figure::{ABSENT, interval, number, optional},
    table::Align,
};
use manycore_stats::largest_count::{LargestCount, Position};
use manycore_text::{
    names::printable,
    units::{bytes, counted},
};

/// The bound of the published measurement.
const PUBLISHED_BOUND: &str = "p99 < +10%";
/// Its answers: containers with redis of 2 CPUs and 8 GB each, on two virtual machines with 320 CPUs together.
const PUBLISHED: [(&str, &str); 3] = [
    ("published: before any tuning", "28"),
    ("published: an AMD host, tuned", "48"),
    ("published: after all steps", "more than 60"),
];

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let Some(density) = &named.evaluation.density else { return Vec::new() };
    let mut tables = vec![answers(density)];
    if density.bound == PUBLISHED_BOUND && named.record.subject.contains("redis") {
        tables.push(beside_published(density, named.record.machine.usable().len()));
    }
    tables.extend(density.variants.iter().map(|variant| counts(density, variant)));
    let moving = density.variants.iter().map(|variant| resources(density, variant));
    tables.extend(moving.filter(|table| !table.rows.is_empty()));
    tables
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let of = |named: &NamedEvaluation| -> Vec<(String, String)> {
        let variants = named.evaluation.density.iter().flat_map(|density| &density.variants);
        variants.map(|variant| (title(variant), answer(variant.answer))).collect()
    };
    vec![compare("Instances within the bound", ("variant", Align::Left), all, String::clone, of)]
}

fn title(variant: &VariantDensity) -> String {
    match variant.description.as_str() {
        "" => variant.label.clone(),
        what => format!("{} ({what})", variant.label),
    }
}

/// `11 (10 to 12)`, `64 or more`.
fn answer(answer: LargestCount) -> String {
    match (answer.estimate, answer.high) {
        (Some(estimate), Some(high)) => format!("{estimate} ({} to {high})", answer.low),
        _ => format!("{} or more", answer.low),
    }
}

fn answers(density: &Density) -> Table {
    let figure = format!("{} alone, in ms", density.figure);
    let head = ["instances", "95 % interval", &figure, "95 % interval", "pairs", "counts"];
    let mut table =
        Table::numeric(format!("Instances with {}", density.bound), ("variant", Align::Left), &head);
    table.rows = density
        .variants
        .iter()
        .map(|variant| {
            let LargestCount { estimate, low, high } = variant.answer;
            let range = high.map_or_else(|| format!("{low} or more"), |high| format!("{low} to {high}"));
            let alone = variant.alone_ms;
            vec![
                title(variant),
                estimate.map_or_else(|| ABSENT.to_owned(), |estimate| estimate.to_string()),
                range,
                optional(alone.map(|alone| alone.median), number),
                alone.map_or_else(|| ABSENT.to_owned(), |alone| interval(&alone, number)),
                variant.pairs.to_string(),
                variant.counts.len().to_string(),
            ]
        })
        .collect();
    table.notes.push(match (density.rate, density.capacity) {
        (Some(rate), Some(capacity)) => format!(
            "Each instance gets {} requests/s, {:.0} % of what one serves alone in a closed loop.",
            number(rate),
            100.0 * rate / capacity
        ),
        (Some(rate), None) => format!("Each instance gets {} requests/s.", number(rate)),
        (None, _) => "The client of each instance sends as many requests as it can, or at a rate of its own."
            .to_owned(),
    });
    table.notes.extend(setting(density));
    if let Some(hosts) = &density.load_hosts {
        table
            .notes
            .push(format!("Loads run on {}: latencies include the network between.", printable(hosts)));
    }
    table
}

/// Returns what each instance gets and may use, in sentences.
fn setting(density: &Density) -> impl Iterator<Item = String> {
    let connections =
        density.connections.map(|count| format!(", over {}", counted(count as usize, "connection")));
    let request = density.request.as_ref();
    let load = request.map(|text| format!("Load: {}{}.", printable(text), connections.unwrap_or_default()));
    let cpus = density.cpu_limit.map(|cpus| match cpus {
        1.0 => "1 CPU".to_owned(),
        _ => format!("{cpus} CPUs"),
    });
    let limits: Vec<String> = cpus.into_iter().chain(density.memory_limit_bytes.map(bytes)).collect();
    let limits = (!limits.is_empty()).then(|| format!("Limit of each instance: {}.", limits.join(", ")));
    load.into_iter().chain(limits)
}

/// Returns the answers beside those of the published measurement, on a machine with so many CPUs.
fn beside_published(density: &Density, cpus: usize) -> Table {
    let head = ["CPUs", "instances"];
    let mut table = Table::numeric(
        "Beside the published measurement with redis".to_owned(),
        ("measurement", Align::Left),
        &head,
    );
    let row = |name: String, cpus: usize, answer: String| vec![name, cpus.to_string(), answer];
    table.rows = density
        .variants
        .iter()
        .map(|variant| row(format!("here: {}", title(variant)), cpus, answer(variant.answer)))
        .collect();
    table.rows.extend(PUBLISHED.map(|(name, answer)| row(name.to_owned(), 320, answer.to_owned())));
    table.notes.push(
        "Published: containers of 2 CPUs and 8 GB, one run for each number, a client in a closed loop, no intervals. A closed \
         loop hides waiting, so compare only with --preset redis-document."
            .to_owned(),
    );
    table
}

/// Returns what was measured at each count of a variant.
fn counts(density: &Density, variant: &VariantDensity) -> Table {
    let name = density.prefix(variant);
    let figure = format!("{}, ms", density.figure);
    let over = if density.limit_ms.is_some() { "over the limit" } else { "over alone" };
    let mut table = Table::numeric(
        format!("{name}{} by number of instances", density.figure),
        ("instances", Align::Right),
        &[&figure, "95 % interval", over, "99 % interval", "pairs", "is"],
    );
    table.verdict_column = Some(6);
    table.rows = variant.counts.iter().map(count_row).collect();
    let path: Vec<String> = variant.path.iter().map(ToString::to_string).collect();
    let ratio = if density.limit_ms.is_some() {
        "The ratio is the geometric mean over slices of the figure and the limit; its interval decides."
    } else {
        "The ratio is the geometric mean over pairs with a lone instance; its interval decides."
    };
    table.notes.push(format!("{ratio} Measured in this order: {}.", path.join(", ")));
    table
}

fn count_row(count: &InstanceCount) -> Vec<String> {
    let ends = |ends: Option<(f64, f64)>| {
        ends.map_or_else(|| ABSENT.to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"))
    };
    let position = match count.position {
        _ if count.has_failed => "failed",
        Position::Within => "within",
        Position::Above => "above",
        Position::Undecided => "undecided",
    };
    vec![
        count.count.to_string(),
        optional(count.figure_ms.map(|figure| figure.median), number),
        count.figure_ms.map_or_else(|| ABSENT.to_owned(), |figure| interval(&figure, number)),
        optional(count.ratio, |ratio| format!("{ratio:.3}")),
        ends(count.interval),
        count.pairs.to_string(),
        position.to_owned(),
    ]
}

/// Returns the resources over the counts: those that have moved.
fn resources(density: &Density, variant: &VariantDensity) -> Table {
    let name = density.prefix(variant);
    let mut table = Table::numeric(
        format!("{name}Resources that move with the number of instances"),
        ("resource", Align::Left),
        &["unit", "alone", "change at the largest number", "moves from", "correlation", "p"],
    );
    let row = |trend: &ResourceTrend| {
        let last = trend.at_each_count.last().map(|change| change.mean);
        vec![
            trend.name.clone(),
            trend.unit.clone(),
            number(trend.alone),
            optional(last, |change| format!("{}{}", if change > 0.0 { "+" } else { "" }, number(change))),
            trend.first_move.map_or_else(|| ABSENT.to_owned(), |count| count.to_string()),
            optional(trend.correlation, |rho| format!("{rho:+.2}")),
            optional(trend.correlation_p, |p| format!("{p:.4}")),
        ]
    };
    table.rows =
        variant.resources.resources.iter().filter(|trend| trend.first_move.is_some()).map(row).collect();
    table.notes.push(format!(
        "Correlation of ranks with {} over the counts. What rises with the number of instances correlates with a latency that \
         rises with it: that is no proof of a cause.",
        density.figure
    ));
    table
}
