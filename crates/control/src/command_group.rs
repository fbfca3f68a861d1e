//! The control group in which a command is started, so that all its descendants can be found (`cgroups(7)`).
//!
//! Membership is inherited. It survives what hides a process from its parent: a double fork, setsid(2), an
//! environment of its own. The group limits nothing: in version 1 it is in a hierarchy whose controller only
//! counts, or does nothing until it is used; in version 2 it inherits everything.
#![allow(unsafe_code, reason = "clone3(2) starts a process in a group of version 2")]

use crate::{
    GroupError, cpuset, group_dir,
    journal::{Change, Journal},
};
use manycore_linux::{child, tasks};
use manycore_topology::{
    cgroup::{self, GroupFolder, HierarchyKind},
    sys_tree::SysTree,
};
use rustix::process::Pid;
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, PipeWriter, Read, Write},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

/// Controllers of version 1 whose groups change nothing for their members, the most useful first: `cpuacct`
/// also counts CPU time.
const NEUTRAL_CONTROLLERS: [&str; 3] = ["cpuacct", "freezer", "pids"];

/// Controllers that may be mounted together with these, but do affect their members.
const LIMITING_CONTROLLERS: [&str; 3] = ["cpu", "cpuset", "memory"];

/// A group created by manycore below the group of this process.
#[derive(Debug)]
pub struct CommandGroup {
    folder: PathBuf,
    flavour: HierarchyKind,
}

impl CommandGroup {
    /// Creates a group, named after the journal.
    ///
    /// # Errors
    /// Why it cannot be created.
    pub fn create(journal: &Journal) -> Result<Self, GroupError> {
        let tree = SysTree::open(Path::new("/"))?;
        let mut why = GroupError::NotMounted;
        for candidate in candidate_groups(&tree) {
            let parent = Path::new("/").join(&candidate.path);
            match create_in(journal, &parent, candidate.flavour) {
                Ok(folder) => return Ok(Self { folder, flavour: candidate.flavour }),
                Err(error) => why = GroupError::Create { what: "control group", parent, error },
            }
        }
        Err(why)
    }

    /// Returns its directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts `command` in it, as [`child::spawn_detached`] would.
    ///
    /// # Errors
    /// Errors of starting a program.
    pub fn launch(&self, command: &mut Command, start: &child::StartPlacement) -> io::Result<Pid> {
        if self.flavour == HierarchyKind::Unified {
            let group = File::open(&self.folder)?;
            child::prepare(command, start);
            if let Some(started) = start_in(command, &group) {
                return started;
            }
            child::enter_cgroup(
                command,
                OpenOptions::new().write(true).open(self.folder.join("cgroup.procs"))?,
            );
            return command.spawn().map(|child| Pid::from_child(&child));
        }
        // A thread that moves itself does not wait for a grace period, unlike a process
        // (`cgroup_procs_write_start`).
        child::enter_cgroup(command, OpenOptions::new().write(true).open(self.folder.join("tasks"))?);
        child::spawn_detached(command, start).map(|child| Pid::from_child(&child))
    }

    /// Whether process `pid` is in it.
    pub fn holds(&self, pid: u32) -> bool {
        group_dir::members_below(&self.folder).contains(&pid)
    }

    /// Returns the processes in it and in groups below it.
    pub fn members(&self) -> BTreeSet<u32> {
        group_dir::members_below(&self.folder)
    }

    /// Returns the CPU time in nanoseconds of all processes that are or were in it, if the hierarchy counts
    /// it.
    pub fn cpu_ns(&self) -> Option<u64> {
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).ok();
        if self.flavour == HierarchyKind::Unified {
            let text = read("cpu.stat")?;
            let value = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
            return value.trim().parse::<u64>().ok()?.checked_mul(1000);
        }
        read("cpuacct.usage")?.trim().parse().ok()
    }

    /// Removes it again, if no process has entered it.
    pub fn remove_unused(self) {
        let _ = group_dir::remove(&self.folder);
    }
}

/// Returns the groups of this process that may have a child without effect on its members, the best first.
fn candidate_groups(tree: &SysTree) -> Vec<GroupFolder> {
    let named =
        NEUTRAL_CONTROLLERS.iter().filter_map(|name| cgroup::own_named(tree, name, &LIMITING_CONTROLLERS));
    let unified = cgroup::own_unified(tree);
    named.chain(unified).collect()
}

fn create_in(journal: &Journal, above: &Path, flavour: HierarchyKind) -> io::Result<PathBuf> {
    let folder = above.join(cpuset::name_of(journal));
    journal.record(&Change::ControlGroup { path: folder.clone() })?;
    fs::create_dir(&folder)?;
    // The child of a group that contains processes can have a cpuset only as a threaded group.
    if flavour == HierarchyKind::Unified && above.join("cgroup.type").exists() {
        let _ = fs::write(folder.join("cgroup.type"), "threaded");
    }
    Ok(folder)
}

/// `CLONE_INTO_CGROUP` of `linux/sched.h`, since Linux 5.7: unlike a move it does not wait for a grace
/// period.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Starts a prepared command in a group of version 2; absent if the kernel cannot do that.
fn start_in(command: &mut Command, group: &File) -> Option<io::Result<Pid>> {
    if tasks::threads(std::process::id()).len() != 1 {
        return None;
    }
    let (mut reader, writer) = io::pipe().ok()?;
    // SAFETY: all bits zero is a valid value of the structure.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = group.as_raw_fd() as u64;
    let size = size_of_val(&arguments);
    // SAFETY: equivalent to fork(2) in a process with a single thread: the child is a complete copy, and
    // never returns from here.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) } {
        -1 => None,
        0 => become_program(command, writer),
        pid => {
            drop(writer);
            let mut number = [0; 4];
            let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
            Some(match reader.read_exact(&mut number) {
                // The pipe was closed by exec: the program has started.
                Err(_) => Ok(pid),
                Ok(()) => {
                    let _ = child::reap_blocking(pid);
                    Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
                }
            })
        }
    }
}

/// Replaces this process by the program; if that fails, writes the error number to the pipe.
fn become_program(command: &mut Command, mut writer: PipeWriter) -> ! {
    let error = command.exec();
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::InvalidInput => libc::EINVAL,
        _ => libc::EIO,
    });
    let _ = writer.write_all(&number.to_ne_bytes());
    // SAFETY: it ends this process without running any code of the parent.
    unsafe { libc::_exit(127) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::child::StartPlacement;
    use std::time::{Duration, Instant};

    /// Starts a process in a group of this hierarchy that hides from its parent, and finds it.
    fn hides_in(flavour: HierarchyKind) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::begin(folder.path(), "test", "a control group", false).unwrap();
        let tree = SysTree::open(Path::new("/")).unwrap();
        let Some(parent) = candidate_groups(&tree).into_iter().find(|group| group.flavour == flavour) else {
            return eprintln!("SKIPPED: no hierarchy of this version");
        };
        let group = match create_in(&journal, &Path::new("/").join(parent.path), flavour) {
            Ok(folder) => CommandGroup { folder, flavour },
            Err(error) => return eprintln!("SKIPPED: no group can be created here: {error}"),
        };
        let mut command = Command::new("sh");
        command.args(["-c", "(env -i setsid sleep 1000 >/dev/null 2>&1 &) & wait"]);
        let shell = group.launch(&mut command, &StartPlacement::default()).unwrap();
        let _ = child::reap_blocking(shell).unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        let hidden = loop {
            let is_sleep = |pid: &u32| tasks::name(*pid).as_deref() == Some("sleep");
            if let Some(hidden) = group.members().into_iter().find(is_sleep) {
                break hidden;
            }
            assert!(Instant::now() < deadline, "it is not in its group: {:?}", group.members());
            std::thread::yield_now();
        };
        assert!(group.holds(hidden));
        let pid = Pid::from_raw(hidden as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        // A program that does not exist is not started.
        let error =
            group.launch(&mut Command::new("/no/such/program"), &StartPlacement::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let restored = journal.undo().unwrap();
        assert_eq!((restored.failed, restored.control_groups), (vec![], 1));
    }

    #[test]
    fn hidden_processes_are_found_in_a_version_1_group() {
        hides_in(HierarchyKind::Named);
    }

    #[test]
    fn hidden_processes_are_found_in_a_version_2_group() {
        hides_in(HierarchyKind::Unified);
    }
}
