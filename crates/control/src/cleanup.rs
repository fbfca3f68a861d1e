//! A process that cleans up after this one, however this one ends, SIGKILL included.
//!
//! It is another instance of the program. Its standard input is a pipe whose other end only this process has.
//! Each thing that would outlive this process is announced through the pipe before it exists, or at once
//! where its name is not known before. The kernel closes the pipe when this process ends. The cleanup process
//! then removes what was announced, unless [`Cleanup`] was dropped, which ends it without effect.
//!
//! A parent-death signal (`PR_SET_PDEATHSIG`) is no substitute: it kills a child, but not what the child
//! started. It is also sent when the parent's *thread* exits.

use crate::{
    error::{Error, Result},
    group_end, journal,
    scheduler::MARK,
};
use manycore_linux::tasks;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The hidden subcommand of the program that runs [`run`].
pub const SUBCOMMAND: &str = "cleanup";

/// Maximum number of scans of all processes. Processes that fork during a scan are found by the next one.
const MAX_SCANS: usize = 1000;

/// Maximum time to wait until the owner has ended, in seconds. Its pipe is closed before its lock on its
/// journal is released.
const OWNER_END_SECONDS: i64 = 10;

/// The program that runs the cleanup process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Returns the running program with [`SUBCOMMAND`].
    pub fn own() -> Self {
        Self { path: "/proc/self/exe".into(), arguments: vec![SUBCOMMAND.into()] }
    }
}

/// A thing that the cleanup process removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// All processes with this assignment (`NAME=VALUE`) in their environment are killed.
    Marked(OsString),
    /// All processes of a process group are killed, which a process began that started at this time
    /// ([`tasks::start_time`]). Unlike an environment, which a process can overwrite with its title, a group is inherited
    /// unnoticed.
    ProcessGroup(u32, u64),
    /// The processes of this control group are killed, and the group is removed.
    Group(PathBuf),
    /// A directory is removed with its contents.
    Directory(PathBuf),
    /// A System V object is removed, in the notation of the function that is given to [`run`].
    SystemV(OsString),
    /// The changes in the journal with this id are undone. This comes last.
    Journal(OsString),
}

/// A running cleanup process. When this is dropped, the cleanup process ends and removes nothing.
#[derive(Debug)]
pub struct Cleanup {
    child: Child,
}

impl Cleanup {
    /// Starts the cleanup process.
    ///
    /// # Errors
    /// [`Error::CleanupNotStarted`].
    pub fn start(program: &Program) -> Result<Self> {
        let child = Command::new(&program.path)
            .args(&program.arguments)
            // That of a scheduler's program undoes what the program has changed, so it must outlive it.
            .env_remove(MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Signals of the terminal are sent to our process group and must not end it.
            .process_group(0)
            .spawn()
            .map_err(Error::CleanupNotStarted)?;
        let mut cleanup = Self { child };
        cleanup.send(Record::Owner(std::process::id()))?;
        Ok(cleanup)
    }

    /// Returns the id of the cleanup process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Announces a thing that must not outlive this process.
    ///
    /// # Errors
    /// [`Error::CleanupEnded`].
    pub fn add(&mut self, leftover: Leftover) -> Result {
        self.send(Record::Leftover(leftover))
    }

    fn send(&mut self, record: Record) -> Result {
        let sent = self.child.stdin.as_mut().map(|pipe| pipe.write_all(&record.encode()));
        sent.unwrap_or(Ok(())).map_err(Error::CleanupEnded)
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = self.send(Record::Done);
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What is sent through the pipe: a word, a space, a value, and a NUL, which neither paths nor environments
/// contain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    /// The process id of the process to clean up after.
    Owner(u32),
    Leftover(Leftover),
    /// There is nothing to remove.
    Done,
}

impl Record {
    fn encode(self) -> Vec<u8> {
        let (word, value): (_, OsString) = match self {
            Self::Owner(pid) => ("owner", pid.to_string().into()),
            Self::Leftover(Leftover::Marked(assignment)) => ("marked", assignment),
            Self::Leftover(Leftover::ProcessGroup(leader, start)) => {
                ("processes", format!("{leader} {start}").into())
            }
            Self::Leftover(Leftover::Group(path)) => ("group", path.into()),
            Self::Leftover(Leftover::Directory(path)) => ("directory", path.into()),
            Self::Leftover(Leftover::SystemV(object)) => ("sysv", object),
            Self::Leftover(Leftover::Journal(id)) => ("journal", id),
            Self::Done => ("done", OsString::new()),
        };
        [word.as_bytes(), b" ", value.as_bytes(), b"\0"].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let value = OsString::from_vec(bytes[space + 1..].to_vec());
        Some(match &bytes[..space] {
            b"owner" => Self::Owner(value.to_str()?.parse().ok()?),
            b"marked" => Self::Leftover(Leftover::Marked(value)),
            b"processes" => {
                let (leader, start) = value.to_str()?.split_once(' ')?;
                Self::Leftover(Leftover::ProcessGroup(leader.parse().ok()?, start.parse().ok()?))
            }
            b"group" => Self::Leftover(Leftover::Group(value.into())),
            b"directory" => Self::Leftover(Leftover::Directory(value.into())),
            b"sysv" => Self::Leftover(Leftover::SystemV(value)),
            b"journal" => Self::Leftover(Leftover::Journal(value)),
            b"done" => Self::Done,
            _ => return None,
        })
    }

    /// Returns the complete records; the last one may have been cut short by the end of the writer.
    fn decode_all(bytes: &[u8]) -> Vec<Self> {
        let complete = bytes.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        bytes[..complete].split(|byte| *byte == 0).filter_map(Self::decode).collect()
    }
}

/// The main function of the cleanup process: waits for the end of `announced`, its standard input, and
/// removes what was announced there. System V objects are removed by `remove_sysv`, which gets their names.
pub fn run(mut announced: impl Read, remove_sysv: &dyn Fn(&str)) {
    let mut bytes = Vec::new();
    // After an error, what was read is cleaned up.
    let _ = announced.read_to_end(&mut bytes);
    let records = Record::decode_all(&bytes);
    if records.contains(&Record::Done) {
        return;
    }
    let leftovers = || {
        records.iter().filter_map(|record| match record {
            Record::Leftover(leftover) => Some(leftover),
            Record::Owner(_) | Record::Done => None,
        })
    };
    // Processes of one group may be frozen by another.
    let groups = leftovers().filter_map(|leftover| match leftover {
        Leftover::Group(path) => Some(path),
        _ => None,
    });
    group_end::kill_all(&groups.collect::<Vec<_>>());
    for leftover in leftovers() {
        match leftover {
            Leftover::Marked(assignment) => {
                kill_marked(&assignment.to_string_lossy());
            }
            Leftover::ProcessGroup(leader, start) => {
                kill_group(*leader, *start);
            }
            Leftover::Group(path) => drop(group_end::end(path)),
            Leftover::Directory(path) => drop(fs::remove_dir_all(path)),
            Leftover::SystemV(object) => remove_sysv(&object.to_string_lossy()),
            Leftover::Journal(_) => {}
        }
    }
    let is_announced = |id: &str| {
        leftovers().any(|leftover| matches!(leftover, Leftover::Journal(own) if own == OsStr::new(id)))
    };
    if leftovers().any(|leftover| matches!(leftover, Leftover::Journal(_))) {
        let owner = records.iter().find_map(|record| match record {
            Record::Owner(pid) => Some(*pid),
            _ => None,
        });
        owner.into_iter().for_each(wait_for_end);
        undo_journals(&journal::folder(), &is_announced);
    }
}

/// Kills all processes with `assignment` in their environment. Returns their number.
pub fn kill_marked(assignment: &str) -> usize {
    kill_all(&|pid| tasks::has_environment(pid, assignment))
}

/// Kills the process group that a process began which started at `start`. If another process has its id now, the group is
/// not the same. Returns the number of processes.
pub(crate) fn kill_group(leader: u32, start: u64) -> usize {
    if tasks::start_time(leader).is_some_and(|other| other != start) {
        return 0;
    }
    kill_all(&|pid| tasks::process_group(pid) == Some(leader))
}

/// Kills the processes that are meant, until there are none. Returns their number.
fn kill_all(is_meant: &dyn Fn(u32) -> bool) -> usize {
    let mut killed = BTreeSet::new();
    for _ in 0..MAX_SCANS {
        let found: Vec<u32> = tasks::all().into_iter().filter(|pid| kill_if(*pid, is_meant)).collect();
        if found.is_empty() {
            break;
        }
        killed.extend(found);
    }
    killed.len()
}

/// Kills process `pid` if it is meant; returns whether it was killed. The pidfd comes first: a process that gets the same
/// id later is not killed.
fn kill_if(pid: u32, is_meant: &dyn Fn(u32) -> bool) -> bool {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pidfd) = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else { return false };
    is_meant(pid) && tasks::is_alive(pid) && pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
}

fn wait_for_end(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pidfd) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
        let limit = Timespec { tv_sec: OWNER_END_SECONDS, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit));
    }
}

fn undo_journals(folder: &Path, is_announced: &dyn Fn(&str) -> bool) {
    let journals = journal::pending(folder).map(|(journals, _)| journals).unwrap_or_default();
    for pending in journals.iter().filter(|pending| is_announced(&pending.id())) {
        let _ = pending.undo();
    }
}

/// Returns what a killed owner of these would have sent.
#[cfg(test)]
pub(crate) fn announcement(leftovers: &[Leftover]) -> Vec<u8> {
    leftovers.iter().flat_map(|leftover| Record::Leftover(leftover.clone()).encode()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn encode(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(|record| record.clone().encode()).collect()
    }

    #[test]
    fn records_survive_the_pipe_and_a_record_that_was_cut_short_is_ignored() {
        let records = [
            Record::Owner(7),
            Record::Leftover(Leftover::Marked("A=b c".into())),
            Record::Leftover(Leftover::ProcessGroup(31, 77_000)),
            Record::Leftover(Leftover::Group("/sys/fs/cgroup/x".into())),
            Record::Leftover(Leftover::Directory(
                OsString::from_vec(b"/tmp/two\nlines \xff".to_vec()).into(),
            )),
            Record::Leftover(Leftover::SystemV("sem:3".into())),
            Record::Leftover(Leftover::Journal("9-1".into())),
            Record::Done,
        ];
        let mut bytes = encode(&records);
        assert_eq!(Record::decode_all(&bytes), records);
        bytes.pop();
        assert_eq!(Record::decode_all(&bytes), records[..records.len() - 1]);
        assert_eq!(Record::decode_all(b""), []);
        assert_eq!(Record::decode_all(b"later 1\0owner x\0"), []);
    }

    #[test]
    fn leftovers_are_removed_only_where_the_owner_has_not_done_so() {
        let above = tempfile::tempdir().unwrap();
        let scratch = above.path().join("scratch");
        let left = [
            Record::Leftover(Leftover::Directory(scratch.clone())),
            Record::Leftover(Leftover::SystemV("msg:5".into())),
        ];
        let done = [&left[..], &[Record::Done]].concat();
        for (records, objects) in [(&done[..], &[][..]), (&left[..], &["msg:5"][..])] {
            fs::create_dir_all(scratch.join("inner")).unwrap();
            let removed = RefCell::new(Vec::new());
            run(encode(records).as_slice(), &|object| removed.borrow_mut().push(object.to_owned()));
            assert_eq!(*removed.borrow(), objects);
            assert_eq!(scratch.exists(), objects.is_empty());
        }
    }

    /// Regression test: the workers of a server whose environment is overwritten by its title were left.
    #[test]
    fn a_process_group_is_killed_after_the_end_of_its_leader() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo started"]).process_group(0).stdout(Stdio::piped());
        let mut leader = shell.spawn().unwrap();
        let (pid, start) = (leader.id(), tasks::start_time(leader.id()).unwrap());
        // The descriptor is open in the background process, so only its line can be awaited.
        let mut line = [0; 7];
        leader.stdout.take().unwrap().read_exact(&mut line).unwrap();
        let members = || tasks::all().into_iter().filter(|&one| tasks::process_group(one) == Some(pid));
        let kill =
            |start| run(encode(&[Record::Leftover(Leftover::ProcessGroup(pid, start))]).as_slice(), &|_| {});
        // Of another leader.
        kill(start + 1);
        assert!(members().count() >= 1);
        leader.wait().unwrap();
        kill(start);
        while members().any(tasks::is_alive) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn marked_processes_are_killed_with_what_they_started() {
        let mark = format!("MANYCORE_CLEANUP_TEST={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & sleep 1000"]).env(name, value);
        let mut child = shell.spawn().unwrap();
        while !tasks::has_environment(child.id(), &mark) {
            std::thread::yield_now();
        }
        run(encode(&[Record::Leftover(Leftover::Marked(mark.clone().into()))]).as_slice(), &|_| {});
        assert!(!child.wait().unwrap().success());
        assert!(!tasks::all().into_iter().any(|pid| tasks::has_environment(pid, &mark)));
    }
}
