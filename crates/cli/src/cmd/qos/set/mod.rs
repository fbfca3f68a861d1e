//! `manycore qos set`.

mod aim;
mod apply;
mod follow;
mod former;

use super::{files, ours, system};
use crate::placing;
use crate::{
    cli::{Format, QosSet},
    failure::{Failure, Outcome},
    output,
    signals::{self, Signals},
};
use aim::{Aim, aim};
use apply::Job;
use manycore_control::journal::Journal;
use manycore_linux::resctrl::state::State;
use manycore_linux::{
    resctrl::{self, Missing},
    targets::Members,
};
use manycore_qos::text;
use manycore_qos::write::Refused;
use manycore_qos::{
    applied::{APPLIED_SCHEMA, Applied},
    told::tell,
};
use manycore_topology::SysTree;
use std::path::Path;

/// Resolves the target and translates its limits to the syntax of this kernel. Then finds or creates the
/// group, writes the limits, reads them back and moves the tasks. Each change is recorded in a journal before
/// it is made.
///
/// # Errors
/// [`Failure::Input`] for an invalid target, group or value; [`Failure::Missing`] if the machine lacks the
/// control or the user the permission; [`Failure::Check`] if the kernel silently kept an old limit. Only in
/// the last case do changes remain.
pub fn run(args: &QosSet) -> Outcome {
    check_name(args.name.as_deref())?;
    if args.wish.wish().is_empty() {
        return Err(Failure::input(
            "no limit is given: add one, such as --bandwidth 50% or --cache l3=25% ('manycore qos show' lists what \
             can be set)",
        ));
    }
    let system = system()?;
    let mut mounted = None;
    if args.mount && !args.dry_run && resctrl::find(&system, None) == Err(Missing::NotMounted) {
        mounted = Some(mount(args)?);
    }
    let result = aimed(args, &system, &mut mounted);
    // Undo a mount that was not needed in the end.
    if let Some(journal) = mounted {
        give_back(journal)?;
    }
    result
}

/// Does everything but mounting. The journal of the mount is continued with the changes to groups.
fn aimed(args: &QosSet, system: &SysTree, mounted: &mut Option<Journal>) -> Outcome {
    let files = files(system, &args.resctrl)?;
    let state = files.state(&ours());
    let aim = aim(args, system, &state)?;
    if args.dry_run {
        return print(args.format, &foreseen(args, &state, &aim));
    }
    let signals = Signals::catch(&signals::ENDS)?;
    let journal = match mounted.take() {
        Some(journal) => journal,
        None => begin(args)?,
    };
    let name = aim.group.as_ref().map(|group| group.name.clone());
    let name = name.or_else(|| args.name.clone()).unwrap_or_else(|| named_after(&journal));
    let job = Job { files: &files, journal: &journal, name: &name, made: aim.group.is_none() };
    let applied = match job.apply(args, &aim) {
        Ok(applied) => applied,
        Err(refused) => {
            let failure = failure(&refused);
            give_back(journal)?;
            return Err(failure);
        }
    };
    if !signals.take().is_empty() {
        give_back(journal)?;
        return Err(Failure::Interrupted("interrupted; all changes were undone".to_owned()));
    }
    if matches!(&aim.members, Some(members @ Members::Trees(_)) if members.tasks().is_empty()) {
        give_back(journal)?;
        let target = args.target.words();
        return Err(Failure::input(format!("{target} has ended meanwhile; all changes were undone")));
    }
    let printed = print(args.format, &applied);
    if let Some(members) = aim.members.as_ref().filter(|_| args.follow) {
        let followed = match printed {
            Err(Failure::ReaderGone) => {
                Err(Failure::missing("standard output was closed; all changes were undone"))
            }
            printed => printed.and_then(|()| follow::follow(&job, members, &signals)),
        };
        return give_back(journal).and(followed);
    }
    printed?;
    match applied.ignored().count() {
        0 => Ok(()),
        count => Err(Failure::Check(format!(
            "the kernel silently ignored {count} of {} limits and kept the old values; 'manycore undo {}' restores the \
             previous state",
            applied.limits.len(),
            journal.id()
        ))),
    }
}

/// Checks that the name is a valid directory name for the kernel and cannot be mistaken for a group of
/// another tool.
fn check_name(name: Option<&str>) -> Outcome {
    let Some(name) = name else { return Ok(()) };
    let why = match name {
        "" => "it is empty",
        "info" | "mon_data" | "mon_groups" => "the kernel has a directory of that name",
        "tasks" | "schemata" | "cpus" | "cpus_list" | "mode" | "size" => "the kernel has a file of that name",
        _ if name.contains('/') => "groups with limits cannot be nested, so a name has no '/'",
        _ if name.starts_with('.') => "it begins with a dot",
        _ if name.starts_with("qemu-") => "names that begin with qemu- are those of libvirt",
        _ if name.len() > 200 => "it is longer than 200 bytes",
        _ if name.chars().any(|letter| letter.is_whitespace() || letter.is_control()) => "it has a blank",
        _ => return Ok(()),
    };
    Err(Failure::input(format!("--name {name:?}: {why}")))
}

fn failure(refused: &Refused) -> Failure {
    let message = format!("{refused}; all changes were undone");
    match refused {
        Refused::Exists(_) | Refused::Gone(_) => Failure::input(message),
        _ => Failure::missing(message),
    }
}

/// Returns the description of the request for the journal.
fn asked(args: &QosSet) -> String {
    format!("qos set {}", args.target.words())
}

fn begin(args: &QosSet) -> Outcome<Journal> {
    let what = asked(args);
    let folder = manycore_control::journal::folder();
    Journal::begin(&folder, "qos", &what, !args.follow).map_err(|error| {
        Failure::missing(format!(
            "cannot write a journal in {}: {error}; nothing was changed",
            folder.display()
        ))
    })
}

fn mount(args: &QosSet) -> Outcome<Journal> {
    let journal = begin(args)?;
    match manycore_qos::write::mount(&journal, Path::new(resctrl::DEFAULT)) {
        Ok(()) => Ok(journal),
        Err(refused) => {
            journal.discard();
            Err(failure(&refused))
        }
    }
}

/// Undoes the changes in a journal, and reports those that cannot be undone.
pub(super) fn give_back(journal: Journal) -> Outcome {
    let id = journal.id();
    let restored =
        journal.undo().map_err(|error| Failure::missing(format!("cannot read the journal {id}: {error}")))?;
    placing::report_restored(&restored, &id, false)
}

/// Returns the name of a new group: `manycore-812` for the journal `qos-812`.
fn named_after(journal: &Journal) -> String {
    let id = journal.id();
    format!("manycore-{}", id.strip_prefix("qos-").unwrap_or(&id))
}

/// Returns the result of a dry run.
fn foreseen(args: &QosSet, state: &State, aim: &Aim) -> Applied {
    let before = aim.group.as_ref().map(|group| &group.schemata);
    Applied {
        schema: APPLIED_SCHEMA.to_owned(),
        target: args.target.words(),
        group: aim.group.as_ref().map(|group| group.title().to_owned()).or_else(|| args.name.clone()),
        made: aim.group.is_none(),
        dialect: state.offer.dialect,
        tasks: aim.members.as_ref().map_or(0, |members| members.tasks().len()),
        cpus: aim.cpus.clone(),
        limits: aim.writes.iter().flat_map(|write| tell(write, before, None, &state.offer)).collect(),
        notes: aim.notes.clone(),
        journal: None,
        offer: state.offer.clone(),
    }
}

fn print(format: Format, applied: &Applied) -> Outcome {
    match format {
        Format::Text => output::print(&text::applied(applied)),
        Format::Json => output::print(&output::json(applied)?),
    }
}
