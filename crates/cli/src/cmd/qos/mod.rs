//! `manycore qos`: limits of memory bandwidth and cache for groups of tasks.

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
use manycore_topology::SysTree;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Shows, sets, measures or clears limits, or watches the usage of groups.
pub fn run(args: &Qos) -> Outcome {
    match &args.verb {
        QosVerb::Show(args) => show::run(args),
        QosVerb::Set(args) => set::run(args),
        QosVerb::Watch(args) => watch::run(args),
        QosVerb::Prove(args) => prove::run(args),
        QosVerb::Clear(args) => clear::run(args),
    }
}

/// Opens the files of this system.
fn system() -> Outcome<SysTree> {
    SysTree::open(Path::new("/")).map_err(Failure::missing)
}

/// Opens the mounted resctrl file system.
///
/// # Errors
/// [`Failure::Missing`] with the next step if it is not mounted.
fn files(system: &SysTree, args: &Resctrl) -> Outcome<Files> {
    let mount = resctrl::find(system, args.resctrl.as_deref()).map_err(|missing| {
        let hint =
            if missing == Missing::NotMounted { " ('qos set --mount' mounts it until 'undo')" } else { "" };
        Failure::missing(format!("{missing}{hint}"))
    })?;
    Files::open(system, &mount).map_err(Failure::missing)
}

/// Returns the directories of the groups that manycore made, with the names of their journals. Empty for
/// users that may not read the journals.
fn ours() -> BTreeMap<PathBuf, String> {
    let (pending, _) = journal::pending(&journal::folder()).unwrap_or_default();
    manycore_qos::ours::ours(&pending)
}
