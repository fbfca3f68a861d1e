//! Pending journals and the results of undoing them, in words and as JSON.

use super::{Change, Header, Pending, UndoResult};
use manycore_text::units;
use serde::Serialize;

/// Value of [`PendingJournals::schema`] that this version writes.
pub const PENDING_SCHEMA: &str = "manycore/undo-list/1";

/// Value of [`UndoneJournals::schema`] that this version writes.
pub const UNDONE_SCHEMA: &str = "manycore/undo-result/1";

/// Journals of changes that are in force, for output as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PendingJournals<'a> {
    /// Always [`PENDING_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = PENDING_SCHEMA)))]
    pub schema: &'static str,
    /// The journals, newest first.
    pub pending: Vec<PendingJournal<'a>>,
}

/// A journal of changes that are in force.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PendingJournal<'a> {
    /// Its name, as `undo` takes it.
    pub name: String,
    /// `running`, `stays until undone`, `left behind` or `from before the reboot`.
    pub state: &'static str,
    /// The request and its owner.
    pub header: &'a Header,
    /// The changes, in their order.
    pub changes: &'a [Change],
}

/// Results of undoing, for output as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoneJournals<'a> {
    /// Always [`UNDONE_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = UNDONE_SCHEMA)))]
    pub schema: &'static str,
    /// The journals, in the order in which they were undone.
    pub undone: Vec<UndoneJournal<'a>>,
}

/// The result of undoing a journal.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoneJournal<'a> {
    /// Its name.
    pub name: String,
    /// What was restored. Absent if the owner still runs or another undo is in progress.
    pub restored: Option<&'a UndoResult>,
}

/// A journal, and the result of undoing it.
#[derive(Debug)]
pub struct Undone {
    /// The journal as it was before.
    pub journal: Pending,
    /// The result; absent if the owner still runs or another undo is in progress.
    pub result: Option<UndoResult>,
}

impl Undone {
    /// Undoes a journal.
    pub fn undo(journal: Pending) -> Self {
        let result = journal.undo();
        Self { journal, result }
    }

    /// Returns the number of changes that could not be undone.
    pub fn failures(all: &[Self]) -> usize {
        all.iter().filter_map(|one| one.result.as_ref()).map(|result| result.failed.len()).sum()
    }
}

/// Describes the state of a journal.
fn state(pending: &Pending) -> &'static str {
    match () {
        () if pending.is_from_earlier_boot() => "from before the reboot",
        () if pending.owner_is_running => "running",
        () if pending.header.persistent => "stays until undone",
        () => "left behind",
    }
}

/// Returns pending journals for output as JSON.
pub fn pending_json(all: &[Pending]) -> PendingJournals<'_> {
    let pending = all.iter().map(|one| PendingJournal {
        name: one.id(),
        state: state(one),
        header: &one.header,
        changes: &one.changes,
    });
    PendingJournals { schema: PENDING_SCHEMA, pending: pending.collect() }
}

/// A journal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalWords {
    /// Its name, as `undo` takes it.
    pub name: String,
    /// What is or was done.
    pub words: String,
    /// Details, one sentence each.
    pub details: Vec<String>,
}

/// Returns pending journals in words.
pub fn pending_words(all: &[Pending]) -> Vec<JournalWords> {
    let words = |pending: &Pending| {
        let Header { began, request, .. } = &pending.header;
        JournalWords {
            name: pending.id(),
            words: format!("{began}, {}: {request}", state(pending)),
            details: vec![counts(&pending.changes)],
        }
    };
    all.iter().map(words).collect()
}

/// Counts the changes of a journal: `12 affinities, 1 control group`.
fn counts(changes: &[Change]) -> String {
    let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
    let counted = [
        (count(|change| matches!(change, Change::Command { .. })), "command", "commands"),
        (count(|change| matches!(change, Change::Affinity { .. })), "affinity", "affinities"),
        (count(|change| matches!(change, Change::ControlGroup { .. })), "control group", "control groups"),
        (
            count(|change| matches!(change, Change::MeasuredGroup { .. })),
            "control group of an instance",
            "control groups of instances",
        ),
        (
            count(|change| matches!(change, Change::MarkedInstance { .. })),
            "instance without a control group",
            "instances without a control group",
        ),
        (count(|change| matches!(change, Change::Container { .. })), "container", "containers"),
        (count(|change| matches!(change, Change::Domain { .. })), "virtual machine", "virtual machines"),
        (count(|change| matches!(change, Change::ProcessMoved { .. })), "process moved", "processes moved"),
        (count(|change| matches!(change, Change::Setting { .. })), "setting", "settings"),
        (
            count(|change| matches!(change, Change::Scheduler { .. } | Change::OwnScheduler { .. })),
            "scheduler",
            "schedulers",
        ),
        (
            count(|change| matches!(change, Change::SchedulingClass { .. })),
            "task scheduled by it",
            "tasks scheduled by it",
        ),
        (count(|change| matches!(change, Change::ResctrlGroup { .. })), "QoS group", "QoS groups"),
        (count(|change| matches!(change, Change::TaskMoved { .. })), "task assigned", "tasks assigned"),
        (count(|change| matches!(change, Change::CpusMoved { .. })), "list of CPUs", "lists of CPUs"),
        (count(|change| matches!(change, Change::Limit { .. })), "limit", "limits"),
        (count(|change| matches!(change, Change::Mount { .. })), "mount", "mounts"),
    ];
    let words: Vec<String> = counted
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    if words.is_empty() { "nothing was changed yet".to_owned() } else { words.join(", ") }
}

/// Returns the results for output as JSON.
pub fn undone_json(all: &[Undone]) -> UndoneJournals<'_> {
    let undone =
        all.iter().map(|one| UndoneJournal { name: one.journal.id(), restored: one.result.as_ref() });
    UndoneJournals { schema: UNDONE_SCHEMA, undone: undone.collect() }
}

/// Returns the results in words.
pub fn undone_words(all: &[Undone]) -> Vec<JournalWords> {
    let words = |Undone { journal, result }: &Undone| {
        let done = match result {
            Some(result) => restored(journal, result),
            None => "still running, left unchanged".to_owned(),
        };
        let lines = result.iter().flat_map(|result| result.changed_by_others.iter().chain(&result.failed));
        JournalWords {
            name: journal.id(),
            words: format!("{done} ({})", journal.header.request),
            details: lines.cloned().collect(),
        }
    };
    all.iter().map(words).collect()
}

/// Counts what was restored: `12 tasks: CPUs restored, 1 control group: removed`.
fn restored(journal: &Pending, result: &UndoResult) -> String {
    if journal.is_from_earlier_boot() {
        return "dropped, because the machine was rebooted since".to_owned();
    }
    let counted = [
        (result.tasks, "task", "tasks", "CPUs restored"),
        (result.processes_moved_back, "process", "processes", "moved back"),
        (result.processes_killed, "process", "processes", "killed"),
        (result.containers, "container", "containers", "removed"),
        (result.domains, "virtual machine", "virtual machines", "ended"),
        (result.control_groups, "control group", "control groups", "removed"),
        (result.settings, "setting", "settings", "restored"),
        (result.schedulers, "program of a scheduler", "programs of schedulers", "ended"),
        (result.tasks_moved_back, "task", "tasks", "back in their QoS group"),
        (result.resctrl_groups, "QoS group", "QoS groups", "removed"),
        (result.limits, "limit", "limits", "restored"),
        (result.mounts, "file system", "file systems", "unmounted"),
    ];
    let words: Vec<String> = counted
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many, done)| format!("{count} {}: {done}", if count == 1 { one } else { many }))
        .collect();
    match words.as_slice() {
        [] if result.deferred.is_empty() => "no change was still in force".to_owned(),
        [] => "not yet undone".to_owned(),
        words => words.join(", "),
    }
}

/// Counts problems: `2 problems: some changes could not be undone; run 'manycore undo' to try again`.
pub fn problems(count: usize) -> String {
    let what = units::counted(count, "problem");
    format!("{what}: some changes could not be undone; run 'manycore undo' to try again")
}
