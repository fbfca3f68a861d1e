//! What surrounds one run, outside of its sample: settings of the machine, hooks, caches.

use super::{CommandSubject, GRACE, POLL_INTERVAL, SchedulerRuns, Variant};
use crate::{
    error::{Error, Result},
    format_command,
    life::HookKind,
    service::LOAD_MARKER,
};
use manycore_control::{placement::WorkerCpus, setting::SettingSwitch};
use manycore_experiment::interrupt;
use manycore_linux::{
    job::{self, Job},
    tasks,
};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    time::{Duration, Instant},
};

/// Writing 3 drops the page cache, dentries and inodes (`Documentation/admin-guide/sysctl/vm.rst`).
pub(crate) const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

impl CommandSubject {
    /// Prepares a run of a variant: its settings and scheduler, its first-time setup, its prepare command, empty caches. This
    /// comes before the counters and the clock of the sample start. Returns the nanoseconds that a switch of the scheduler
    /// took, if there was one.
    pub(super) fn before(&mut self, treatment: usize) -> Result<Option<u64>> {
        let variant = self.variants[treatment].clone();
        let name = self.title_of(&variant);
        if let Some(switch) = &mut self.switch {
            switch.apply(&variant.settings)?;
        }
        let switched = match (&mut self.schedulers, &variant.scheduler) {
            (Some(schedulers), Some(scheduler)) => schedulers.apply(scheduler)?,
            _ => None,
        };
        if !self.begun.iter().any(|(_, begun)| *begun == variant) {
            self.begun.push((name.clone(), variant.clone()));
            self.run_hook(HookKind::Setup, &variant, &name, true)?;
        }
        self.run_hook(HookKind::Prepare, &variant, &name, true)?;
        if self.settings.drop_caches {
            rustix::fs::sync();
            fs::write(DROP_CACHES, "3").map_err(Error::DropCaches)?;
        }
        Ok(switched)
    }

    /// Checks the scheduler and the settings after a run, and runs the conclude command, also after a run that failed.
    pub(super) fn after(&mut self, treatment: usize) -> Result {
        let in_force = self.schedulers.as_mut().map_or(Ok(()), SchedulerRuns::check);
        let checked = self.switch.as_ref().map_or(Ok(()), SettingSwitch::check);
        let variant = self.variants[treatment].clone();
        let name = self.title_of(&variant);
        let concluded = self.run_hook(HookKind::Conclude, &variant, &name, false);
        in_force.and(concluded)?;
        Ok(checked?)
    }

    /// Says what the kernel calls the schedulers of the variants, if they have any.
    pub(crate) fn scheduler_note(&self) -> Option<String> {
        let names = self.schedulers.as_ref()?.names();
        let each: Vec<String> = names
            .iter()
            .map(|(label, name)| format!("{label} is the sched_ext scheduler '{name}'"))
            .collect();
        (!each.is_empty()).then(|| format!("Schedulers: {}.", each.join("; ")))
    }

    /// Returns the kernel's name of the scheduler of a variant.
    pub(crate) fn scheduler_name(&self, variant: &Variant) -> Option<&String> {
        self.schedulers.as_ref()?.names().get(&variant.scheduler.as_ref()?.label)
    }

    /// Gives the machine back to the kernel's own scheduler. Returns what did not succeed.
    fn end_schedulers(&mut self) -> Vec<String> {
        let Some(mut schedulers) = self.schedulers.take() else { return Vec::new() };
        self.notes.extend(schedulers.summary());
        schedulers.end()
    }

    /// Restores the scheduler and the settings, stops the service, and runs the cleanup command of each variant that has begun. Returns
    /// what the user should know, and the first cleanup command that failed.
    pub(crate) fn end(&mut self) -> (Vec<String>, Result) {
        let mut notes = self.end_schedulers();
        notes.extend(self.switch.as_mut().map(SettingSwitch::restore).unwrap_or_default());
        notes.extend(self.release_service());
        self.service = None;
        let mut ending = Ok(());
        for (name, variant) in std::mem::take(&mut self.begun) {
            let cleaned = self.run_hook(HookKind::Cleanup, &variant, &name, false);
            ending = ending.and(cleaned);
        }
        (notes, ending)
    }

    /// Returns what a variant is called in messages.
    pub(super) fn title_of(&self, variant: &Variant) -> String {
        let command = format_command(&variant.command);
        match self.titles.iter().find(|(known, _)| known == variant) {
            Some((_, title)) => format!("{title} ({command})"),
            None => command,
        }
    }

    /// Runs a hook to its end, with the environment of its variant, and ends what it left running. One that does not
    /// obey signals to this process has the time limit of a run.
    fn run_hook(&mut self, kind: HookKind, variant: &Variant, of: &str, obeys_signals: bool) -> Result {
        let Some(command) = variant.hooks.command(kind) else { return Ok(()) };
        let line = format_command(command);
        let what = format!("the {kind} command {line} of {of}");
        let known: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let mut start = Command::new(&command[0]);
        start.args(&command[1..]).envs(variant.env.iter().map(|(name, value)| (name, value)));
        start.env(LOAD_MARKER, std::process::id().to_string());
        self.set_mark(&mut start);
        let job = Job::start(&mut start, &WorkerCpus::default().start(), false)
            .map_err(Error::system(format!("start {what}")))?;
        let mut jobs = [job];
        let waited = self.wait_for_hook(&mut jobs, &what, obeys_signals);
        let [job] = jobs;
        let (ended, output) = (job.ended(), job.last_stderr_line());
        drop(job);
        for stray in self.end_strays(&known) {
            self.notes.insert(format!("{what} left a process running ({stray}); it was ended"));
        }
        waited?;
        match ended {
            Some(ended) if !ended.status.success() => Err(Error::HookFailed {
                kind,
                command: line,
                variant: of.to_owned(),
                status: ended.status,
                output,
            }),
            _ => Ok(()),
        }
    }

    fn wait_for_hook(&self, jobs: &mut [Job; 1], what: &str, obeys_signals: bool) -> Result {
        let (began, limit) = (Instant::now(), self.settings.timeout);
        let mut terminated: Option<Instant> = None;
        loop {
            let pause = limit.saturating_sub(began.elapsed()).clamp(Duration::from_millis(1), POLL_INTERVAL);
            let all =
                job::wait(jobs, pause, &mut |_| {}).map_err(Error::system(format!("wait for {what}")))?;
            if all && terminated.is_none() {
                return Ok(());
            }
            if obeys_signals {
                interrupt::check()?;
            }
            if began.elapsed() < limit {
                continue;
            }
            let since = *terminated.get_or_insert_with(|| {
                jobs[0].signal(Signal::TERM);
                Instant::now()
            });
            if all || since.elapsed() > GRACE {
                return Err(Error::Timeout { command: what.to_owned(), limit, killed: !all });
            }
        }
    }
}
