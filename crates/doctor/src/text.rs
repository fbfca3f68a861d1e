//! A diagnosis as text: the result in one line, one line for each check, then what is missing with its cost and what
//! brings it.

use crate::{Check, Diagnosis, Fix, State, Topic};
use manycore_render::table::paragraph;
use manycore_text::names::printable_text;

/// Width of the column of states.
const STATE_WIDTH: usize = 7;

/// Width of the column of names.
const NAME_WIDTH: usize = 18;

/// Returns the diagnosis as lines that fit a terminal.
pub fn render(diagnosis: &Diagnosis) -> String {
    let mut text = format!("manycore {}\n", diagnosis.version);
    paragraph("", &diagnosis.system, 0, &mut text);
    paragraph("", &totals(&diagnosis.checks), 0, &mut text);
    for topic in [Topic::Rights, Topic::Kernel, Topic::Hardware, Topic::Programs] {
        text += &format!("\n{}\n", title(topic));
        for check in diagnosis.checks.iter().filter(|check| check.topic == topic) {
            let lead = format!("{:<STATE_WIDTH$}  {:<NAME_WIDTH$}  ", word(check.state), check.name);
            paragraph(&lead, &check.found, 2, &mut text);
        }
    }
    text += &details(diagnosis);
    // Names of directories and output of programs may contain control characters.
    printable_text(&text)
}

fn totals(checks: &[Check]) -> String {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let mut parts = vec![format!("{} of {} available", count(State::Available), checks.len())];
    let others = [
        (State::Partial, "partly available"),
        (State::Missing, "missing"),
        (State::Absent, "not on this machine"),
    ];
    parts.extend(
        others
            .into_iter()
            .filter(|(state, _)| count(*state) > 0)
            .map(|(state, words)| format!("{} {words}", count(state))),
    );
    parts.join(", ")
}

fn title(topic: Topic) -> &'static str {
    match topic {
        Topic::Rights => "Rights and limits",
        Topic::Kernel => "Kernel",
        Topic::Hardware => "Hardware",
        Topic::Programs => "Programs",
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Available => "ok",
        State::Partial => "partial",
        State::Missing => "missing",
        State::Absent => "absent",
    }
}

/// Returns a paragraph for each thing that is lost: first what something can be done about.
fn details(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for (heading, states) in [
        ("What is missing", &[State::Partial, State::Missing][..]),
        ("What this machine does not have", &[State::Absent][..]),
    ] {
        let mut lacking = diagnosis.checks.iter().filter(|check| states.contains(&check.state)).peekable();
        if lacking.peek().is_some() {
            text += &format!("\n{heading}\n");
        }
        lacking.for_each(|check| detail(check, &mut text));
    }
    if let Some(command) = &diagnosis.install_all {
        text += "\nAll missing packages\n";
        paragraph("", command, 2, &mut text);
    }
    text
}

fn detail(check: &Check, text: &mut String) {
    let used_by =
        if check.used_by.is_empty() { String::new() } else { format!(" (for {})", check.used_by.join(", ")) };
    paragraph("", &format!("{}{used_by}", check.name), 2, text);
    if let Some(cost) = &check.cost {
        paragraph("cost: ", cost, 4, text);
    }
    match &check.fix {
        Some(Fix::Command(command)) => paragraph("fix:  ", command, 4, text),
        Some(Fix::Advice(words)) => paragraph("note: ", words, 4, text),
        None => {}
    }
}
