//! What differs between records that are shown side by side: each against the first one.

use crate::sections::{NamedEvaluation, Table, conditions};
use manycore_analysis::differences::{Change, FigureDifference, RecordDifferences};
use manycore_render::{
    figure::{ABSENT, factor, short},
    table::Align,
};
use manycore_stats::{Estimator, verdict::EQUIVALENCE_MARGIN};
use manycore_text::units::percent;

pub(super) fn single(_: &NamedEvaluation) -> Vec<Table> {
    Vec::new()
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let mut tables: Vec<Table> = others.iter().filter_map(|other| of_pair(first, other)).flatten().collect();
    tables.push(changed_conditions(all));
    tables
}

/// Returns a sentence for each record but the first: how many figures differ, and which differs most.
pub fn headlines(all: &[NamedEvaluation]) -> Vec<String> {
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let headline = |other: &NamedEvaluation| {
        let differences = other.differences.as_ref()?;
        let names = format!("{} against {}", other.name, first.name);
        let (changed, all) = (differences.changed().count(), differences.figures.len());
        Some(match differences.changed().next() {
            _ if all == 0 => format!("{names}: no figure is in both records."),
            None => format!("{names}: none of {all} figures is shown to differ."),
            Some(most) => {
                let better = if most.change == Change::Better { "better" } else { "worse" };
                format!(
                    "{names}: {changed} of {all} figures differ, most of all {} ({}x, {better}).",
                    most.what,
                    factor(most.ratio)
                )
            }
        })
    };
    others.iter().filter_map(headline).collect()
}

/// Returns all figures of two sides of records.
pub fn figures_table(differences: &RecordDifferences) -> Table {
    let mut table = empty_table(String::new(), "baseline", "new");
    table.rows = differences.figures.iter().map(row).collect();
    table
}

/// Returns what differs, and as details every figure that both have.
fn of_pair(first: &NamedEvaluation, other: &NamedEvaluation) -> Option<[Table; 2]> {
    let differences = other.differences.as_ref()?;
    let title = format!("{} against {}", other.name, first.name);
    let mut changed = table(title.clone(), first, other);
    changed.rows = differences.changed().map(row).collect();
    if changed.rows.is_empty() && !differences.figures.is_empty() {
        changed
            .rows
            .push(std::iter::once("nothing".to_owned()).chain((0..5).map(|_| ABSENT.to_owned())).collect());
    }
    changed.notes = notes(differences);
    let mut every = table(format!("{title}: all figures"), first, other);
    every.rows = differences.figures.iter().map(row).collect();
    every.is_detail = true;
    Some([changed, every])
}

fn table(title: String, first: &NamedEvaluation, other: &NamedEvaluation) -> Table {
    empty_table(title, &first.name, &other.name)
}

fn empty_table(title: String, first: &str, second: &str) -> Table {
    let mut table = Table::numeric(
        title,
        ("what differs", Align::Left),
        &[first, second, "ratio", "joint 95 % interval", "is"],
    );
    if let Some(last) = table.head.last_mut() {
        last.1 = Align::Left;
    }
    table.verdict_column = Some(table.head.len() - 1);
    table
}

fn row(figure: &FigureDifference) -> Vec<String> {
    let is = match figure.change {
        Change::Better => "better",
        Change::Worse => "worse",
        Change::Equivalent => "equivalent",
        Change::Inconclusive => "inconclusive",
    };
    let doubtful = if figure.disturbed.is_empty() { "" } else { " (doubtful)" };
    let interval = figure
        .interval
        .map_or_else(|| ABSENT.to_owned(), |(low, high)| format!("{} to {}", factor(low), factor(high)));
    vec![
        label(figure),
        short(figure.values[0]),
        short(figure.values[1]),
        format!("{}x", factor(figure.ratio)),
        interval,
        format!("{is}{doubtful}"),
    ]
}

/// `wall (s)`, `wall, p99 (s)`.
fn label(figure: &FigureDifference) -> String {
    let by = match figure.estimator {
        Estimator::Median => String::new(),
        other => format!(", {other}"),
    };
    let unit = if figure.unit.is_empty() { String::new() } else { format!(" ({})", figure.unit) };
    format!("{}{by}{unit}", figure.what)
}

fn notes(differences: &RecordDifferences) -> Vec<String> {
    let count = |change| differences.figures.iter().filter(|figure| figure.change == change).count();
    let mut notes = vec![format!(
        "Figures that both records have: {}. Different: {}; equivalent within {}: {}; inconclusive: {}. The intervals \
         hold jointly.",
        differences.figures.len(),
        differences.changed().count(),
        percent(EQUIVALENCE_MARGIN),
        count(Change::Equivalent),
        count(Change::Inconclusive),
    )];
    notes.extend(differences.spread_note());
    let mut disturbed: Vec<&str> =
        differences.changed().flat_map(|figure| &figure.disturbed).map(String::as_str).collect();
    disturbed.sort_unstable();
    disturbed.dedup();
    if !disturbed.is_empty() {
        notes.push(format!("Doubtful: {}.", disturbed.join("; ")));
    }
    notes.extend(differences.not_compared.iter().map(|why| format!("Not compared: {why}.")));
    notes
}

/// Returns the rows of machine and conditions whose values differ.
fn changed_conditions(all: &[NamedEvaluation]) -> Table {
    let mut tables = conditions::side_by_side(all);
    let mut table = tables.remove(0);
    "What changed in machine and conditions".clone_into(&mut table.title);
    // A start time always differs, and explains nothing.
    table.rows.retain(|row| {
        let is_different = row[1..].windows(2).any(|pair| pair[0] != pair[1]);
        is_different && !["started", "duration"].contains(&row[0].as_str())
    });
    table
}
