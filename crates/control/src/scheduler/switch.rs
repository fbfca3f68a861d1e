//! Loads and removes schedulers, and checks with the kernel that they are in force.

use super::{MARK, Scheduler, SchedulerError, SchedulerLoader, process::SchedulerProcess};
use crate::{
    Error,
    cleanup::{Cleanup, Leftover, Program},
    journal::{Change, Journal},
};
use manycore_linux::{
    clock,
    sched_ext::{self, SchedExt},
    tasks,
};
use manycore_text::names::printable;
use manycore_topology::SysTree;
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Maximum time from the start of a program until its scheduler is in force. The verifier checks a large BPF program for
/// seconds, longer on emulated CPUs.
const MAX_LOAD: Duration = Duration::from_mins(1);

/// Time that a program has to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Maximum time from the end of a program until the kernel has removed its scheduler.
const MAX_REMOVAL: Duration = Duration::from_secs(20);

/// Time for a program to say why it ends, after the kernel has removed its scheduler.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Interval between two looks at the state of `sched_ext`, of whose changes the kernel gives no notice.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A switch to another scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// Time until the new scheduler was in force. The removal of the earlier one is part of it.
    pub took: Duration,
}

/// Schedulers that are switched. The kernel's own one is in force again when this is dropped; if this process is killed,
/// by the kernel, its cleanup process or `undo`.
#[derive(Debug)]
pub struct SchedulerSwitch {
    tree: SysTree,
    running: Option<Running>,
    /// Number of schedulers that the kernel had loaded when the present one came into force.
    loads: Option<u64>,
    /// The kernel's names, by label.
    names: BTreeMap<String, String>,
    /// Labels that are in the journal.
    recorded: BTreeSet<String>,
    mark: String,
    journal: Option<Journal>,
    /// Whether the caller wants to end.
    gives_up: fn() -> bool,
    /// Undoes the journal if this process is killed.
    _cleanup: Cleanup,
}

/// A scheduler that is loaded.
#[derive(Debug)]
struct Running {
    scheduler: Scheduler,
    process: SchedulerProcess,
    /// The kernel's name of it; empty until it is known.
    name: String,
}

impl SchedulerSwitch {
    /// Begins a journal in `folder` for `request`, and a cleanup process from `program`. Nothing is loaded. The state of
    /// `sched_ext` is read from `tree`. Waiting ends early when `gives_up` returns true.
    ///
    /// # Errors
    /// One of the `schedulers` cannot be loaded here, or a scheduler is loaded already; there can be no journal or cleanup
    /// process.
    pub fn begin(
        schedulers: &[Scheduler],
        tree: SysTree,
        folder: &Path,
        (subcommand, request): (&str, &str),
        program: &Program,
        gives_up: fn() -> bool,
    ) -> Result<Self, SchedulerError> {
        check_ready(schedulers, &tree)?;
        let journal = Journal::begin(folder, subcommand, request, false)
            .map_err(|error| Error::JournalUnwritable { folder: folder.to_owned(), error })?;
        let ready = check_unused(&journal).and_then(|()| Ok(announced(&journal, program)?));
        match ready {
            Ok(cleanup) => Ok(Self {
                loads: sched_ext::loads(&tree),
                tree,
                running: None,
                names: BTreeMap::new(),
                recorded: BTreeSet::new(),
                mark: format!("{}-{}", std::process::id(), clock::now_ns()),
                journal: Some(journal),
                gives_up,
                _cleanup: cleanup,
            }),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    /// Returns the kernel's names of the schedulers that were loaded so far, by label.
    pub fn names(&self) -> &BTreeMap<String, String> {
        &self.names
    }

    /// Puts a scheduler in force. Returns nothing if it is already.
    ///
    /// # Errors
    /// The program of the scheduler fails, or the kernel does not have the wanted one in force. None is loaded then.
    pub fn apply(&mut self, scheduler: &Scheduler) -> Result<Option<Switched>, SchedulerError> {
        let present = self.running.as_ref().map(|running| &running.scheduler);
        if present == scheduler.loader.as_ref().map(|_| scheduler) {
            return Ok(None);
        }
        let began = Instant::now();
        self.remove()?;
        if let Some(loader) = &scheduler.loader {
            let loaded = self.load(scheduler, loader);
            if let Err(error) = loaded {
                // The first error says more.
                let _ = self.remove();
                return Err(error);
            }
        }
        self.loads = sched_ext::loads(&self.tree);
        Ok(Some(Switched { took: began.elapsed() }))
    }

    /// Starts a program, and waits until its scheduler is in force.
    fn load(&mut self, scheduler: &Scheduler, loader: &SchedulerLoader) -> Result<(), SchedulerError> {
        if let Some(name) = foreign(&sched_ext::read(&self.tree)) {
            return Err(SchedulerError::Loaded { name });
        }
        self.record(scheduler, loader)?;
        let before = sched_ext::loads(&self.tree);
        let label = scheduler.label.clone();
        let process = SchedulerProcess::start(loader, &self.mark).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SchedulerError::NoProgram {
                program: loader.command.first().cloned().unwrap_or_default(),
                label: label.clone(),
            },
            _ => SchedulerError::Start { label: label.clone(), error },
        })?;
        let pid = process.pid();
        self.running = Some(Running { scheduler: scheduler.clone(), process, name: String::new() });
        if let (Some(journal), Some(start)) = (&self.journal, tasks::start_time(pid)) {
            journal.record(&Change::SchedulerProcess { pid, start }).map_err(Error::JournalWrite)?;
        }
        let name = self.wait_until_loaded(&label, before)?;
        if let Some(expected) = loader.name_prefix.clone().filter(|prefix| !name.starts_with(prefix.as_str()))
        {
            return Err(SchedulerError::OtherName { label, expected, found: name });
        }
        if let Some(running) = &mut self.running {
            running.name.clone_from(&name);
        }
        self.names.insert(label, name);
        Ok(())
    }

    /// Records a scheduler in the journal before its program is started for the first time.
    fn record(&mut self, scheduler: &Scheduler, loader: &SchedulerLoader) -> Result<(), SchedulerError> {
        if let Some(journal) = &self.journal
            && !self.recorded.contains(&scheduler.label)
        {
            let mark = format!("{MARK}={}", self.mark);
            let (label, command) = (scheduler.label.clone(), loader.command.clone());
            journal.record(&Change::Scheduler { label, command, mark }).map_err(Error::JournalWrite)?;
            self.recorded.insert(scheduler.label.clone());
        }
        Ok(())
    }

    /// Waits until the program that was started has loaded its scheduler, where the kernel had loaded `before` so far.
    /// Returns the kernel's name of it.
    fn wait_until_loaded(&mut self, label: &str, before: Option<u64>) -> Result<String, SchedulerError> {
        let began = Instant::now();
        loop {
            let Some(running) = &mut self.running else { return Err(SchedulerError::Interrupted) };
            let ended = running.process.ended();
            if let Some(status) = ended {
                let (label, output) = (label.to_owned(), running.process.last_lines());
                return Err(SchedulerError::Ended { label, status, output });
            }
            let is_new = sched_ext::loads(&self.tree).zip(before).is_none_or(|(now, before)| now > before);
            if let SchedExt::Enabled(name) = sched_ext::read(&self.tree)
                && is_new
                && !name.is_empty()
            {
                return Ok(printable(&name));
            }
            if (self.gives_up)() {
                return Err(SchedulerError::Interrupted);
            }
            if began.elapsed() > MAX_LOAD {
                let (label, output) = (label.to_owned(), running.process.last_lines());
                return Err(SchedulerError::NotLoaded { label, limit: MAX_LOAD, output });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Checks that the program of the scheduler still runs. Cheap enough to be called often during a run.
    ///
    /// # Errors
    /// [`SchedulerError::ThrownOut`].
    pub fn check_program(&mut self) -> Result<(), SchedulerError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        match running.process.ended() {
            Some(status) => Err(running.thrown_out(format!("its program ended ({status})"))),
            None => Ok(()),
        }
    }

    /// Checks after a run that the scheduler was in force all the time.
    ///
    /// # Errors
    /// [`SchedulerError::ThrownOut`], [`SchedulerError::Foreign`].
    pub fn check(&mut self) -> Result<(), SchedulerError> {
        self.check_program()?;
        let (state, loads) = (sched_ext::read(&self.tree), sched_ext::loads(&self.tree));
        let Some(running) = &mut self.running else {
            return match foreign(&state) {
                Some(name) => Err(SchedulerError::Foreign { name }),
                None if loads != self.loads => {
                    Err(SchedulerError::Foreign { name: "(removed again)".to_owned() })
                }
                None => Ok(()),
            };
        };
        let found = match &state {
            SchedExt::Enabled(name) if printable(name) != running.name => {
                format!("'{}' is loaded instead of '{}'", printable(name), running.name)
            }
            SchedExt::Enabled(_) if loads != self.loads => "it was loaded again meanwhile".to_owned(),
            SchedExt::Enabled(_) => return Ok(()),
            other => format!("the kernel removed '{}' ({})", running.name, words(other)),
        };
        let asked = Instant::now();
        while running.process.ended().is_none() && asked.elapsed() < LAST_WORDS {
            thread::sleep(POLL_INTERVAL);
        }
        Err(running.thrown_out(found))
    }

    /// Ends the program of the scheduler, and waits until the kernel schedules all tasks itself. Also after a signal: the
    /// machine is given back in any case.
    fn remove(&mut self) -> Result<(), SchedulerError> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let began = Instant::now();
        let mut killed = false;
        running.process.signal(Signal::TERM);
        loop {
            let state = sched_ext::read(&self.tree);
            if running.process.ended().is_some() && is_kernel(&state) {
                self.loads = sched_ext::loads(&self.tree);
                return Ok(());
            }
            if !killed && began.elapsed() > GRACE {
                running.process.signal(Signal::KILL);
                killed = true;
            }
            if began.elapsed() > GRACE + MAX_REMOVAL {
                let known = !running.name.is_empty();
                let name = if known { running.name } else { running.scheduler.label };
                return Err(SchedulerError::StillLoaded { name, found: words(&state), limit: MAX_REMOVAL });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Gives the machine back to the kernel's own scheduler. Returns what did not succeed, one sentence each. Further calls
    /// do nothing.
    pub fn restore(&mut self) -> Vec<String> {
        let removed = self.remove().err().map(|error| error.to_string());
        let Some(journal) = self.journal.take() else { return removed.into_iter().collect() };
        let id = journal.id();
        let undone = match journal.undo() {
            Ok(result) => result.failure(&id),
            Err(error) => {
                Some(format!("the journal of schedulers cannot be read: {error}; run 'manycore undo {id}'"))
            }
        };
        removed.into_iter().chain(undone).collect()
    }
}

impl Drop for SchedulerSwitch {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Running {
    /// Returns the error of a scheduler that was not in force, with what its program wrote last.
    fn thrown_out(&self, found: String) -> SchedulerError {
        let (label, output) = (self.scheduler.label.clone(), self.process.last_lines());
        SchedulerError::ThrownOut { label, found, output }
    }
}

/// Whether the kernel schedules all tasks itself.
pub(crate) fn is_kernel(state: &SchedExt) -> bool {
    matches!(state, SchedExt::Absent | SchedExt::Disabled)
}

/// Returns the name of a scheduler that is loaded, or the state in which one is loaded or removed.
fn foreign(state: &SchedExt) -> Option<String> {
    match state {
        SchedExt::Absent | SchedExt::Disabled => None,
        SchedExt::Enabled(name) => Some(printable(name)),
        SchedExt::Changing(state) => Some(format!("({})", printable(state))),
    }
}

/// Returns the state of `sched_ext` in words.
pub(crate) fn words(state: &SchedExt) -> String {
    match state {
        SchedExt::Absent => "no sched_ext".to_owned(),
        SchedExt::Disabled => "state disabled".to_owned(),
        SchedExt::Changing(state) => format!("state {}", printable(state)),
        SchedExt::Enabled(name) => format!("state enabled, scheduler '{}'", printable(name)),
    }
}

/// Checks that the schedulers can be loaded here, and that none is loaded.
fn check_ready(schedulers: &[Scheduler], tree: &SysTree) -> Result<(), SchedulerError> {
    let state = sched_ext::read(tree);
    if let Some(scheduler) = schedulers.iter().find(|scheduler| scheduler.loader.is_some()) {
        let label = scheduler.label.clone();
        if state == SchedExt::Absent {
            return Err(SchedulerError::Absent { label });
        }
        if !sched_ext::may_load() {
            return Err(SchedulerError::NotPermitted { label });
        }
    }
    foreign(&state).map_or(Ok(()), |name| Err(SchedulerError::Loaded { name }))
}

/// Checks that no other run switches schedulers: between two of its own, none is loaded.
fn check_unused(journal: &Journal) -> Result<(), SchedulerError> {
    let switches = |change: &Change| matches!(change, Change::Scheduler { .. });
    let others = journal.other_journals();
    let other = others.iter().find(|other| other.owner_is_running && other.changes.iter().any(switches));
    other.map_or(Ok(()), |other| Err(SchedulerError::InUse { journal: other.id() }))
}

/// Starts the cleanup process and announces the journal to it.
fn announced(journal: &Journal, program: &Program) -> Result<Cleanup, Error> {
    let mut cleanup = Cleanup::start(program)?;
    cleanup.add(Leftover::Journal(journal.id().into()))?;
    Ok(cleanup)
}
