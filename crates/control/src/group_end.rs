//! Ends control groups with all processes in them.

use crate::group_dir::{children, members_below};
use manycore_linux::{child, pidfd::open_pidfd, tasks};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, kill_process, pidfd_send_signal},
};
use std::{
    collections::BTreeSet,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Maximum time until all processes of a group have ended and the kernel lets it be removed.
const MAX_END: Duration = Duration::from_secs(10);

/// Number of processes that are waited for at a time.
const MAX_OPEN: usize = 256;

/// Interval between two attempts to remove a group. Its last task leaves it a little after its end, and nothing reports
/// that.
const RETRY: Duration = Duration::from_millis(2);

/// Kills all processes in the group `folder` and in groups below it, and removes them. Returns the number of processes.
///
/// # Errors
/// The group cannot be removed.
pub(crate) fn end(folder: &Path) -> io::Result<usize> {
    let killed = kill_all(&[folder]);
    remove(folder)?;
    Ok(killed)
}

/// Kills all processes in these groups and in groups below them, and waits for their end. Returns their number. Groups of
/// one instance in several hierarchies must be given together: processes that one of them freezes end only when it thaws.
pub(crate) fn kill_all(folders: &[impl AsRef<Path>]) -> usize {
    let deadline = Instant::now() + MAX_END;
    let mut killed = BTreeSet::new();
    while Instant::now() < deadline {
        let dying = kill_members(folders);
        for folder in folders {
            thaw(folder.as_ref());
        }
        if dying.is_empty() {
            break;
        }
        killed.extend(dying.iter().map(|(pid, _)| *pid));
        for process in dying.iter().filter_map(|(_, process)| process.as_ref()) {
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&child::left(deadline)));
        }
    }
    killed.len()
}

/// Sends SIGKILL to the members of groups. Returns those to which it was sent, some of them with a pidfd. The pidfds come
/// first: a process that gets the same id later is not in the groups, and is not killed. A large group takes more of them
/// than a process may have.
fn kill_members(folders: &[impl AsRef<Path>]) -> Vec<(u32, Option<OwnedFd>)> {
    let members = || -> BTreeSet<u32> {
        let all = folders.iter().flat_map(|folder| members_below(folder.as_ref()));
        all.filter(|&pid| pid != std::process::id() && tasks::is_alive(pid)).collect()
    };
    let open = |(index, pid)| (pid, if index < MAX_OPEN { open_pidfd(pid).ok() } else { None });
    let opened: Vec<(u32, Option<OwnedFd>)> = members().into_iter().enumerate().map(open).collect();
    let still = members();
    let killed = |(pid, process): &(u32, Option<OwnedFd>)| {
        let kill = || match process {
            Some(process) => pidfd_send_signal(process, Signal::KILL).is_ok(),
            None => i32::try_from(*pid)
                .ok()
                .and_then(Pid::from_raw)
                .is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()),
        };
        still.contains(pid) && kill()
    };
    opened.into_iter().filter(killed).collect()
}

/// Lets frozen processes run, so that those that were killed end. In version 2 they end while they are frozen.
fn thaw(folder: &Path) {
    for folder in with_groups_below(folder) {
        let state = folder.join("freezer.state");
        if state.exists() {
            // The group may vanish at any time.
            let _ = fs::write(state, "THAWED");
        }
    }
}

/// Removes a group and the groups below it. A group that does not exist is no error.
///
/// # Errors
/// A process is still in one of them, or they cannot be written.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let deadline = Instant::now() + MAX_END;
    loop {
        let all = with_groups_below(folder);
        let removed = all.iter().rev().try_for_each(|one| match fs::remove_dir(one) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        });
        match removed {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                kill_all(&[folder]);
                thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

/// Returns a group and all groups below it, each after the one that contains it.
fn with_groups_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(folder) = found.get(next) {
        let below = children(folder);
        found.extend(below);
        next += 1;
    }
    found
}
