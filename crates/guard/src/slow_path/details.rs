//! What is reported about a process beyond what the monitor knows: names that take time to find, and why a
//! killed process does not exit.

use crate::decision::{
    assessment::{Amount, Thresholds},
    cause::{FamilyKey, Suspect, is_family_member},
    event_line::{CauseDetails, ExtraMemoryDetails, ProcessOutlook},
    process_table::{ProcessEntry, Protection},
};
use crate::{
    event::{MonitorEvent, QueryAnswer},
    groups::Groups,
    rules::Rules,
    text,
};
use manycore_erlang::Node;
use manycore_linux::{pidfd, tasks};
use std::{fs, thread, time::Duration};

pub(super) fn is_same(pid: u32, start: u64) -> bool {
    tasks::start_time(pid) == Some(start)
}

/// Frees the memory of a process that was killed and does not exit, in a thread that may block.
pub(super) fn reap(pid: u32, start: u64) {
    let reap = move || {
        if let Ok(process) = pidfd::open_pidfd(pid)
            && is_same(pid, start)
        {
            let _ = pidfd::release_memory(&process);
        }
    };
    let _ = thread::Builder::new().name("release-memory".to_owned()).spawn(reap);
}

/// Returns why a killed process still exists.
pub(super) fn stuck_reason(pid: u32) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let state = read("status")
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .map(|state| state.trim().to_owned());
    let place = Some(read("wchan")).filter(|place| !place.is_empty() && place != "0");
    match (state, place) {
        (Some(state), Some(place)) => format!("its state is {state}, in the kernel function {place}"),
        (Some(state), None) => format!("its state is {state}"),
        (None, _) => "its state cannot be read".to_owned(),
    }
}

/// Returns a description of the largest process of a node.
pub(super) fn node(pid: u32) -> String {
    match Node::of(pid).and_then(|node| Ok((node.largest_process()?, node))) {
        Ok((largest, node)) => text::node(node.name(), &largest),
        Err(why) => format!("the node of process {pid} cannot be queried: {why}"),
    }
}

/// Returns the control group of a process, or an empty string if it is unknown.
fn group_name(groups: &mut Groups, rules: &Rules, process: &ProcessEntry) -> String {
    // The monitor may not have received the number in time.
    let number = match process.group {
        0 => {
            groups.identify(process.reading.pid, process.reading.start, rules).map_or(0, |found| found.number)
        }
        number => number,
    };
    groups.get(number).map(|group| group.name.clone()).unwrap_or_default()
}

/// Returns a suspect with the names that take time to find.
pub(super) fn cause_details(
    groups: &mut Groups,
    rules: &Rules,
    suspect: &Suspect,
    family: Option<FamilyKey>,
    now_ns: u64,
) -> CauseDetails {
    let process = &suspect.process;
    let cgroup = group_name(groups, rules, process);
    CauseDetails {
        pid: process.reading.pid,
        start: process.reading.start,
        name: String::from_utf8_lossy(process.reading.name.as_bytes()).into_owned(),
        user: process.user,
        processes: suspect.members,
        family: match family {
            None => String::new(),
            Some(FamilyKey::Session(session)) => format!("session {session}"),
            Some(FamilyKey::Group(_) | FamilyKey::WholeGroup(_)) => format!("cgroup {cgroup}"),
        },
        cgroup,
        bytes: suspect.bytes,
        extra_memory: extra_memory(process),
        growth_bytes: suspect.growth,
        decrease_bytes: suspect.decrease,
        decrease_seconds: now_ns.saturating_sub(suspect.recent_start_ns) as f64 / 1e9,
    }
}

/// Returns the memory that it was found to hold in addition to its own pages, if this is part of the reason.
fn extra_memory(process: &ProcessEntry) -> Option<ExtraMemoryDetails> {
    let held = process.held;
    (held.growth_kib > 0).then(|| ExtraMemoryDetails {
        what: held.kind.description().to_owned(),
        growth_bytes: u64::from(held.growth_kib) << 10,
        is_persistent: held.is_persistent,
    })
}

/// Returns the answer to a query.
pub fn outlook(
    groups: &mut Groups,
    rules: &Rules,
    pid: u32,
    event: &MonitorEvent,
    answer: &QueryAnswer,
    seen: Duration,
) -> ProcessOutlook {
    let process = answer.process;
    let chosen = answer.finding.suspect();
    let is_member = |suspect: &Suspect, family: &Option<FamilyKey>| match (family, &process) {
        (_, None) => false,
        (None, Some(process)) => process.reading.pid == suspect.process.reading.pid,
        (Some(family), Some(process)) => {
            is_family_member(process, *family, suspect) && process.protection.is_none()
        }
    };
    let is_chosen = chosen.as_ref().is_some_and(|(suspect, family)| is_member(suspect, family));
    let watch = rules.watches.get(event.watch);
    let total = event.reading.total_bytes;
    let limit = |of: fn(&Thresholds) -> Amount| watch.map_or(0, |watch| of(&watch.limits).bytes_of(total));
    let protected_by = process.and_then(|process| process.protection).map(|protection| match protection {
        Protection::Rule(rule) => format!("{} protects it", rules.protect.rule_text(rule)),
        other => other.reason().to_owned(),
    });
    let (growth_bytes, decrease_bytes, decrease_ns) = answer.growth.unwrap_or_default();
    ProcessOutlook {
        watch: watch.map_or(String::new(), |watch| watch.name.clone()),
        pid,
        name: process.map(|process| String::from_utf8_lossy(process.reading.name.as_bytes()).into_owned()),
        cgroup: process.map(|process| group_name(groups, rules, &process)).unwrap_or_default(),
        bytes: process.map_or(0, |process| process.freeable_bytes()),
        growth_bytes,
        decrease_bytes,
        decrease_seconds: decrease_ns as f64 / 1e9,
        is_watched: answer.is_watched,
        protected_by,
        is_chosen,
        chosen: chosen
            .map(|(suspect, family)| cause_details(groups, rules, &suspect, family, event.reading.at_ns)),
        reading: event.reading,
        assessment: event.assessment,
        term_below_bytes: limit(|limits| limits.term_below),
        kill_below_bytes: limit(|limits| limits.kill_below),
        observed_seconds: seen.as_secs_f64(),
    }
}
