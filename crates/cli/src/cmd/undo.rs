//! `manycore undo`: undoes changes that are still in force.

use crate::{
    cli::{Format, Undo},
    failure::{Failure, Outcome},
    output,
};
use manycore_control::journal::{self, Change, Pending, Restored};
use manycore_text::units;
use serde_json::json;
use std::fmt::Write;

/// Lists or undoes the changes in journals.
///
/// # Errors
/// [`Failure::Input`] if no journal has the name or its owner is still running, [`Failure::Missing`] if a
/// change could not be undone.
pub fn run(args: &Undo) -> Outcome {
    let folder = journal::folder();
    let (pending, problems) = journal::pending(&folder).map_err(|error| {
        Failure::missing(format!("cannot read the journals in {}: {error}", folder.display()))
    })?;
    for problem in &problems {
        output::note(&format!("manycore: not a journal, remove it by hand: {problem}"));
    }
    let chosen = chosen(pending, &args.names)?;
    if args.list {
        return output::print(&list(&chosen, args.format));
    }
    let mut results = Vec::new();
    for pending in chosen {
        // None if its owner still runs, or another undo is in progress.
        let restored = pending.undo();
        if restored.is_none() && !args.names.is_empty() {
            let id = pending.id();
            return Err(Failure::input(format!(
                "{id} is still running and undoes its own changes: stop it first"
            )));
        }
        results.push((pending, restored));
    }
    output::print(&told(&results, args.format))?;
    check(&results, problems.len())
}

/// Checks that all changes could be undone; `others` is the number of files that are not journals.
///
/// # Errors
/// [`Failure::Missing`] if a change could not be undone.
pub(super) fn check(results: &[(Pending, Option<Restored>)], others: usize) -> Outcome {
    let failed =
        results.iter().filter_map(|(_, restored)| restored.as_ref()).flat_map(|restored| &restored.failed);
    match failed.count() + others {
        0 => Ok(()),
        count => {
            let what = units::counted(count, "problem");
            Err(Failure::missing(format!(
                "{what}: some changes could not be undone; their journals are kept"
            )))
        }
    }
}

fn chosen(pending: Vec<Pending>, names: &[String]) -> Outcome<Vec<Pending>> {
    if let Some(name) = names.iter().find(|name| !pending.iter().any(|pending| pending.id() == **name)) {
        return Err(Failure::input(format!(
            "no journal named {name} is pending: see 'manycore undo --list'"
        )));
    }
    Ok(pending.into_iter().filter(|pending| names.is_empty() || names.contains(&pending.id())).collect())
}

/// Describes the state of a journal.
fn state(pending: &Pending) -> &'static str {
    match () {
        () if pending.is_of_another_boot() => "from before the reboot",
        () if pending.owned => "running",
        () if pending.header.stays => "stays until undone",
        () => "left behind",
    }
}

fn list(all: &[Pending], format: Format) -> String {
    if format == Format::Json {
        let entries: Vec<_> = all
            .iter()
            .map(|pending| {
                json!({"name": pending.id(), "state": state(pending), "header": pending.header, "changes": pending.changes})
            })
            .collect();
        return format!("{:#}\n", json!({"schema": "manycore/pending/1", "pending": entries}));
    }
    if all.is_empty() {
        return "nothing is pending\n".to_owned();
    }
    let mut text = String::new();
    for pending in all {
        let header = &pending.header;
        let _ = writeln!(text, "{}  {}, {}: {}", pending.id(), header.began, state(pending), header.what);
        let _ = writeln!(text, "    {}", counts(&pending.changes));
    }
    text
}

/// Counts the changes of a journal: `12 affinities, 1 control group`.
fn counts(changes: &[Change]) -> String {
    let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
    let counted = [
        (count(|change| matches!(change, Change::Command { .. })), "command", "commands"),
        (count(|change| matches!(change, Change::Affinity { .. })), "affinity", "affinities"),
        (count(|change| matches!(change, Change::Group { .. })), "control group", "control groups"),
        (count(|change| matches!(change, Change::Moved { .. })), "process moved", "processes moved"),
        (count(|change| matches!(change, Change::File { .. })), "setting", "settings"),
        (count(|change| matches!(change, Change::Class { .. })), "QoS group", "QoS groups"),
        (count(|change| matches!(change, Change::Assigned { .. })), "task assigned", "tasks assigned"),
        (count(|change| matches!(change, Change::Claimed { .. })), "list of CPUs", "lists of CPUs"),
        (count(|change| matches!(change, Change::Limit { .. })), "limit", "limits"),
        (count(|change| matches!(change, Change::Mount { .. })), "mount", "mounts"),
    ];
    let words: Vec<String> = counted
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    if words.is_empty() { "nothing was changed yet".to_owned() } else { words.join(", ") }
}

/// Returns the outcome for each journal, as text or JSON.
pub(super) fn told(results: &[(Pending, Option<Restored>)], format: Format) -> String {
    if format == Format::Json {
        let entries: Vec<_> = results
            .iter()
            .map(|(pending, restored)| json!({"name": pending.id(), "restored": restored}))
            .collect();
        return format!("{:#}\n", json!({"schema": "manycore/undone/1", "undone": entries}));
    }
    if results.is_empty() {
        return "nothing to undo\n".to_owned();
    }
    let mut text = String::new();
    for (pending, restored) in results {
        let what = &pending.header.what;
        let Some(restored) = restored else {
            let _ = writeln!(text, "{} ({what}): still running, left unchanged", pending.id());
            continue;
        };
        let _ = writeln!(text, "{} ({what}): {}", pending.id(), given_back(pending, restored));
        for line in restored.left.iter().chain(&restored.failed) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

fn given_back(pending: &Pending, restored: &Restored) -> String {
    if pending.is_of_another_boot() {
        return "dropped, because the machine was rebooted since".to_owned();
    }
    let counted = [
        (restored.tasks, "task", "tasks", "CPUs restored"),
        (restored.moved, "process", "processes", "moved back"),
        (restored.groups, "control group", "control groups", "removed"),
        (restored.files, "setting", "settings", "restored"),
        (restored.assigned, "task", "tasks", "back in their QoS group"),
        (restored.classes, "QoS group", "QoS groups", "removed"),
        (restored.limits, "limit", "limits", "restored"),
        (restored.mounts, "file system", "file systems", "unmounted"),
    ];
    let words = counted
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many, done)| format!("{count} {}: {done}", if count == 1 { one } else { many }));
    let words: Vec<String> = words.collect();
    match words.as_slice() {
        [] if restored.later.is_empty() => "no change was in force any more".to_owned(),
        [] => "not yet undone".to_owned(),
        words => words.join(", "),
    }
}
