//! The processes that are watched, and the command among them.

use crate::{
    cli::TopWork,
    failure::{self, Failure, Outcome},
    output,
    signals::{ENDS, Signals, is_ignored},
    terminal,
};
use manycore_linux::{
    child,
    pidfd::ProcessHandle,
    process_reader::ProcessReader,
    targets::{Members, Target},
    tasks,
};
use manycore_text::{command_line::format_command, names::printable};
use manycore_top::{Picture, TaskId, serve::NamedUnit};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, kill_process, kill_process_group, waitid,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    env,
    fs::{self, File},
    io::{self, IsTerminal, stdin},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// The time between two looks at a command that is to end.
const PAUSE: Duration = Duration::from_millis(50);
/// For how long the end of the command is waited for without a word.
const TELL_AFTER: Duration = Duration::from_millis(500);

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
        let is_own = is_this_program(command.id());
        match stop(&mut command, &name(&self.words), is_own)? {
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

/// Asks the command and what it has started to end, and waits: it may have to tidy up. Another signal ends it at once.
///
/// This program (`is_own`) gets what Ctrl-C at a terminal sends: an interrupt to its process group. Its other processes are left
/// to it, as `density` takes the end of an instance for a failure, and ended after it. Another signal ends these at once, so that it
/// can undo what it changed; only the one after that ends it, too.
fn stop(command: &mut Child, name: &str, is_own: bool) -> Outcome<ExitStatus> {
    let signals = Signals::catch(&ENDS)?;
    let mut tree = ProcessTree::new(command.id());
    tree.look();
    let id = command.id();
    let is_first = |pid| pid == id;
    match Pid::from_raw(id as i32) {
        // It inherits whether interrupts are ignored.
        _ if is_own && is_ignored(Signal::INT.as_raw()) => tree.signal(Signal::TERM, is_first),
        // The id is not that of another process: this one has not been waited for.
        Some(group) if is_own && getpgid(Some(group)) == Ok(group) => {
            let _ = kill_process_group(group, Signal::INT);
        }
        _ if is_own => tree.signal(Signal::INT, is_first),
        _ => tree.signal(Signal::TERM, |_| true),
    }
    let mut tell_at = Some(Instant::now() + TELL_AFTER);
    let mut is_spared = is_own;
    loop {
        if let Some(status) = command.try_wait().map_err(Failure::missing)? {
            if is_own {
                tree.signal(Signal::TERM, |_| true);
            }
            return Ok(status);
        }
        signals.wait(PAUSE)?;
        if !signals.take().is_empty() {
            tree.look();
            tree.signal(Signal::KILL, |pid| !(is_spared && is_first(pid)));
            is_spared = false;
        }
        if tell_at.take_if(|at| *at <= Instant::now()).is_some() {
            let what = if is_own { "its processes at once; a second one ends it, too" } else { "it at once" };
            output::note(&format!("Waiting for {name} to end. Ctrl-C ends {what}."));
        }
    }
}

/// A process that has not been waited for, and its descendants. A process whose parent has ended is in no later list, and its id may
/// be that of another one by then, so handles of those that were found stay open.
struct ProcessTree {
    first: u32,
    reader: Option<ProcessReader>,
    known: BTreeMap<u32, ProcessHandle>,
    /// Those of which no handle can be opened.
    others: Vec<u32>,
}

impl ProcessTree {
    fn new(first: u32) -> Self {
        let reader = ProcessReader::open(Path::new("/")).ok();
        Self { first, reader, known: BTreeMap::new(), others: Vec::new() }
    }

    /// Looks for its processes.
    fn look(&mut self) {
        self.known.retain(|_, process| !process.has_exited());
        self.others.clear();
        for pid in tasks::with_descendants(&[self.first]) {
            if self.known.contains_key(&pid) {
                continue;
            }
            let start = tasks::start_time(pid).zip(self.reader.as_mut());
            match start.and_then(|(start, reader)| ProcessHandle::open(reader, pid, start).ok()) {
                Some(process) => drop(self.known.insert(pid, process)),
                None => self.others.push(pid),
            }
        }
    }

    /// Sends a signal to those of the processes that were found that are meant.
    fn signal(&mut self, signal: Signal, is_meant: impl Fn(u32) -> bool) {
        // They may have ended.
        for (_, process) in self.known.iter().filter(|(pid, _)| is_meant(**pid)) {
            let _ = process.signal(signal);
        }
        // At once after they were found, or their ids may be those of others.
        for pid in self.others.drain(..).filter(|pid| is_meant(*pid)) {
            let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
        }
    }
}

/// Whether a process runs this program, under whatever name.
fn is_this_program(pid: u32) -> bool {
    let file = |process: &str| {
        let about = fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((about.dev(), about.ino()))
    };
    file("self").is_some_and(|own| file(&pid.to_string()) == Some(own))
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
    use std::{io::Read, os::unix::process::ExitStatusExt};

    #[test]
    fn a_subcommand_with_live_is_named() {
        let name = |line: &str| name(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(name("/usr/bin/manycore guard --once"), "manycore guard");
        assert_eq!(name("/proc/self/exe eval"), "manycore eval");
        assert_eq!(name("./solver -n 3"), "solver");
    }

    /// Regression: the instances of `density` were asked to end with it, and it reported that as their failure.
    #[test]
    fn a_subcommand_ends_its_processes_by_itself_and_what_is_left_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        // Exit code 7 if the child still runs when the signal comes. It is left.
        let script = "sleep 1000 & trap 'kill -0 $!; exit $((7 + $?))' INT TERM; echo $! >\"$0\"; wait; wait";
        let mut command = Command::new("sh").args(["-c", script]).arg(&started).spawn().unwrap();
        let child = || fs::read_to_string(&started).ok()?.trim().parse::<u32>().ok();
        while child().is_none() {
            std::thread::yield_now();
        }
        assert!(is_this_program(std::process::id()) && !is_this_program(command.id()));
        assert_eq!(stop(&mut command, "density", true).unwrap().code(), Some(7));
        // A process that has ended has no command line.
        let is_left = |pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        while is_left(child().unwrap()) {
            std::thread::yield_now();
        }
    }

    /// Regression: `run` was asked alone, and a shell ends only after the program that it waits for.
    #[test]
    fn a_subcommand_and_its_process_group_get_an_interrupt() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; sh -c 'sleep 1000'; exit 7"]).stdout(Stdio::piped());
        let mut command = child::spawn_in_session(&mut command).unwrap();
        command.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(stop(&mut command, "run", true).unwrap().signal(), Some(Signal::INT.as_raw()));
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
