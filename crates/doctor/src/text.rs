//! A diagnosis for reading.

use crate::{Check, Diagnosis, Fix, State, Topic};
use manycore_render::{
    document::{Document, Extent, Item},
    table::{Align, Table},
    terminal::Mark,
};

/// Width of the column of states.
const STATE_COLUMNS: usize = 7;

/// Returns the diagnosis: what is missing with its cost and its fix, the most important first, then the rest by name. In
/// full it has a table of all checks, and the cost of what this machine does not have.
pub fn render(diagnosis: &Diagnosis, extent: Extent) -> Document {
    let mut document = Document::new();
    let all: Vec<&Check> = diagnosis.checks.iter().collect();
    document.strong(totals(&all));
    document.paragraph(format!("manycore {} on {}", diagnosis.version, diagnosis.system));
    match extent {
        Extent::Full => {
            for topic in [Topic::Rights, Topic::Kernel, Topic::Hardware, Topic::Programs] {
                document.gap();
                document.table(table(topic, &diagnosis.checks));
            }
            details("What is missing", &of(&all, &MISSING), &mut document);
            details("What this machine does not have", &of(&all, &[State::Absent]), &mut document);
        }
        Extent::Brief { hint } => brief(&all, hint, extent.findings(), &mut document),
    }
    if let Some(command) = &diagnosis.install_all {
        document.gap();
        document.heading("All missing packages");
        document.indented(2, command);
    }
    document
}

/// States of what is missing, in whole or in part.
const MISSING: [State; 2] = [State::Partial, State::Missing];

/// Returns the checks in one of these states.
fn of<'a>(checks: &[&'a Check], states: &[State]) -> Vec<&'a Check> {
    checks.iter().copied().filter(|check| states.contains(&check.state)).collect()
}

/// Adds the first `most` of the missing things, and the names of all others.
fn brief(all: &[&Check], hint: &str, most: usize, document: &mut Document) {
    let missing = of(all, &MISSING);
    let (first, rest) = missing.split_at(missing.len().min(most));
    details("What is missing", first, document);
    document.gap();
    for (label, checks) in [
        ("also missing:", rest.to_vec()),
        ("not on this machine:", of(all, &[State::Absent])),
        ("available:", of(all, &[State::Available])),
    ] {
        if !checks.is_empty() {
            let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
            document.item(Item::new(label, None, names.join(", ")));
        }
    }
    document.paragraph(format!("what each check found, and what each missing thing costs: {hint}"));
}

fn totals(checks: &[&Check]) -> String {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let mut parts = vec![format!("{} of {} available", count(State::Available), checks.len())];
    let others = [
        (State::Partial, "partly available"),
        (State::Missing, "missing"),
        (State::Absent, "not on this machine"),
    ];
    let present = others.into_iter().filter(|(state, _)| count(*state) > 0);
    parts.extend(present.map(|(state, words)| format!("{} {words}", count(state))));
    parts.join(", ")
}

/// Returns the checks of a topic, one in each row.
fn table(topic: Topic, checks: &[Check]) -> Table {
    let title = match topic {
        Topic::Rights => "rights and limits",
        Topic::Kernel => "kernel",
        Topic::Hardware => "hardware",
        Topic::Programs => "programs",
    };
    let of_topic = checks.iter().filter(|check| check.topic == topic);
    let row = |check: &Check| vec![check.name.clone(), word(check.state).to_owned(), check.found.clone()];
    let head = [(title, Align::Left), ("state", Align::Left), ("found", Align::Left)];
    Table { verdict_column: Some(1), ..Table::new("", &head).with_rows(of_topic.map(row).collect()) }
}

fn word(state: State) -> &'static str {
    match state {
        State::Available => "ok",
        State::Partial => "partial",
        State::Missing => "missing",
        State::Absent => "absent",
    }
}

/// Adds checks with what was found, what is lost and what brings it.
fn details(heading: &str, lacking: &[&Check], document: &mut Document) {
    if !lacking.is_empty() {
        document.gap();
        document.heading(heading);
    }
    for check in lacking {
        let words = format!("{}: {} (for {})", check.name, check.found, check.used_by.join(", "));
        let mark = (check.state != State::Absent).then_some(Mark::Warning);
        let mut item = Item::new(word(check.state), mark, words);
        item.label_columns = STATE_COLUMNS;
        item.details.extend(check.cost.iter().map(|cost| ("cost", cost.clone())));
        match &check.fix {
            Some(Fix::Command(command)) => item.details.push(("fix", command.clone())),
            Some(Fix::Advice(words)) => item.details.push(("note", words.clone())),
            None => {}
        }
        document.item(item);
    }
}
