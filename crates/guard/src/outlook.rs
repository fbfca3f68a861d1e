//! What would happen to a process now: the answer of the running guard, or an observation of our own.

use crate::decision::{event_line::ProcessOutlook, memory_objects::GrowthTracker};
use crate::{
    error::{Error, Result},
    event::{EventDetail, MonitorEvent, SlowPathMessage},
    groups::Groups,
    memory_objects::Scanner,
    monitor::{Monitor, MonitorConfig, QUEUE, WatchPlan},
    query,
    rules::Rules,
    slow_path,
};
use manycore_erlang::LargestErlangProcess;
use manycore_linux::wake_channel::{Sender, WakeUp, channel};
use manycore_linux::{absent_process::AbsentProcess, tasks};
use serde::Serialize;
use std::{
    path::PathBuf,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

/// Time between the two scans of an observation.
const BETWEEN_SCANS: Duration = Duration::from_secs(2);

/// The answer about a process, one entry for each watch.
#[derive(Clone, Debug)]
pub struct Answer {
    /// One entry for each watch.
    pub outlooks: Vec<ProcessOutlook>,
    /// Whether the guard that answered is a dry run.
    pub is_dry: bool,
}

/// Value of [`WhyReport::schema`] that this version writes.
pub const WHY_SCHEMA: &str = "manycore/guard-why/1";

/// What would happen to a process, for output as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyReport<'a> {
    /// Always [`WHY_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = WHY_SCHEMA)))]
    pub schema: &'static str,
    /// Whether the guard that answered is a dry run: it ends no process.
    pub dry_run: bool,
    /// What each watch would do, one entry for each watch.
    pub outlooks: &'a [ProcessOutlook],
    /// The process of the Erlang node that uses the most memory, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_erlang_process: Option<&'a LargestErlangProcess>,
}

impl<'a> WhyReport<'a> {
    /// Combines an answer with what an Erlang node reports.
    pub fn new(answer: &'a Answer, largest_erlang_process: Option<&'a LargestErlangProcess>) -> Self {
        Self {
            schema: WHY_SCHEMA,
            dry_run: answer.is_dry,
            outlooks: &answer.outlooks,
            largest_erlang_process,
        }
    }
}

/// An observation by the rules of this machine, for when no guard runs.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The process.
    pub pid: u32,
    /// The rules file; if absent, [`crate::rules::DEFAULT_PATH`] if it exists.
    pub rules: Option<PathBuf>,
    /// Control groups to watch in addition to what the rules name.
    pub cgroups: Vec<String>,
}

/// Queries the running guard about a process. `None` if no guard runs.
///
/// # Errors
/// [`Error::NoSuchProcess`]; [`Error::Unanswered`] if a guard runs but cannot be queried.
pub fn query(pid: u32) -> Result<Option<Answer>> {
    if tasks::process_of(pid) != Some(pid) {
        return Err(Error::NoSuchProcess(AbsentProcess::of(pid)));
    }
    Ok(query::query(pid)?.map(|(outlooks, is_dry)| Answer { outlooks, is_dry }))
}

impl Observation {
    /// Scans twice, as a guard that has just started would. `wait` waits for the given time; if it fails, so
    /// does the observation.
    ///
    /// # Errors
    /// The rules are invalid, `/proc` cannot be read, or the error of `wait`.
    pub fn run(&self, wait: impl FnOnce(Duration) -> Result) -> Result<Answer> {
        let rules = Rules::read(self.rules.as_deref(), &self.cgroups)?;
        let (plan, _) = WatchPlan::open(&rules)?;
        let wake_up = WakeUp::new().map_err(Error::system("cannot create an eventfd"))?;
        let (events_in, events) =
            channel(QUEUE, &WakeUp::new().map_err(Error::system("cannot create an eventfd"))?);
        let (messages_in, messages) = channel(QUEUE, &wake_up);
        let config = MonitorConfig {
            plan: Box::new(plan),
            is_dry: true,
            has_metrics: false,
            events: events_in,
            messages,
            wake_up,
            manager: None,
        };
        let mut monitor = Monitor::new(config)?;
        let cannot_scan = "cannot scan the processes of this machine";
        let mut groups = Groups::new().map_err(Error::system(cannot_scan))?;
        let mut scanner = Scanner::new().map_err(Error::system(cannot_scan))?;
        let mut tracker = GrowthTracker::default();
        let began = Instant::now();
        monitor.tick();
        slow_path::scan_memory_objects(&mut scanner, &mut tracker, true);
        identify(&events, &messages_in, &mut groups, &rules);
        wait(BETWEEN_SCANS.saturating_sub(began.elapsed()))?;
        slow_path::scan_memory_objects(&mut scanner, &mut tracker, false);
        messages_in.try_send(SlowPathMessage::ExtraMemory(tracker.growth_by_owner()));
        if let Some(start) = tasks::start_time(self.pid)
            && let Some(found) = groups.identify(self.pid, start, &rules)
        {
            messages_in.try_send(found.message(self.pid, start));
        }
        messages_in.try_send(SlowPathMessage::Query(self.pid));
        monitor.receive_messages();
        let answered = events.try_iter().filter_map(|event| match event.what {
            EventDetail::Answer(answer) => {
                Some(slow_path::outlook(&mut groups, &rules, self.pid, &event, &answer, began.elapsed()))
            }
            _ => None,
        });
        Ok(Answer { outlooks: answered.collect(), is_dry: false })
    }
}

/// Answers the monitor's requests for control groups.
fn identify(
    events: &Receiver<MonitorEvent>,
    messages: &Sender<SlowPathMessage>,
    groups: &mut Groups,
    rules: &Rules,
) {
    for event in events.try_iter() {
        let EventDetail::Identify { pid, start } = event.what else { continue };
        if let Some(found) = groups.identify(pid, start, rules) {
            messages.try_send(found.message(pid, start));
        }
    }
}
