//! `manycore qos`: memory bandwidth and cache of groups of tasks, within limits.

mod clear;
mod prove;
mod set;
mod show;
mod watch;

use crate::{
    cli::{Qos, QosVerb, Resctrl},
    failure::{Failure, Outcome},
};
use manycore_control::journal;
use manycore_linux::resctrl::{self, Files, Missing};
use manycore_topology::Tree;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Shows, sets, proves or clears limits, or watches what they make of it.
pub fn run(args: &Qos) -> Outcome {
    match &args.verb {
        QosVerb::Show(args) => show::run(args),
        QosVerb::Set(args) => set::run(args),
        QosVerb::Watch(args) => watch::run(args),
        QosVerb::Prove(args) => prove::run(args),
        QosVerb::Clear(args) => clear::run(args),
    }
}

/// This system's files.
fn system() -> Outcome<Tree> {
    Tree::open(Path::new("/")).map_err(Failure::missing)
}

/// The mounted file system.
///
/// # Errors
/// [`Failure::Missing`] with what to do where there is none.
fn files(system: &Tree, args: &Resctrl) -> Outcome<Files> {
    let mount = resctrl::find(system, args.resctrl.as_deref()).map_err(|missing| {
        let hint = if missing == Missing::NotMounted { " (qos set --mount does it, until undo)" } else { "" };
        Failure::missing(format!("{missing}{hint}"))
    })?;
    Files::open(system, &mount).map_err(Failure::missing)
}

/// Folders of groups that we made, with the names of their journals. Whoever may not read those sees none.
fn ours() -> BTreeMap<PathBuf, String> {
    let (pending, _) = journal::pending(&journal::folder()).unwrap_or_default();
    manycore_qos::ours::ours(&pending)
}
