//! How many instances fit, in a sentence for each variant, and which variant holds more.

use super::{Finding, FindingKind};
use crate::{
    density::{Density, DensityAnswer, DensityDifference, InstanceCount, VariantDensity},
    next_step,
};
use manycore_stats::largest_count::{LargestCount, Position};
use manycore_text::{
    names::printable,
    units::{counted, interval},
};

/// Counts from which a rank correlation of a few resources can be proven.
const LEAST_COUNTS: usize = 6;

/// Share of the latency in percent from which the client's own part is worth a warning.
const CLIENT_PART_WARNING: f64 = 10.0;

pub(crate) fn find(density: &Density) -> Vec<Finding> {
    let answer = |variant| {
        let text = answer(density, variant);
        Finding::new(FindingKind::Answer, "density", text, evidence(density, variant))
    };
    let difference = |difference: &DensityDifference| {
        let text = difference_text(&density.variants[0].label, difference);
        let has_interval = difference.low.is_some() || difference.high.is_some();
        let evidence =
            has_interval.then(|| "the ends of the interval are those of both densities".to_owned());
        Finding::new(FindingKind::Answer, "density", text, evidence.into_iter().collect())
    };
    let differences = density.differences.iter().map(difference);
    let limits = density.variants.iter().filter_map(|variant| limit(density, variant));
    let parts = density.variants.iter().filter_map(|variant| client_part(density, variant));
    differences.chain(density.variants.iter().map(answer)).chain(limits).chain(parts).collect()
}

/// Returns the resource that moves with the tail first, and what to try next. A correlation is no proof.
fn limit(density: &Density, variant: &VariantDensity) -> Option<Finding> {
    let trends = &variant.resources;
    let is_upward = trends.tail.last().is_some_and(|change| change.mean > 0.0);
    let rises = trends.tail_first_move.filter(|_| is_upward && trends.tail.len() >= LEAST_COUNTS)?;
    let name = density.prefix(variant);
    let Some(first) = trends.first_to_move() else {
        let text = format!(
            "{name}No resource is shown to move with {}, which rises with the number of instances.",
            density.figure
        );
        return Some(Finding::new(FindingKind::Fact, "density", text, Vec::new()));
    };
    let moved = first.first_move.unwrap_or(rises);
    let next = next_step(&first.name).map(|next| format!(" To try next: {next}.")).unwrap_or_default();
    let text = format!(
        "{name}The first resource that is shown to move with {} is {}: clearly from {} on.{next}",
        density.figure,
        first.name,
        counted(moved, "instance")
    );
    let evidence = trends.moving().into_iter().map(|trend| {
        let last = trend.at_each_count.last();
        let change = last
            .map(|last| format!("{:+.1} {} at {}", last.mean, trend.unit, counted(last.count, "instance")));
        format!(
            "{}: rank correlation over {} {:.2}; {:.1} {} alone, {}",
            trend.name,
            counted(trend.at_each_count.len(), "count"),
            trend.correlation.unwrap_or_default(),
            trend.alone,
            trend.unit,
            change.unwrap_or_default()
        )
    });
    Some(Finding::new(FindingKind::Fact, "density", text, evidence.collect()))
}

/// Returns the largest part of the latency that is the client's own, in percent, with its count. `None` if it is unknown.
fn largest_part(variant: &VariantDensity) -> Option<(usize, f64)> {
    variant.client_part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Warns where much of the latency is the client's own.
fn client_part(density: &Density, variant: &VariantDensity) -> Option<Finding> {
    let (count, most) = largest_part(variant).filter(|(_, most)| *most >= CLIENT_PART_WARNING)?;
    let text = format!(
        "{}Up to {most:.0} % of the latency is the client's own: it sent requests late although a connection was free.",
        density.prefix(variant)
    );
    let next = match &density.load_hosts {
        Some(hosts) => format!("the clients wake up late on {}: they need CPUs there that are idle", printable(hosts)),
        None => "the clients use the CPUs of the instances, or wake up late: --load-cpus gives them CPUs of their own, and \
                 --load-host a host of their own"
            .to_owned(),
    };
    let evidence = vec![format!("at {}", counted(count, "instance")), next];
    Some(Finding::new(FindingKind::Warning, "density", text, evidence))
}

/// Returns the density of a variant as a sentence or two.
pub(crate) fn answer(density: &Density, variant: &VariantDensity) -> String {
    let name = density.prefix(variant);
    let text = answer_text(density, variant.answer);
    let open = match () {
        () if !variant.is_complete => " The search was not finished: more pairs narrow the interval.",
        () if density.is_open(variant) => " All pairs were used: more (--pairs) narrow the interval.",
        () => "",
    };
    format!("{name}{text}{open}")
}

fn answer_text(density: &Density, answer: LargestCount) -> String {
    let (bound, most) = (&density.bound, density.most);
    match answer {
        LargestCount { high: Some(0), .. } => format!("A lone instance is above {bound} already."),
        LargestCount { estimate: Some(estimate), low, high: Some(high) } => format!(
            "{} within {bound} ({}).",
            fit(estimate),
            interval(Some((low as f64, high as f64)), |end| end.to_string())
        ),
        LargestCount { low, .. } if low >= most => {
            format!("At least {} within {bound}: that is the largest number that was measured.", fit(low))
        }
        LargestCount { low: 0, .. } => {
            format!("Inconclusive: no number of instances is known to be within {bound}.")
        }
        LargestCount { low, .. } => {
            format!("At least {} within {bound}: larger numbers are inconclusive.", fit(low))
        }
    }
}

fn fit(count: usize) -> String {
    format!("{} {}", counted(count, "instance"), if count == 1 { "fits" } else { "fit" })
}

/// Returns which of two variants holds more.
pub(crate) fn difference_text(first: &str, difference: &DensityDifference) -> String {
    let DensityDifference { label, answer, estimate, low, high } = difference;
    let end = |end: &Option<i64>, open: &str| end.map_or_else(|| open.to_owned(), |end| format!("{end:+}"));
    let range = format!("95 %: {} to {}", end(low, "unknown"), end(high, "no limit reached"));
    let figures = match estimate {
        Some(estimate) => format!("{estimate:+} ({range})"),
        None => range,
    };
    match answer {
        DensityAnswer::More => format!("{label} holds more instances than {first}: {figures}."),
        DensityAnswer::Fewer => format!("{label} holds fewer instances than {first}: {figures}."),
        DensityAnswer::Same => format!("{label} holds as many instances as {first}."),
        DensityAnswer::Inconclusive if low.is_none() && high.is_none() => {
            format!(
                "Inconclusive whether {label} or {first} holds more instances: no number of either is known to be above the \
                 bound."
            )
        }
        DensityAnswer::Inconclusive => {
            format!("Inconclusive whether {label} or {first} holds more instances: {figures}.")
        }
    }
}

/// Returns the lone instance, and the counts on both sides of the bound.
fn evidence(density: &Density, variant: &VariantDensity) -> Vec<String> {
    let ms = |value: f64| format!("{value:.3}");
    let alone = variant.alone_ms.map(|alone| {
        format!("alone: {} {} ms ({})", density.figure, ms(alone.median), interval(alone.interval, ms))
    });
    let of = |position: Position| variant.counts.iter().filter(move |count| count.position == position);
    let sides = [of(Position::Within).next_back(), of(Position::Above).next()];
    let search =
        format!("{} of slices at {}", counted(variant.pairs, "pair"), counted(variant.counts.len(), "count"));
    let reference = if density.limit_ms.is_some() { "the limit" } else { "the lone instance" };
    let text = |count| count_text(count, reference);
    let free = (variant.answer.low < density.most).then(|| free_tasks(density, variant)).flatten();
    let sides = sides.into_iter().flatten().map(text);
    // More of it is a warning of its own.
    let part = largest_part(variant).filter(|(_, most)| *most < CLIENT_PART_WARNING);
    let part = part.map(|(_, most)| format!("the client's own part of the latency: at most {most:.1} %"));
    alone.into_iter().chain(sides).chain([search]).chain(part).chain(free).collect()
}

/// Says what the scheduler could move, if anything.
fn free_tasks(density: &Density, variant: &VariantDensity) -> Option<String> {
    let (what, options) = match (variant.are_instances_free, density.are_loads_free) {
        (true, true) => ("the instances and their loads", "--variant close --load-cpus CPUS gives"),
        (true, false) => ("the instances", "--variant close gives"),
        (false, true) => ("the loads", "--load-cpus CPUS gives"),
        (false, false) => return None,
    };
    Some(format!(
        "the scheduler could move {what}: what it does differently in another run is not part of the interval ({options} them \
         CPUs of their own)"
    ))
}

fn count_text(count: &InstanceCount, reference: &str) -> String {
    let number = counted(count.count, "instance");
    match (count.ratio, count.interval) {
        _ if count.has_failed => match &count.failure {
            Some(why) => format!("{number}: failed ({why})"),
            None => format!("{number}: failed"),
        },
        (Some(ratio), Some((low, high))) => {
            format!("{number}: {ratio:.3} times {reference} (99 %: {low:.3} to {high:.3})")
        }
        _ => number,
    }
}
