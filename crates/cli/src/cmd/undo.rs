//! `manycore undo`: undoes changes that are still in force.

use crate::{
    cli::{Format, Undo},
    failure::{Failure, Outcome},
    output,
};
use manycore_control::journal::{
    self, Pending, report,
    report::{JournalWords, Undone},
};
use manycore_render::{
    document::{Document, Item},
    terminal::{Mark, Terminal},
};

/// Lists or undoes the changes in journals.
///
/// # Errors
/// [`Failure::Input`] if no journal has the name or its owner is still running, [`Failure::Missing`] if a
/// change could not be undone.
pub fn run(args: &Undo, terminal: Terminal) -> Outcome {
    let folder = journal::folder();
    let (pending, problems) = journal::pending(&folder).map_err(|error| {
        Failure::missing(format!("cannot read the journals in {}: {error}", folder.display()))
    })?;
    for problem in &problems {
        output::note(&format!("manycore: not a journal of changes, remove it by hand: {problem}"));
    }
    let chosen = chosen(pending, &args.names)?;
    if args.list {
        return output::result(args.format, terminal, &report::pending_json(&chosen), || {
            document(report::pending_words(&chosen))
        });
    }
    let mut undone = Vec::new();
    for pending in chosen {
        let one = Undone::undo(pending);
        if one.result.is_none() && !args.names.is_empty() {
            let id = one.journal.id();
            return Err(Failure::input(format!(
                "{id} is still running and undoes its own changes: stop it first"
            )));
        }
        undone.push(one);
    }
    print(&undone, args.format, terminal, problems.len())
}

/// Prints the results; `others` is the number of files that are not journals.
///
/// # Errors
/// [`Failure::Missing`] if a change could not be undone.
pub(super) fn print(undone: &[Undone], format: Format, terminal: Terminal, others: usize) -> Outcome {
    output::result(format, terminal, &report::undone_json(undone), || {
        document(report::undone_words(undone))
    })?;
    match Undone::failures(undone) + others {
        0 => Ok(()),
        count => Err(Failure::missing(report::problems(count))),
    }
}

/// Returns changes for reading.
fn document(journals: Vec<JournalWords>) -> Document {
    let mut document = Document::new();
    if journals.is_empty() {
        document.paragraph("no changes are in force");
    }
    for JournalWords { name, words, details } in journals {
        let details = details.into_iter().map(|detail| ("", detail)).collect();
        document.item(Item { details, ..Item::new(name, Some(Mark::Strong), words) });
    }
    document
}

fn chosen(pending: Vec<Pending>, names: &[String]) -> Outcome<Vec<Pending>> {
    if let Some(name) = names.iter().find(|name| !pending.iter().any(|pending| pending.id() == **name)) {
        return Err(Failure::input(format!(
            "no change named {name} is in force: see 'manycore undo --list'"
        )));
    }
    Ok(pending.into_iter().filter(|pending| names.is_empty() || names.contains(&pending.id())).collect())
}
