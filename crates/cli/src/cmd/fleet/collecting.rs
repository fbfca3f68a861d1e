//! Collects from hosts, with progress, into a folder.

use super::hosts::Targets;
use crate::{
    cli::FleetHosts,
    failure::{Failure, Outcome},
    output,
    progress::StatusLine,
    signals,
};
use manycore_experiment::interrupt;
use manycore_fleet::{
    Error,
    collect::{self, HostEvent, Observer, Reply, Work},
    folder::{FleetFolder, FleetRun, HostState, HostStatus, RUN_SCHEMA},
};
use manycore_linux::clock;
use manycore_text::{names::printable, units::counted};
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

/// How often the description of the run is written.
const WRITTEN: Duration = Duration::from_secs(2);
/// How often progress is noted where it is no line of a terminal.
const NOTED: Duration = Duration::from_secs(30);

/// What the hosts are to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// A record of a measurement.
    Record,
    /// What manycore prints.
    Output,
}

/// Runs manycore with these arguments on all hosts that have no result in the folder yet. Those of `again` are measured a second
/// time: their result is replaced by another one.
///
/// # Errors
/// Those of the folder and of reaching hosts at all; [`Failure::Interrupted`]. What fails on a host is in the folder.
pub fn collect(
    args: &FleetHosts,
    targets: &Targets,
    arguments: Vec<String>,
    sends: Sends,
    path: &Path,
    again: &[String],
) -> Outcome<FleetFolder> {
    let Targets { hosts: named, way, program } = targets;
    let run = FleetRun {
        schema: RUN_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: clock::utc(),
        command: arguments.clone(),
        hosts: named.iter().map(|host| (host.clone(), HostStatus::default())).collect(),
    };
    let mut folder = FleetFolder::begin(path, run)?;
    let again: Vec<String> = named.iter().filter(|host| again.contains(&printable(host))).cloned().collect();
    let mut left = folder.without_result(named);
    if left.len() < named.len() && again.is_empty() && !args.quiet {
        output::note(&format!(
            "{} of {} have their result already.",
            named.len() - left.len(),
            counted(named.len(), "host")
        ));
    }
    folder.measure_again(&again);
    left.extend(again);
    signals::catch_interrupts()?;
    let work =
        Work { program: program.clone(), arguments, sends_record: sends == Sends::Record, limit: args.time };
    let mut collecting = Collecting::new(folder, sends, named, args.quiet);
    let ended = collect::collect(&left, way, &work, args.parallel.into(), &mut collecting);
    let folder = collecting.end()?;
    ended.map_err(Error::from)?;
    if interrupt::requested() {
        return Err(Failure::Interrupted(format!(
            "interrupted: what {} sent is in {}; the same command with --out {} continues",
            counted(count(&folder, HostState::Done), "host"),
            path.display(),
            path.display()
        )));
    }
    Ok(folder)
}

/// Returns the number of hosts in a state.
pub fn count(folder: &FleetFolder, state: HostState) -> usize {
    folder.run().hosts.values().filter(|status| status.state == state).count()
}

struct Collecting {
    folder: FleetFolder,
    sends: Sends,
    hosts: usize,
    line: Option<StatusLine>,
    quiet: bool,
    written: Instant,
    noted: Instant,
    /// The first error of the folder, after which nothing more is kept.
    failed: Option<Error>,
}

impl Collecting {
    fn new(folder: FleetFolder, sends: Sends, hosts: &[String], quiet: bool) -> Self {
        let now = Instant::now();
        let line = StatusLine::of_stderr(quiet);
        Self { folder, sends, hosts: hosts.len(), line, quiet, written: now, noted: now, failed: None }
    }

    /// Prints a note about a host that is tried again or sends no result. With `--quiet`: only about hosts without an output, whose
    /// reason is printed nowhere else.
    fn note_host(&mut self, host: &str) {
        let Some(status) = self.folder.run().hosts.get(host) else { return };
        if self.quiet && (self.sends == Sends::Record || status.state == HostState::Waiting) {
            return;
        }
        let why = if status.why.is_empty() { String::new() } else { format!(": {}", status.why) };
        let what = if status.state == HostState::Waiting { "tried again" } else { status.state.word() };
        let text = format!("{}: {what}{why}", printable(host));
        if let Some(line) = &mut self.line {
            line.clear();
        }
        output::note(&text);
    }

    /// Returns the progress in words. Where no host runs, it has what one of them waits for.
    fn progress(&self) -> String {
        let hosts = &self.folder.run().hosts;
        let mut by_state: BTreeMap<HostState, usize> = BTreeMap::new();
        for status in hosts.values() {
            *by_state.entry(status.state).or_default() += 1;
        }
        let done = by_state.remove(&HostState::Done).unwrap_or(0);
        let runs = by_state.contains_key(&HostState::Running);
        let waits = |status: &&HostStatus| status.state == HostState::Waiting && !status.why.is_empty();
        let why = hosts.values().find(waits).filter(|_| !runs).map(|status| printable(&status.why));
        let mut text = format!("{done} of {} done", counted(self.hosts, "host"));
        for (state, count) in by_state {
            text.push_str(&format!(", {count} {}", state.word()));
            if let Some(why) = why.as_ref().filter(|_| state == HostState::Waiting) {
                text.push_str(&format!(" ({why})"));
            }
        }
        text
    }

    fn keep(&mut self, kept: Result<(), Error>) {
        if let Err(error) = kept {
            // A full disk: what is there stays, and the rest is not measured in vain.
            self.failed.get_or_insert(error);
            interrupt::flag().store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn end(mut self) -> Outcome<FleetFolder> {
        drop(self.line.take());
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        self.folder.keep_first_results();
        self.folder.write()?;
        Ok(self.folder)
    }
}

impl Observer for Collecting {
    fn event(&mut self, host: &str, event: HostEvent) {
        let is_end = !matches!(event, HostEvent::Waits(_) | HostEvent::Begins | HostEvent::Interrupted);
        self.folder.note(host, event);
        if is_end {
            self.note_host(host);
        }
        self.tick();
    }

    fn reply(&mut self, host: &str, reply: Reply) {
        let kept = match self.sends {
            Sends::Record => self.folder.keep_record(host, &reply),
            Sends::Output => self.folder.keep_output(host, &reply),
        };
        self.keep(kept);
        if self.folder.run().hosts.get(host).is_some_and(|status| status.state != HostState::Done) {
            self.note_host(host);
        }
        self.tick();
    }

    fn tick(&mut self) {
        if self.written.elapsed() >= WRITTEN && self.failed.is_none() {
            self.written = Instant::now();
            let written = self.folder.write();
            self.keep(written);
        }
        let progress = self.progress();
        match &mut self.line {
            Some(line) => line.draw(&[progress]),
            None if !self.quiet && self.noted.elapsed() >= NOTED => {
                self.noted = Instant::now();
                output::note(&progress);
            }
            None => {}
        }
    }
}
