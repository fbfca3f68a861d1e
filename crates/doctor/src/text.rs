//! A diagnosis for reading: the result in one line, one line for each check, then what is missing with its cost and
//! what brings it.

use crate::{Check, Diagnosis, Fix, State, Topic};
use manycore_render::{
    document::{Document, Item},
    table::{Align, Table},
    terminal::Mark,
};

/// Width of the column of states.
const STATE_COLUMNS: usize = 7;

/// Returns the diagnosis.
pub fn render(diagnosis: &Diagnosis) -> Document {
    let mut document = Document::new();
    document.strong(totals(&diagnosis.checks));
    document.paragraph(format!("manycore {} on {}", diagnosis.version, diagnosis.system));
    for topic in [Topic::Rights, Topic::Kernel, Topic::Hardware, Topic::Programs] {
        document.gap();
        document.table(table(topic, &diagnosis.checks));
    }
    for (heading, states) in [
        ("What is missing", &[State::Partial, State::Missing][..]),
        ("What this machine does not have", &[State::Absent][..]),
    ] {
        details(heading, states, &diagnosis.checks, &mut document);
    }
    if let Some(command) = &diagnosis.install_all {
        document.gap();
        document.heading("All missing packages");
        document.indented(2, command);
    }
    document
}

fn totals(checks: &[Check]) -> String {
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

/// Adds the checks in some states, with what is lost and what brings it.
fn details(heading: &str, states: &[State], checks: &[Check], document: &mut Document) {
    let mut lacking = checks.iter().filter(|check| states.contains(&check.state)).peekable();
    if lacking.peek().is_some() {
        document.gap();
        document.heading(heading);
    }
    for check in lacking {
        let used_by = check.used_by.join(", ");
        let words =
            if used_by.is_empty() { check.name.clone() } else { format!("{} (for {used_by})", check.name) };
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
