//! Lines of loads whose workers share something.

use super::{Line, SummaryMark, next, ratio};
use crate::{ContentionPoint, Evaluation, LoadContention, findings::widest_point, usable_cpus};
use manycore_experiment::Record;
use manycore_stats::verdict::{Answer, Verdict};

/// Maximum number of loads that are listed.
const MAX_LISTED: usize = 3;

/// Reports the greatest loss of each load: the variant whose many workers do the least work relative to few.
pub(super) fn contention(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let cpus = usable_cpus(&record.machine);
    let mut losses: Vec<(&LoadContention, &ContentionPoint, &Verdict)> =
        evaluation.contention.iter().filter_map(|load| greatest_loss(load, cpus)).collect();
    losses.sort_by(|a, b| a.2.ratio.total_cmp(&b.2.ratio));
    if losses.is_empty() {
        let measured = !evaluation.contention.is_empty();
        let text = "Only one number of workers was measured: a second one would show what sharing costs.";
        return measured.then(|| Line::new(SummaryMark::Neutral, text));
    }
    let sentence = |(load, point, verdict): &(&LoadContention, &ContentionPoint, &Verdict)| {
        let open = if verdict.answer == Answer::Inconclusive { ", inconclusive" } else { "" };
        let variant =
            if point.variant == load.load { String::new() } else { format!(" ({})", point.variant) };
        format!("{}{variant}: {} {} do {}{open}", load.load, point.workers, load.worker_noun, ratio(verdict))
    };
    let listed: Vec<String> = losses.iter().take(MAX_LISTED).map(sentence).collect();
    let more = losses.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("; {more} more below") } else { String::new() };
    let text = format!("Relative to the fewest workers, {}{more}.", listed.join("; "));
    // What sharing costs is a property of caches and locks, on any machine: it is neither good nor bad.
    Some(Line::new(SummaryMark::Neutral, text).then(next::for_command("falseshare", record)))
}

fn greatest_loss(
    load: &LoadContention,
    cpus: usize,
) -> Option<(&LoadContention, &ContentionPoint, &Verdict)> {
    let mut variants: Vec<&str> = load.points.iter().map(|point| point.variant.as_str()).collect();
    variants.dedup();
    variants
        .into_iter()
        .filter_map(|variant| {
            let point = widest_point(load, variant, cpus)?;
            Some((load, point, point.relative_to_smallest.as_ref()?))
        })
        .min_by(|a, b| a.2.ratio.total_cmp(&b.2.ratio))
}
