//! What is reported about a process beyond what the monitor knows: names that take time to find, and why a
//! killed process does not exit.

use crate::decision::{
    choice::{Kin, Suspect, belongs},
    line::{Culprit, Holding, LINE_SCHEMA, Why},
    table::{Process, Shield},
};
use crate::ending;
use crate::{
    beam::Node,
    event::{Answer, Event},
    groups::Groups,
    rules::Rules,
    text,
};
use manycore_linux::tasks;
use std::{fs, thread, time::Duration};

pub(super) fn is_same(pid: u32, start: u64) -> bool {
    tasks::start_time(pid) == Some(start)
}

/// Frees the memory of a process that was killed and does not exit, in a thread that may block.
pub(super) fn reap(pid: u32, start: u64) {
    let reap = move || {
        if let Ok(process) = ending::open(pid)
            && is_same(pid, start)
        {
            let _ = ending::reap(&process);
        }
    };
    let _ = thread::Builder::new().name("reaper".to_owned()).spawn(reap);
}

/// Returns why a killed process still exists.
pub(super) fn stuck(pid: u32) -> String {
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
    match Node::of(pid).and_then(|node| Ok((node.heaviest()?, node))) {
        Ok((heaviest, node)) => text::node(node.name(), &heaviest),
        Err(why) => format!("the node of process {pid} cannot be queried: {why}"),
    }
}

/// Returns the control group of a process, or an empty string if it is unknown.
fn group_name(groups: &mut Groups, rules: &Rules, process: &Process) -> String {
    // The monitor may not have received the number in time.
    let number = match process.group {
        0 => groups.identify(process.seen.pid, process.seen.start, rules).map_or(0, |found| found.number),
        number => number,
    };
    groups.get(number).map(|group| group.name.clone()).unwrap_or_default()
}

/// Returns a suspect with the names that take time to find.
pub(super) fn culprit(
    groups: &mut Groups,
    rules: &Rules,
    suspect: &Suspect,
    kin: Option<Kin>,
    now_ns: u64,
) -> Culprit {
    let process = &suspect.process;
    let cgroup = group_name(groups, rules, process);
    Culprit {
        pid: process.seen.pid,
        start: process.seen.start,
        name: String::from_utf8_lossy(process.seen.name.as_bytes()).into_owned(),
        user: process.user,
        processes: suspect.members,
        kin: match kin {
            None => String::new(),
            Some(Kin::Session(session)) => format!("session {session}"),
            Some(Kin::Group(_) | Kin::Whole(_)) => format!("cgroup {cgroup}"),
        },
        cgroup,
        bytes: suspect.bytes,
        held: held(process),
        growth_bytes: suspect.growth,
        fall_bytes: suspect.fall,
        fall_seconds: now_ns.saturating_sub(suspect.from_ns) as f64 / 1e9,
    }
}

/// Returns the memory that it was found to hold in addition to its own pages, if this is part of the reason.
fn held(process: &Process) -> Option<Holding> {
    let held = process.held;
    (held.growth_kib > 0).then(|| Holding {
        what: held.kind.words().to_owned(),
        growth_bytes: u64::from(held.growth_kib) << 10,
        stays: held.stays,
    })
}

/// Returns the answer to a query.
pub fn why(
    groups: &mut Groups,
    rules: &Rules,
    pid: u32,
    event: &Event,
    answer: &Answer,
    seen: Duration,
) -> Why {
    let process = answer.process;
    let chosen = answer.finding.suspect();
    let is_member = |suspect: &Suspect, kin: &Option<Kin>| match (kin, &process) {
        (_, None) => false,
        (None, Some(process)) => process.seen.pid == suspect.process.seen.pid,
        (Some(kin), Some(process)) => belongs(process, *kin, suspect) && process.shield.is_none(),
    };
    let is_chosen = chosen.as_ref().is_some_and(|(suspect, kin)| is_member(suspect, kin));
    let watch = rules.watches.get(event.watch);
    let total = event.reading.total;
    let levels =
        watch.map_or([0, 0], |watch| [watch.limits.term_below.of(total), watch.limits.kill_below.of(total)]);
    let spared = process.and_then(|process| process.shield).map(|shield| match shield {
        Shield::Rule(rule) => format!("{} protects it", rules.protect.words(rule)),
        other => other.why().to_owned(),
    });
    let (growth_bytes, fall_bytes, fall_ns) = answer.growth.unwrap_or_default();
    Why {
        schema: LINE_SCHEMA.to_owned(),
        watch: watch.map_or(String::new(), |watch| watch.name.clone()),
        pid,
        name: process.map(|process| String::from_utf8_lossy(process.seen.name.as_bytes()).into_owned()),
        cgroup: process.map(|process| group_name(groups, rules, &process)).unwrap_or_default(),
        bytes: process.map_or(0, |process| process.bytes()),
        growth_bytes,
        fall_bytes,
        fall_seconds: fall_ns as f64 / 1e9,
        is_watched: answer.is_watched,
        spared,
        is_chosen,
        chosen: chosen.map(|(suspect, kin)| culprit(groups, rules, &suspect, kin, event.reading.at_ns)),
        reading: event.reading,
        told: event.told,
        levels,
        seen_seconds: seen.as_secs_f64(),
    }
}
