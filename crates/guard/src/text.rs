//! The guard's decisions and answers as text.

use crate::decision::{
    assessment::{Assessment, MemoryReading, StageReason},
    event_line::{CauseDetails, EventKind, EventLine, ProcessOutlook, TmpfsGrowth},
};
use manycore_erlang::LargestErlangProcess;
use manycore_text::{names::printable, units};

/// Returns a decision as one line: what was done, to which process, and the readings that led to it.
pub fn line(line: &EventLine) -> String {
    let word = match (line.event, line.dry_run) {
        (EventKind::Term, true) => "WOULD TERM",
        (EventKind::Kill, true) => "WOULD KILL",
        (EventKind::Warn, _) => "warn",
        (EventKind::Slow, _) => "slow",
        (EventKind::Release, _) => "release",
        (EventKind::Term, _) => "TERM",
        (EventKind::Kill, _) => "KILL",
        (EventKind::Exited, _) => "exited",
        (EventKind::Stuck, _) => "STUCK",
        (EventKind::LeftRunning, _) => "left-running",
        (EventKind::Refused, _) => "REFUSED",
        (EventKind::NoCause, _) => "no-cause",
        (EventKind::Files, _) => "FILES",
        (EventKind::Over, _) => "over",
        (EventKind::Note, _) => "note",
    };
    let mut parts = vec![what(line)];
    parts.extend(line.files.as_ref().map(files));
    if let (Some(reading), Some(assessment)) = (&line.reading, &line.assessment)
        && !matches!(line.event, EventKind::Exited | EventKind::Slow | EventKind::Release)
    {
        parts.push(left(reading, assessment));
    }
    if let (EventKind::Term | EventKind::Kill, Some(ms)) = (line.event, line.after_ms) {
        parts.push(format!("{ms:.1} ms from reading to signal"));
    }
    if line.event != EventKind::Note && !line.note.is_empty() {
        parts.push(note(line));
    }
    parts.retain(|part| !part.is_empty());
    format!("{} {word} {}: {}", line.at, printable(&line.watch), parts.join("; "))
}

/// Returns a note on one line, without control characters. A note may contain output of another process,
/// which must not pass for lines of the guard.
fn note(line: &EventLine) -> String {
    printable(&line.note.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn what(line: &EventLine) -> String {
    let who = line.cause.as_ref().map(who);
    let took = line.cause.as_ref().map(took);
    match (line.event, who, took) {
        (EventKind::Note | EventKind::Release, ..) => note(line),
        (EventKind::Warn, Some(who), Some(took)) => {
            format!("memory will run out because of {who}, which {took}")
        }
        (EventKind::Warn, ..) => {
            "memory will run out; no eligible process is shown to have taken much of it".to_owned()
        }
        (EventKind::Term, Some(who), Some(took)) => format!("SIGTERM to {who}, which {took}"),
        (EventKind::Kill, Some(who), Some(took)) => format!("SIGKILL to {who}, which {took}"),
        (EventKind::Refused, Some(who), Some(took)) => {
            format!("no signal could be sent to {who}, which {took}")
        }
        (EventKind::Exited, Some(who), _) => {
            let after = line.after_ms.map_or(String::new(), |ms| format!(" {ms:.0} ms after the signal"));
            format!(
                "{who} has exited{after}; it held {}",
                line.cause.as_ref().map_or(String::new(), |c| units::bytes(c.bytes))
            )
        }
        (EventKind::Stuck, Some(who), _) => {
            format!("{who} was killed but does not exit; another process is selected")
        }
        (EventKind::LeftRunning, Some(who), _) => {
            format!("{who} is left running: the shortage has passed in time")
        }
        (EventKind::Slow, Some(who), _) => format!("{who} is slowed down"),
        (EventKind::Files, ..) => {
            "no process is shown to have taken the memory, so none is ended yet".to_owned()
        }
        (EventKind::NoCause, ..) => {
            "no eligible process is shown to have taken much memory, so none is ended yet".to_owned()
        }
        (EventKind::Over, ..) => "the shortage is over".to_owned(),
        _ => String::new(),
    }
}

/// Returns a description such as `beam.smp (pid 812, user 105, /system.slice/rabbit.service)`.
pub fn who(cause: &CauseDetails) -> String {
    let group = match cause.cgroup.as_str() {
        "" => String::new(),
        group => format!(", {}", printable(group)),
    };
    let one = format!("{} (pid {}, user {}{group})", printable(&cause.name), cause.pid, cause.user);
    match cause.processes {
        0 | 1 => one,
        many => format!("{many} processes of {}, including {one}", printable(&cause.family)),
    }
}

fn took(cause: &CauseDetails) -> String {
    if cause.decrease_bytes == 0 {
        return format!("holds {}", units::bytes(cause.bytes));
    }
    let beside = match &cause.extra_memory {
        None => String::new(),
        Some(held) => {
            let is_persistent = if held.is_persistent { ", which outlive the process" } else { "" };
            format!(
                " ({} were added since memory was last plentiful, as {}{is_persistent})",
                units::bytes(held.growth_bytes),
                held.what
            )
        }
    };
    format!(
        "grew by {} while available memory fell by {} in {:.1} s, and holds {}{beside}",
        units::bytes(cause.growth_bytes),
        units::bytes(cause.decrease_bytes),
        cause.decrease_seconds,
        units::bytes(cause.bytes),
    )
}

fn files(files: &TmpfsGrowth) -> String {
    let place = match (&files.mount, files.used_bytes) {
        (Some(mount), Some(used)) => format!("files in {} use {}", printable(mount), units::bytes(used)),
        _ => "their mount is unknown".to_owned(),
    };
    format!("shared memory and files in memory grew by {}, {place}", units::bytes(files.growth_bytes))
}

fn left(reading: &MemoryReading, assessment: &Assessment) -> String {
    let mut text =
        format!("{} of {} left", units::bytes(reading.available_bytes), units::bytes(reading.total_bytes));
    if reading.swap_total_bytes > 0 {
        text += &format!(", {} of swap", units::bytes(reading.swap_free_bytes));
    }
    if let Some(seconds) = assessment.seconds_left {
        text += &format!(
            ", exhausted in {seconds:.1} s at {}",
            units::rate(assessment.decrease_bytes_per_second)
        );
    }
    match (assessment.reason, reading.stalled) {
        (StageReason::Stall, Some(stalled)) => {
            text += &format!(", all tasks waited for memory {} of the time", units::percent(stalled));
        }
        (StageReason::Level, _) => text += ", below the limit",
        _ => {}
    }
    text
}

/// Describes the largest process of an Erlang node.
pub fn node(name: &str, heaviest: &LargestErlangProcess) -> String {
    let words = heaviest.suggested_max_heap_words();
    let first = format!(
        "node {}: the largest of {} processes is {} ({}): {}, {} words of heap, {} messages queued; it \
        executes {}",
        printable(name),
        heaviest.processes,
        heaviest.pid,
        printable(&heaviest.name),
        units::bytes(heaviest.bytes),
        heaviest.words,
        heaviest.messages,
        printable(&heaviest.current),
    );
    if !heaviest.is_cause() {
        return format!(
            "{first}; the second largest has {}, so the number of processes is the cause and no \
            max_heap_size would have helped",
            units::bytes(heaviest.second_bytes)
        );
    }
    let limit = match heaviest.limit_words {
        0 => "no max_heap_size is set".to_owned(),
        words => format!("max_heap_size is {words} words"),
    };
    format!(
        "{first}; {limit}. To limit this process, call process_flag(max_heap_size, #{{size => {words}, \
        kill => true, error_logger => true}}) in it (at most twice the second largest). To limit all \
        processes that start later, use erl +hmax {words} +hmaxk true, but check first how much they need"
    )
}

/// Describes what would happen to a process.
pub fn outlook(outlook: &ProcessOutlook) -> String {
    let Some(name) = &outlook.name else { return format!("There is no process {}.\n", outlook.pid) };
    let group =
        if outlook.cgroup.is_empty() { String::new() } else { format!(" in {}", printable(&outlook.cgroup)) };
    let mut text =
        format!("{} (pid {}){group}, watch {}\n", printable(name), outlook.pid, printable(&outlook.watch));
    let mut row = |key: &str, value: String| text += &format!("  {key:<10}{value}\n");
    row("holds", format!("{}, which would be freed if it ended", units::bytes(outlook.bytes)));
    row(
        "growth",
        match outlook.decrease_bytes {
            0 => format!(
                "none that counts: available memory has not fallen for {:.0} s",
                outlook.observed_seconds
            ),
            decrease => format!(
                "{} while available memory fell by {} in {:.1} s",
                units::bytes(outlook.growth_bytes),
                units::bytes(decrease),
                outlook.decrease_seconds
            ),
        },
    );
    row("memory", left(&outlook.reading, &outlook.assessment));
    let (term, kill) = (outlook.term_below_bytes, outlook.kill_below_bytes);
    row("limits", format!("SIGTERM below {}, SIGKILL below {}", units::bytes(term), units::bytes(kill)));
    row(
        "verdict",
        match (&outlook.protected_by, outlook.is_watched, outlook.is_chosen, &outlook.chosen) {
            (Some(protected_by), ..) => format!("never ended: {protected_by}"),
            (None, false, ..) => "never ended: this watch does not include it".to_owned(),
            (None, true, true, _) => "would be ended if memory ran out now: it grew most".to_owned(),
            (None, true, false, Some(other)) => format!("would not be ended now: {} grew more", who(other)),
            (None, true, false, None) => "would not be ended now: no process has grown enough".to_owned(),
        },
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{assessment::Stage, event_line::EVENT_SCHEMA};

    const MIB: u64 = 1 << 20;

    fn sample(event: EventKind) -> EventLine {
        EventLine {
            schema: EVENT_SCHEMA.to_owned(),
            at: "2026-01-02T03:04:05Z".to_owned(),
            watch: "machine".to_owned(),
            event,
            dry_run: false,
            reading: Some(MemoryReading {
                available_bytes: 41 * MIB,
                total_bytes: 460 * MIB,
                ..MemoryReading::default()
            }),
            assessment: Some(Assessment {
                stage: Stage::Kill,
                reason: StageReason::Level,
                decrease_bytes_per_second: 150e6,
                seconds_left: Some(0.28),
            }),
            cause: Some(CauseDetails {
                pid: 812,
                start: 1,
                name: "beam.smp".to_owned(),
                user: 105,
                cgroup: "/system.slice/rabbit.service".to_owned(),
                processes: 1,
                family: String::new(),
                bytes: 310 * MIB,
                extra_memory: None,
                growth_bytes: 300 * MIB,
                decrease_bytes: 310 * MIB,
                decrease_seconds: 2.14,
            }),
            files: None,
            after_ms: Some(1.24),
            note: String::new(),
        }
    }

    #[test]
    fn each_decision_is_one_line_with_its_reason() {
        let mut lines = Vec::new();
        for kind in [
            EventKind::Warn,
            EventKind::Term,
            EventKind::Kill,
            EventKind::Exited,
            EventKind::Stuck,
            EventKind::LeftRunning,
            EventKind::Refused,
        ] {
            lines.push(line(&sample(kind)));
        }
        let bare = |kind| EventLine { cause: None, ..sample(kind) };
        for kind in [EventKind::Warn, EventKind::NoCause, EventKind::Over] {
            lines.push(line(&bare(kind)));
        }
        let files = TmpfsGrowth {
            growth_bytes: 200 * MIB,
            mount: Some("/run/x".to_owned()),
            used_bytes: Some(201 * MIB),
        };
        lines.push(line(&EventLine { files: Some(files), ..bare(EventKind::Files) }));
        lines.push(line(&EventLine { note: "the new rules now apply".to_owned(), ..bare(EventKind::Note) }));
        let mut family = sample(EventKind::Kill);
        if let Some(cause) = &mut family.cause {
            (cause.processes, cause.family) = (73, "session 800".to_owned());
        }
        family.dry_run = true;
        lines.push(line(&family));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn note_cannot_forge_a_line() {
        let forged = "it said x\n2026-01-02T03:04:05Z KILL machine: SIGKILL to sshd\u{1b}[2J";
        let text = line(&EventLine { note: forged.to_owned(), ..sample(EventKind::Note) });
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn outlook_of_a_process_is_printed() {
        let sample = sample(EventKind::Kill);
        let base = ProcessOutlook {
            watch: "machine".to_owned(),
            pid: 812,
            name: Some("postgres".to_owned()),
            cgroup: "/system.slice/db".to_owned(),
            bytes: 100 * MIB,
            growth_bytes: MIB,
            decrease_bytes: 310 * MIB,
            decrease_seconds: 2.0,
            is_watched: true,
            protected_by: None,
            is_chosen: false,
            chosen: sample.cause.clone(),
            reading: sample.reading.unwrap(),
            assessment: sample.assessment.unwrap(),
            term_below_bytes: 46 * MIB,
            kill_below_bytes: 23 * MIB,
            observed_seconds: 60.0,
        };
        let protected_by = ProcessOutlook {
            protected_by: Some("protect.names \"postgres*\" protects it".to_owned()),
            ..base.clone()
        };
        let calm = ProcessOutlook { chosen: None, decrease_bytes: 0, ..base.clone() };
        let gone = ProcessOutlook { name: None, ..base.clone() };
        let chosen = ProcessOutlook { is_chosen: true, ..base.clone() };
        let all = [base, protected_by, calm, chosen, gone];
        insta::assert_snapshot!(all.iter().map(outlook).collect::<Vec<_>>().join("\n"));
    }
}
