//! Words for the parts of an evaluation.

use super::view::{View, alike, worst};
use crate::{
    evaluation::{FleetEvaluation, KindFigure, Node, NodeFigure, Verdict},
    hostlist::{compress, is_name},
};
use manycore_render::figure::{self, percent, percent_number};
use manycore_text::{names::printable, units::counted};
use std::collections::BTreeMap;

/// Slow nodes that the answer names.
const NAMED: usize = 3;
/// Longest name of a node or a process in a sentence.
const NAME: usize = 40;
/// Longest list of names in a sentence.
const LIST: usize = 60;

/// Says which nodes are slow, in a sentence or two, and which are inconclusive, missing or not judged.
pub fn answer(evaluation: &FleetEvaluation) -> Vec<String> {
    let view = View::new(evaluation);
    let mut lines = vec![slow(&view)];
    lines.extend(excluded(&view));
    let names = |nodes: &[&Node]| list(nodes.iter().map(|node| node.name.as_str()));
    let mut rest = Vec::new();
    if !view.inconclusive.is_empty() {
        let count = view.inconclusive.len();
        rest.push(format!(
            "{} inconclusive and should be measured again: {}",
            are(count),
            names(&view.inconclusive)
        ));
    }
    if !evaluation.missing.is_empty() {
        let states: Vec<String> =
            states(evaluation).iter().map(|(state, count)| format!("{count} {state}")).collect();
        let names = list(evaluation.missing.iter().map(|node| node.name.as_str()));
        rest.push(format!("{} missing ({}): {names}", are(evaluation.missing.len()), states.join(", ")));
    }
    if view.not_judged > 0 && view.not_judged < evaluation.nodes.len() {
        rest.push(format!("{} not judged: too few of their kind", are(view.not_judged)));
    }
    lines.extend((!rest.is_empty()).then(|| rest.join("; ") + "."));
    lines
}

fn are(count: usize) -> String {
    format!("{} {}", figure::grouped(count as f64), if count == 1 { "is" } else { "are" })
}

/// Says how many nodes are slow, and names the slowest.
fn slow(view: &View) -> String {
    let evaluation = view.evaluation;
    let judged = evaluation.nodes.len() - view.not_judged;
    if evaluation.nodes.is_empty() {
        return "No node has a record.".to_owned();
    }
    if judged == 0 {
        let why = evaluation.kinds.iter().find_map(|kind| kind.not_judged.as_deref());
        return format!("No node can be judged: {}.", why.unwrap_or("too few nodes of a kind"));
    }
    let of = format!("of {} {}", figure::grouped(judged as f64), if judged == 1 { "node" } else { "nodes" });
    if view.slow.is_empty() {
        return format!("None {of} is slow beyond what chance explains.");
    }
    let named: Vec<String> = view.slow.iter().take(NAMED).map(|node| reason(evaluation, node)).collect();
    let more = view.slow.len() - named.len();
    let more = if more > 0 { format!(", and {} more", figure::grouped(more as f64)) } else { String::new() };
    let verb = if view.slow.len() == 1 { "is" } else { "are" };
    format!("{} {of} {verb} slow: {}{more}.", figure::grouped(view.slow.len() as f64), named.join(", "))
}

/// Says from which measured deficit on nodes are called slow, where none was.
fn excluded(view: &View) -> Option<String> {
    let (low, high) = view.evaluation.detectable().filter(|_| view.slow.is_empty())?;
    let least = if percent(low) == percent(high) {
        percent(low)
    } else {
        format!("{} to {}", percent_number(low), percent(high))
    };
    let judged = view.evaluation.judged_kinds();
    let is_blind = judged.flat_map(|kind| &kind.figures).any(|one| one.detectable.is_none());
    let except = if is_blind { " Some figures cannot show a slow node." } else { "" };
    Some(format!(
        "A node is called slow from a measured deficit of {least} on, depending on the figure.{except}"
    ))
}

/// Says why a node is slow: `n17 (stream 9.8 % slower; stress-ng used 1.9 CPUs)`.
fn reason(evaluation: &FleetEvaluation, node: &Node) -> String {
    let what =
        worst(evaluation, node).map(|(figure, one)| format!("{} {}", figure.topic, slower(one.deficit)));
    let cause = first_cause(node).map(|cause| short(cause, 2 * NAME));
    let inside: Vec<String> = what.into_iter().chain(cause).collect();
    let name = short(&node.name, NAME);
    if inside.is_empty() { name } else { format!("{name} ({})", inside.join("; ")) }
}

/// Returns the strongest cause, without the comparison with other nodes that follows it.
pub(super) fn first_cause(node: &Node) -> Option<&str> {
    node.causes.first()?.split("; ").next()
}

/// Says over which runs no change was found. `None` where one was, or where none was searched for.
pub(super) fn unchanged(evaluation: &FleetEvaluation) -> Option<String> {
    let runs = &evaluation.dated_runs;
    let (first, last) = runs.first().zip(runs.last()).filter(|_| evaluation.changes.is_empty())?;
    let (first, last) = (printable(first), printable(last));
    Some(format!("No change was found over {}, from {first} to {last}.", counted(runs.len(), "run")))
}

/// Returns the states of missing nodes with their counts, the most frequent first.
pub(super) fn states(evaluation: &FleetEvaluation) -> Vec<(&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &evaluation.missing {
        *counts.entry(&node.state).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

/// Returns names in Slurm's notation, or the first of them and how many more there are.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    list_within(names, LIST, NAMED)
}

/// Returns names as [`list`] does: the notation has at most `longest` characters, otherwise the first of them are shown, at most `most`.
pub(super) fn list_within<'a>(names: impl Iterator<Item = &'a str>, longest: usize, most: usize) -> String {
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.iter().all(|name| is_name(name)) {
        let list = compress(&names);
        if list.len() <= longest {
            return list;
        }
    }
    let shown: Vec<String> = names.iter().take(most).map(|name| short(name, NAME)).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), figure::grouped(more as f64)),
    }
}

/// Returns the name of a figure with its topic: `stream: triad, all cores`.
pub(super) fn figure_name(figure: &KindFigure) -> String {
    if figure.what.starts_with(&figure.topic) {
        return short(&figure.what, 80);
    }
    short(&format!("{}: {}", figure.topic, figure.what), 80)
}

/// Returns the worst figure of a node and how many others have the same verdict.
pub(super) fn worst_name(evaluation: &FleetEvaluation, node: &Node, figure: &KindFigure) -> String {
    match alike(evaluation, node).saturating_sub(1) {
        0 => figure_name(figure),
        more => format!("{} (+{more})", figure_name(figure)),
    }
}

/// Returns a deficit in words: `9.8 % slower`, `3.1 % faster`.
pub(super) fn slower(deficit: f64) -> String {
    format!("{} {}", percent(deficit.abs()), if deficit < 0.0 { "faster" } else { "slower" })
}

/// Returns a deficit with its interval: `9.8 % (8.9 to 10.7)`.
pub(super) fn deficit((value, (low, high)): (f64, (f64, f64))) -> String {
    /// Largest deficit that is written as a number: 10,000 %.
    const MOST: f64 = 100.0;
    let end = |share: f64| if share > MOST { "over 10,000".to_owned() } else { percent_number(share) };
    if low.is_finite() && high.is_finite() {
        format!("{} ({} to {})", percent(value), end(low), end(high))
    } else {
        percent(value)
    }
}

/// Returns [`deficit`] of a figure of a node.
pub(super) fn deficit_of(one: NodeFigure) -> String {
    deficit((one.deficit, one.interval))
}

/// Returns a verdict in one or two words.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slow => "slow",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Typical => "typical",
        Verdict::Fast => "fast",
        Verdict::NotJudged => "not judged",
    }
}

/// Returns a p-value: `0.004`, `1e-9`.
pub(super) fn p_value(p: f64) -> String {
    match p {
        _ if !p.is_finite() => figure::ABSENT.to_owned(),
        p if p >= 0.001 => format!("{p:.3}"),
        p => format!("{:.0e}", p.max(1e-300)),
    }
}

/// Returns a date and time as people write it: `2026-11-26 12:57`.
pub(super) fn moment(rfc3339: &str) -> String {
    printable(&rfc3339.replacen('T', " ", 1).chars().take(16).collect::<String>())
}

/// Returns since when something is different: the day of the first run after it, and its time where the run before was on
/// the same day.
pub(super) fn since((before, after): &(String, String)) -> String {
    let (before, after) = (moment(before), moment(after));
    let day = |moment: &str| moment.chars().take(10).collect::<String>();
    if day(&before) == day(&after) { after } else { day(&after) }
}

/// Returns a text on one line with at most so many characters.
pub(super) fn short(text: &str, most: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
