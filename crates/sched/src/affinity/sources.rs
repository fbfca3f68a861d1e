//! The processes of the work to which a policy applies.

use crate::{
    error::{Error, Result},
    run::Target,
};
use manycore_control::placement::{FollowedCommand, RunningProcesses};
use manycore_linux::{
    absent_process::hidden_others_suffix,
    targets::{self, Members},
    tasks,
};
use std::{collections::BTreeSet, fs};

/// Maximum length of a name in bytes (`TASK_COMM_LEN`, which counts a NUL).
const MAX_NAME: usize = 15;

/// Where the processes of a group come from.
pub(crate) enum ProcessSource {
    Processes(RunningProcesses),
    Name(String),
    Cgroup(Members),
    /// The command that is held by the session.
    Command,
}

impl ProcessSource {
    /// Finds the work.
    ///
    /// # Errors
    /// It does not exist.
    pub fn find(target: &Target) -> Result<Self> {
        Ok(match target {
            Target::Process(pid) => Self::Processes(RunningProcesses::open(&[*pid])?),
            Target::Name(name) => {
                if named(name).is_empty() {
                    return Err(Error::NoProcessNamed { name: name.clone(), hidden: hidden_others_suffix() });
                }
                Self::Name(name.clone())
            }
            Target::Cgroup(path) => Self::Cgroup(targets::Target::Cgroup(path.clone()).find()?),
            Target::Command(_) => Self::Command,
        })
    }

    /// Returns the processes that are named, without their descendants.
    fn roots(&self, command: Option<&FollowedCommand>) -> BTreeSet<u32> {
        match self {
            Self::Processes(processes) => processes.running().into_iter().collect(),
            Self::Name(name) => named(name),
            Self::Cgroup(members) => members.tasks().into_iter().filter_map(tasks::process_of).collect(),
            Self::Command => command.map(FollowedCommand::running).unwrap_or_default(),
        }
    }

    /// Returns all processes of the work; those in `known` belong to it even if their parents have ended.
    pub fn processes(&self, command: Option<&FollowedCommand>, known: &[u32]) -> BTreeSet<u32> {
        let roots = self.roots(command);
        match self {
            // Descendants outside of the group have left it.
            Self::Cgroup(_) => roots,
            _ => tasks::with_descendants(&roots.into_iter().chain(known.iter().copied()).collect::<Vec<_>>()),
        }
    }

    /// Returns whether no process that was named runs any more.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Processes(processes) => processes.running().is_empty(),
            Self::Command => false,
            _ => self.roots(None).is_empty(),
        }
    }
}

/// Returns all processes of this name, as `pgrep -x` finds them. The kernel cuts names after 15 bytes: a longer name has
/// to be that of the program as well. This process and its helpers, which have the same name, are not meant.
fn named(name: &str) -> BTreeSet<u32> {
    let start = name.as_bytes().get(..MAX_NAME).unwrap_or(name.as_bytes());
    let is_meant = |pid: &u32| {
        let Ok(comm) = fs::read(format!("/proc/{pid}/comm")) else { return false };
        comm.strip_suffix(b"\n").unwrap_or(&comm) == start
            && (name.len() <= MAX_NAME || program(*pid).as_deref() == Some(name.as_bytes()))
            && !tasks::is_kernel(*pid)
            && tasks::is_alive(*pid)
    };
    let mut found: BTreeSet<u32> = tasks::all().into_iter().filter(is_meant).collect();
    if !found.is_empty() {
        let descendants = tasks::with_descendants(&[std::process::id()]);
        let executable = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = executable(std::process::id());
        found.retain(|pid| !descendants.contains(pid) || executable(*pid) != own);
    }
    found
}

/// Returns the last part of the path by which a process was started.
fn program(pid: u32) -> Option<Vec<u8>> {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let path = arguments.split(|byte| *byte == 0).next()?;
    path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_is_the_whole_name_and_may_be_longer_than_the_kernel_keeps() {
        let folder = std::env::temp_dir().join(format!("manycore-sources-{}", std::process::id()));
        let long = format!("a-very-long-name-{}", std::process::id());
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("/bin/sleep", folder.join(&long)).unwrap();
        let mut child = Command::new(folder.join(&long)).arg("1000").spawn().unwrap();
        // Name and arguments are set a moment after the program has been started.
        while named(&long).is_empty() {
            std::thread::yield_now();
        }
        let found = [&long[..], &long[..15], &long[..16], "a-very", "no such name"].map(named);
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(folder).unwrap();
        let this = BTreeSet::from([child.id()]);
        assert_eq!(found[0], this);
        assert!(found[1].contains(&child.id()), "{found:?}");
        assert_eq!(found[2..], [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()]);
        assert!(matches!(ProcessSource::find(&Target::Name(long)).err(), Some(Error::NoProcessNamed { .. })));
    }
}
