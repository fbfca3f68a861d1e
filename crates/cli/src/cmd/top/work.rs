//! The processes that are watched, and the command among them.

use super::ending;
use crate::{
    cli::TopWork,
    failure::{self, Failure, Outcome},
    terminal,
};
use manycore_linux::{
    child,
    targets::{Members, Target},
    tasks,
};
use manycore_text::{command_line::format_command, names::printable};
use manycore_top::{Picture, TaskId, serve::NamedUnit};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::{
    collections::{BTreeSet, HashSet},
    env,
    fs::File,
    io::{self, IsTerminal, stdin},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// The width of a terminal that does not say it.
const FALLBACK_COLUMNS: usize = 80;

/// Tasks that are remembered as those of the work. More are forgotten all at once.
const MOST_SEEN: usize = 200_000;

/// What is watched: all tasks, or those of some targets and of a command. The command is ended with it.
pub(super) struct Work {
    targets: Vec<NamedTarget>,
    words: Vec<String>,
    command: Option<Child>,
    /// The tasks that were among them: for earlier pictures, when some of them have ended.
    seen: HashSet<TaskId>,
}

/// A target with the name that the user gave it.
struct NamedTarget {
    name: String,
    members: Members,
    /// Its first processes with their start times: a process that gets the id of one that has ended is another one.
    roots: Vec<(u32, Option<u64>)>,
}

impl NamedTarget {
    fn new(name: String, members: Members) -> Self {
        let roots = match &members {
            Members::ProcessTrees(pids) => pids.iter().map(|&pid| (pid, tasks::start_time(pid))).collect(),
            Members::ControlGroup(_) => Vec::new(),
        };
        Self { name, members, roots }
    }

    fn tasks(&self) -> TargetTasks {
        let is_same = |&&(pid, start): &&(u32, Option<u64>)| tasks::start_time(pid) == start;
        match &self.members {
            Members::ProcessTrees(_) => {
                let left = self.roots.iter().filter(is_same).map(|(pid, _)| *pid).collect();
                TargetTasks::list(&self.name, &Members::ProcessTrees(left))
            }
            group @ Members::ControlGroup(_) => TargetTasks::list(&self.name, group),
        }
    }
}

/// The tasks of one target at a moment.
pub(super) struct TargetTasks {
    name: String,
    /// The directory of the control group that is the target.
    folder: Option<PathBuf>,
    tasks: BTreeSet<u32>,
}

/// Where the command writes.
pub(super) enum CommandOutput<'a> {
    /// It has our terminal; its output goes to standard error.
    Stderr,
    /// It neither reads from the terminal nor writes to it, and has no terminal.
    File(&'a File),
}

impl Work {
    /// Finds the targets.
    ///
    /// # Errors
    /// A target does not exist.
    pub fn find(args: &TopWork) -> Outcome<Self> {
        let found = |(name, target): (String, Target)| {
            Ok(NamedTarget::new(name, target.find().map_err(Failure::input)?))
        };
        let targets = args.targets().into_iter().map(found).collect::<Outcome<Vec<_>>>()?;
        Ok(Self { targets, words: args.command.clone(), command: None, seen: HashSet::new() })
    }

    /// Starts the command if there is one: last, when nothing else can fail any more. The kernel ends it if the calling
    /// thread ends.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self, output: &CommandOutput) -> Outcome {
        let Some((program, arguments)) = self.words.split_first() else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(arguments);
        let started = match output {
            CommandOutput::Stderr => {
                command.stdout(stderr().map_err(Failure::missing)?);
                child::spawn_at_terminal(&mut command)
            }
            CommandOutput::File(file) => {
                let copy = || file.try_clone().map_err(Failure::missing);
                if stdin().is_terminal() {
                    command.stdin(Stdio::null());
                }
                command.stdout(copy()?).stderr(copy()?);
                // What it prints is shown on this terminal later.
                if env::var_os("COLUMNS").is_none_or(|columns| columns.is_empty()) {
                    command.env("COLUMNS", terminal::stdout_columns(FALLBACK_COLUMNS).to_string());
                }
                child::spawn_in_session(&mut command)
            }
        };
        let failed = |error| Failure::input(format!("cannot start {}: {error}", format_command(&self.words)));
        self.command = Some(started.map_err(failed)?);
        Ok(())
    }

    /// Returns whether a command is watched.
    pub fn has_command(&self) -> bool {
        self.command.is_some()
    }

    /// Returns whether only some tasks are watched.
    pub fn is_limited(&self) -> bool {
        !self.targets.is_empty() || !self.words.is_empty()
    }

    /// Lists the tasks of the targets and of the command: once for a sample, as many files are read.
    pub fn tasks(&self) -> Vec<TargetTasks> {
        let targets = self.targets.iter().map(NamedTarget::tasks);
        let command = self.command.as_ref().map(|child| {
            let mut listed = TargetTasks::list("command", &Members::ProcessTrees(vec![child.id()]));
            // It may have ended: its counters are there until its status is taken.
            listed.tasks.insert(child.id());
            listed
        });
        targets.chain(command).collect()
    }

    /// Removes the tasks that are not watched from the tables. Sums over CPUs and units have all tasks.
    pub fn keep_only(&mut self, picture: &mut Picture, now: &[TargetTasks]) {
        if !self.is_limited() {
            return;
        }
        if self.seen.len() > MOST_SEEN {
            self.seen.clear();
        }
        let is_mine = |tid: u32| now.iter().any(|one| one.tasks.contains(&tid));
        let mine = picture.tasks.iter().filter(|task| is_mine(task.id.tid));
        self.seen.extend(mine.map(|task| task.id));
        self.keep_seen(picture);
    }

    /// As [`Self::keep_only`], for a picture of the past.
    pub fn keep_seen(&self, picture: &mut Picture) {
        if !self.is_limited() {
            return;
        }
        picture.tasks.retain(|task| self.seen.contains(&task.id));
        let pids: BTreeSet<u32> = picture.tasks.iter().map(|task| task.id.pid).collect();
        picture.processes.retain(|process| pids.contains(&process.pid));
    }

    /// Returns whether the command has ended. Its counters stay until [`ended`](Self::ended).
    pub fn has_ended(&self) -> bool {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let pid = self.command.as_ref().and_then(|child| Pid::from_raw(child.id() as i32));
        pid.is_some_and(|pid| !matches!(waitid(WaitId::Pid(pid), peek), Ok(None)))
    }

    /// Returns the exit status of the command if it has ended.
    pub fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        match &mut self.command {
            Some(child) => child.try_wait().map_err(Failure::missing),
            None => Ok(None),
        }
    }

    /// Ends the command if it still runs, and returns its status as that of this program.
    pub fn end(mut self, reported: Outcome) -> Outcome {
        let Some(mut command) = self.command.take() else { return reported };
        if let Some(status) = command.try_wait().map_err(Failure::missing)? {
            return failure::of_command(status, reported);
        }
        let is_own = ending::is_this_program(command.id());
        match ending::end(&mut command, &name(&self.words), is_own)? {
            // It tidied up and has a status of its own; otherwise it was ended by our signal.
            status if status.code().is_some() => failure::of_command(status, reported),
            _ => reported,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(command) = &mut self.command {
            child::kill(command);
        }
    }
}

/// Returns what a user calls a command: `manycore guard` with `--live`, which has no command of its own.
fn name(words: &[String]) -> String {
    let program =
        words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    match (&*program, words.get(1)) {
        ("manycore" | "exe", Some(subcommand)) => format!("manycore {}", printable(subcommand)),
        _ => printable(&program),
    }
}

impl TargetTasks {
    fn list(name: &str, members: &Members) -> Self {
        let folder = match members {
            Members::ControlGroup(folder) => Some(folder.clone()),
            Members::ProcessTrees(_) => None,
        };
        Self { name: name.to_owned(), folder, tasks: members.tasks() }
    }
}

/// Returns what the user has named, for metrics.
pub(super) fn named(tasks: &[TargetTasks], picture: &Picture) -> Vec<NamedUnit> {
    let unit = |one: &TargetTasks| NamedUnit {
        name: one.name.clone(),
        processes: one.tasks.clone(),
        group: one.folder.as_deref().and_then(|folder| group(folder, picture)),
    };
    tasks.iter().map(unit).collect()
}

/// Returns the control group of the picture that is the target, whose directory is below some mount point.
fn group(folder: &Path, picture: &Picture) -> Option<String> {
    let is_it = |path: &str| path.len() > 1 && folder.ends_with(path.trim_start_matches('/'));
    let paths = picture.groups.iter().map(|group| &*group.now.path).filter(|path| is_it(path));
    paths.max_by_key(|path| path.len()).map(str::to_owned)
}

/// A copy of standard error, so that the command's output does not mix with the tables.
fn stderr() -> io::Result<Stdio> {
    rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3).map(Stdio::from).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_with_live_is_named() {
        let name = |line: &str| name(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(name("/usr/bin/manycore guard --once"), "manycore guard");
        assert_eq!(name("/proc/self/exe eval"), "manycore eval");
        assert_eq!(name("./solver -n 3"), "solver");
    }

    #[test]
    fn a_process_that_got_the_id_of_a_target_is_not_watched() {
        let own = std::process::id();
        let mut target = NamedTarget::new("own".to_owned(), Members::ProcessTrees(vec![own]));
        assert!(target.tasks().tasks.contains(&own));
        target.roots[0].1 = target.roots[0].1.map(|start| start - 1);
        assert!(target.tasks().tasks.is_empty());
    }
}
