//! `manycore undo`: undoes changes that are still in force.

use crate::{
    cli::{Format, Undo},
    failure::{Failure, Outcome},
    output,
};
use manycore_control::journal::{self, Pending, report, report::Undone};

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
        return output::print(&match args.format {
            Format::Text => report::pending_text(&chosen),
            Format::Json => output::json(&report::pending_json(&chosen))?,
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
    print(&undone, args.format, problems.len())
}

/// Prints the results; `others` is the number of files that are not journals.
///
/// # Errors
/// [`Failure::Missing`] if a change could not be undone.
pub(super) fn print(undone: &[Undone], format: Format, others: usize) -> Outcome {
    output::print(&match format {
        Format::Text => report::undone_text(undone),
        Format::Json => output::json(&report::undone_json(undone))?,
    })?;
    match Undone::failures(undone) + others {
        0 => Ok(()),
        count => Err(Failure::missing(report::problems(count))),
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
