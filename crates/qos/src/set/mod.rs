//! Limits a target: resolves it, finds or creates its group, writes the limits, reads them back and moves the tasks.
//! Each change is recorded in a journal before it is made.

mod apply;
mod earlier_group;
mod resolve;

pub use apply::AppliedLimits;

use crate::{
    changes::{CHANGES_SCHEMA, LimitChanges},
    error::{Error, Result},
    limit_outcome::limit_outcomes,
    request::LimitRequest,
    system::{begin_journal, created_groups, open, system, undo_changes},
    write,
};
use apply::GroupChange;
use manycore_control::journal::Journal;
use manycore_experiment::session::Listener;
use manycore_linux::{
    resctrl::{self, Files, FindError, state::QosState},
    targets::{Members, Target},
};
use manycore_topology::CpuSet;
use resolve::ResolvedRequest;
use std::path::{Path, PathBuf};

/// What is limited, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is limited.
    pub target: LimitTarget,
    /// The target as the user wrote it: the name of the target in the journal and in results. A later request with the
    /// same text changes the group that this one creates.
    pub description: String,
    /// The limits.
    pub limits: LimitRequest,
    /// Name of the new group; chosen if absent.
    pub name: Option<String>,
    /// Whether tasks that enter the target later are moved as well, until the end of this process.
    pub follow: bool,
    /// Whether resctrl is mounted if it is not.
    pub mount: bool,
    /// The mount point of resctrl; found if absent.
    pub resctrl: Option<PathBuf>,
}

/// What is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitTarget {
    /// Tasks, which are moved into a group.
    Tasks(Target),
    /// Tasks on these CPUs that are in no other group.
    Cpus(CpuSet),
    /// An existing group; `/` is the default group.
    Group(String),
}

/// A request of which everything is checked, and nothing but a mount is done.
#[derive(Debug)]
pub struct PlannedLimits<'a> {
    options: &'a Options,
    files: Files,
    state: QosState,
    resolved: ResolvedRequest,
    /// The journal of the mount, which is continued with the changes to groups.
    mounted: Option<Journal>,
}

/// Resolves the target, and translates its limits to the syntax of this kernel.
///
/// # Errors
/// The request is not valid here; nothing is changed then.
pub fn plan<'a>(options: &'a Options, listener: &mut dyn Listener) -> Result<PlannedLimits<'a>> {
    check_name(options.name.as_deref())?;
    if options.limits.is_empty() {
        return Err(Error::NoLimit);
    }
    let system = system()?;
    let mounted = if options.mount && resctrl::find(&system, None) == Err(FindError::NotMounted) {
        Some(mount(options)?)
    } else {
        None
    };
    let resolve = || {
        let files = open(&system, options.resctrl.as_deref())?;
        let state = files.state(&created_groups());
        let resolved = resolve::resolve(options, &system, &files, &state)?;
        Ok::<_, Error>((files, state, resolved))
    };
    match (resolve(), mounted) {
        (Ok((files, state, resolved)), mounted) => {
            Ok(PlannedLimits { options, files, state, resolved, mounted })
        }
        (Err(error), None) => Err(error),
        (Err(error), Some(journal)) => undo_changes(journal, listener).and(Err(error)),
    }
}

impl PlannedLimits<'_> {
    /// Returns what would be changed, without changing it.
    pub fn preview(&self) -> LimitChanges {
        let (resolved, state) = (&self.resolved, &self.state);
        let group = resolved.group.as_ref();
        let before = group.map(|group| &group.schemata);
        let outcomes = |write| limit_outcomes(write, before, None, &state.capabilities);
        LimitChanges {
            schema: CHANGES_SCHEMA.to_owned(),
            target: self.options.description.clone(),
            group: group.map(|group| group.display_name().to_owned()).or_else(|| self.options.name.clone()),
            created: group.is_none(),
            dialect: state.capabilities.dialect,
            tasks: resolved.members.as_ref().map_or(0, |members| members.tasks().len()),
            cpus: resolved.cpus.clone(),
            limits: resolved.writes.iter().flat_map(outcomes).collect(),
            notes: resolved.notes.clone(),
            journal: None,
            capabilities: state.capabilities.clone(),
        }
    }

    /// Makes the changes. `is_interrupted` is called once they are made.
    ///
    /// # Errors
    /// [`Error::Undone`] if the kernel refused a change, the target has ended or `is_interrupted` is true: all changes
    /// were undone. [`Error::NotUndone`] if some could not be undone.
    pub fn apply(
        self,
        is_interrupted: &dyn Fn() -> bool,
        listener: &mut dyn Listener,
    ) -> Result<AppliedLimits> {
        let Self { options, files, resolved, mounted, .. } = self;
        let journal = mounted.map_or_else(|| begin_journal(&request(options), !options.follow), Ok)?;
        let name = resolved.group.as_ref().map(|group| group.name.clone());
        let name = name.or_else(|| options.name.clone()).unwrap_or_else(|| named_after(&journal));
        let change =
            GroupChange { files: &files, journal: &journal, name: &name, create: resolved.group.is_none() };
        let ended = || match &resolved.members {
            Some(members @ Members::ProcessTrees(_)) if members.tasks().is_empty() => {
                Err(Error::TargetEnded(options.description.clone()))
            }
            _ => Ok(()),
        };
        let changes = change
            .apply(options, &resolved)
            .map_err(Error::from)
            .and_then(|changes| if is_interrupted() { Err(Error::Interrupted) } else { Ok(changes) })
            .and_then(|changes| ended().map(|()| changes));
        match changes {
            Ok(changes) => Ok(AppliedLimits::new(changes, files, journal, name, resolved.members)),
            Err(error) => undo_changes(journal, listener).and(Err(error.undone())),
        }
    }
}

/// Checks that the name is a valid directory name for the kernel and cannot be mistaken for a group of another tool.
fn check_name(name: Option<&str>) -> Result {
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
    Err(Error::GroupName { name: name.to_owned(), why })
}

/// Returns the description of the request for the journal.
fn request(options: &Options) -> String {
    format!("qos set {}", options.description)
}

fn mount(options: &Options) -> Result<Journal> {
    let journal = begin_journal(&request(options), !options.follow)?;
    match write::mount(&journal, Path::new(resctrl::DEFAULT)) {
        Ok(()) => Ok(journal),
        Err(refused) => {
            journal.discard();
            Err(Error::from(refused).undone())
        }
    }
}

/// Returns the name of a new group: `manycore-812` for the journal `qos-812`.
fn named_after(journal: &Journal) -> String {
    let id = journal.id();
    format!("manycore-{}", id.strip_prefix("qos-").unwrap_or(&id))
}
