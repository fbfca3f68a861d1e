//! The guard's decisions and answers as text.

use crate::decision::{
    line::{Culprit, Files, Kind, Line, Why},
    node::Heaviest,
    stage::{Assessment, Cause, Reading},
};
use manycore_text::{names::printable, units};

/// Returns a decision as one line: what was done, to which process, and the readings that led to it.
pub fn line(line: &Line) -> String {
    let word = match (line.event, line.dry_run) {
        (Kind::Term, true) => "WOULD TERM",
        (Kind::Kill, true) => "WOULD KILL",
        (Kind::Warn, _) => "warn",
        (Kind::Slow, _) => "slow",
        (Kind::Release, _) => "release",
        (Kind::Term, _) => "TERM",
        (Kind::Kill, _) => "KILL",
        (Kind::Gone, _) => "gone",
        (Kind::Stuck, _) => "STUCK",
        (Kind::Spare, _) => "spare",
        (Kind::Refused, _) => "REFUSED",
        (Kind::Nobody, _) => "nobody",
        (Kind::Files, _) => "FILES",
        (Kind::Over, _) => "over",
        (Kind::Note, _) => "note",
    };
    let mut parts = vec![what(line)];
    parts.extend(line.files.as_ref().map(files));
    if let (Some(reading), Some(told)) = (&line.reading, &line.told)
        && !matches!(line.event, Kind::Gone | Kind::Slow | Kind::Release)
    {
        parts.push(left(reading, told));
    }
    if let (Kind::Term | Kind::Kill, Some(ms)) = (line.event, line.after_ms) {
        parts.push(format!("{ms:.1} ms from reading to signal"));
    }
    if line.event != Kind::Note && !line.note.is_empty() {
        parts.push(note(line));
    }
    parts.retain(|part| !part.is_empty());
    format!("{} {word} {}: {}", line.at, printable(&line.watch), parts.join("; "))
}

/// Returns a note on one line, without control characters. A note may contain output of another process,
/// which must not pass for lines of the guard.
fn note(line: &Line) -> String {
    printable(&line.note.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn what(line: &Line) -> String {
    let who = line.culprit.as_ref().map(who);
    let took = line.culprit.as_ref().map(took);
    match (line.event, who, took) {
        (Kind::Note | Kind::Release, ..) => note(line),
        (Kind::Warn, Some(who), Some(took)) => format!("memory will run out because of {who}, which {took}"),
        (Kind::Warn, ..) => {
            "memory will run out; no eligible process is shown to have taken much of it".to_owned()
        }
        (Kind::Term, Some(who), Some(took)) => format!("SIGTERM to {who}, which {took}"),
        (Kind::Kill, Some(who), Some(took)) => format!("SIGKILL to {who}, which {took}"),
        (Kind::Refused, Some(who), Some(took)) => format!("no signal could be sent to {who}, which {took}"),
        (Kind::Gone, Some(who), _) => {
            let after = line.after_ms.map_or(String::new(), |ms| format!(" {ms:.0} ms after the signal"));
            format!(
                "{who} has exited{after}; it held {}",
                line.culprit.as_ref().map_or(String::new(), |c| units::bytes(c.bytes))
            )
        }
        (Kind::Stuck, Some(who), _) => {
            format!("{who} was killed but does not exit; another process is selected")
        }
        (Kind::Spare, Some(who), _) => format!("{who} is left running: the shortage has passed in time"),
        (Kind::Slow, Some(who), _) => format!("{who} is slowed down"),
        (Kind::Files, ..) => "no process is shown to have taken the memory, so none is ended yet".to_owned(),
        (Kind::Nobody, ..) => {
            "no eligible process is shown to have taken much memory, so none is ended yet".to_owned()
        }
        (Kind::Over, ..) => "the shortage is over".to_owned(),
        _ => String::new(),
    }
}

/// Returns a description such as `beam.smp (pid 812, user 105, /system.slice/rabbit.service)`.
pub fn who(culprit: &Culprit) -> String {
    let group = match culprit.cgroup.as_str() {
        "" => String::new(),
        group => format!(", {}", printable(group)),
    };
    let one = format!("{} (pid {}, user {}{group})", printable(&culprit.name), culprit.pid, culprit.user);
    match culprit.processes {
        0 | 1 => one,
        many => format!("{many} processes of {}, including {one}", printable(&culprit.kin)),
    }
}

fn took(culprit: &Culprit) -> String {
    if culprit.fall_bytes == 0 {
        return format!("holds {}", units::bytes(culprit.bytes));
    }
    let beside = match &culprit.held {
        None => String::new(),
        Some(held) => {
            let stays = if held.stays { ", which outlive the process" } else { "" };
            format!(
                " ({} were added since memory was last plentiful, as {}{stays})",
                units::bytes(held.growth_bytes),
                held.what
            )
        }
    };
    format!(
        "grew by {} while available memory fell by {} in {:.1} s, and holds {}{beside}",
        units::bytes(culprit.growth_bytes),
        units::bytes(culprit.fall_bytes),
        culprit.fall_seconds,
        units::bytes(culprit.bytes),
    )
}

fn files(files: &Files) -> String {
    let place = match (&files.mount, files.used_bytes) {
        (Some(mount), Some(used)) => format!("files in {} use {}", printable(mount), units::bytes(used)),
        _ => "their mount is unknown".to_owned(),
    };
    format!("shared memory and files in memory grew by {}, {place}", units::bytes(files.growth_bytes))
}

fn left(reading: &Reading, told: &Assessment) -> String {
    let mut text = format!("{} of {} left", units::bytes(reading.available), units::bytes(reading.total));
    if reading.swap_total > 0 {
        text += &format!(", {} of swap", units::bytes(reading.swap_free));
    }
    if let Some(seconds) = told.seconds_left {
        text += &format!(", exhausted in {seconds:.1} s at {}", units::rate(told.rate));
    }
    match (told.cause, reading.stalled) {
        (Cause::Stall, Some(stalled)) => {
            text += &format!(", all tasks waited for memory {} of the time", units::percent(stalled));
        }
        (Cause::Level, _) => text += ", below the limit",
        _ => {}
    }
    text
}

/// Describes the largest process of an Erlang node.
pub fn node(name: &str, heaviest: &Heaviest) -> String {
    let words = heaviest.held_by();
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
pub fn why(why: &Why) -> String {
    let Some(name) = &why.name else { return format!("There is no process {}.\n", why.pid) };
    let group = if why.cgroup.is_empty() { String::new() } else { format!(" in {}", printable(&why.cgroup)) };
    let mut text = format!("{} (pid {}){group}, watch {}\n", printable(name), why.pid, printable(&why.watch));
    let mut row = |key: &str, value: String| text += &format!("  {key:<10}{value}\n");
    row("holds", format!("{}, which would be freed if it ended", units::bytes(why.bytes)));
    row(
        "growth",
        match why.fall_bytes {
            0 => format!(
                "none that counts: available memory has not fallen in the {:.0} s observed",
                why.seen_seconds
            ),
            fall => format!(
                "{} while available memory fell by {} in {:.1} s",
                units::bytes(why.growth_bytes),
                units::bytes(fall),
                why.fall_seconds
            ),
        },
    );
    row("memory", left(&why.reading, &why.told));
    let [term, kill] = why.levels;
    row("limits", format!("SIGTERM below {}, SIGKILL below {}", units::bytes(term), units::bytes(kill)));
    row(
        "verdict",
        match (&why.spared, why.is_watched, why.is_chosen, &why.chosen) {
            (Some(spared), ..) => format!("never ended: {spared}"),
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
    use crate::decision::{line::LINE_SCHEMA, stage::Stage};

    const MIB: u64 = 1 << 20;

    fn sample(event: Kind) -> Line {
        Line {
            schema: LINE_SCHEMA.to_owned(),
            at: "2026-01-02T03:04:05Z".to_owned(),
            watch: "machine".to_owned(),
            event,
            dry_run: false,
            reading: Some(Reading { available: 41 * MIB, total: 460 * MIB, ..Reading::default() }),
            told: Some(Assessment {
                stage: Stage::Kill,
                cause: Cause::Level,
                rate: 150e6,
                seconds_left: Some(0.28),
            }),
            culprit: Some(Culprit {
                pid: 812,
                start: 1,
                name: "beam.smp".to_owned(),
                user: 105,
                cgroup: "/system.slice/rabbit.service".to_owned(),
                processes: 1,
                kin: String::new(),
                bytes: 310 * MIB,
                held: None,
                growth_bytes: 300 * MIB,
                fall_bytes: 310 * MIB,
                fall_seconds: 2.14,
            }),
            files: None,
            after_ms: Some(1.24),
            note: String::new(),
        }
    }

    #[test]
    fn each_decision_is_a_line_that_says_why() {
        let mut lines = Vec::new();
        for kind in [Kind::Warn, Kind::Term, Kind::Kill, Kind::Gone, Kind::Stuck, Kind::Spare, Kind::Refused]
        {
            lines.push(line(&sample(kind)));
        }
        let bare = |kind| Line { culprit: None, ..sample(kind) };
        for kind in [Kind::Warn, Kind::Nobody, Kind::Over] {
            lines.push(line(&bare(kind)));
        }
        let files =
            Files { growth_bytes: 200 * MIB, mount: Some("/run/x".to_owned()), used_bytes: Some(201 * MIB) };
        lines.push(line(&Line { files: Some(files), ..bare(Kind::Files) }));
        lines.push(line(&Line { note: "the new rules apply from now on".to_owned(), ..bare(Kind::Note) }));
        let mut family = sample(Kind::Kill);
        if let Some(culprit) = &mut family.culprit {
            (culprit.processes, culprit.kin) = (73, "session 800".to_owned());
        }
        family.dry_run = true;
        lines.push(line(&family));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_note_forges_no_line() {
        let forged = "it said x\n2026-01-02T03:04:05Z KILL machine: SIGKILL to sshd\u{1b}[2J";
        let text = line(&Line { note: forged.to_owned(), ..sample(Kind::Note) });
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn a_process_is_told_what_would_happen_to_it() {
        let sample = sample(Kind::Kill);
        let base = Why {
            schema: LINE_SCHEMA.to_owned(),
            watch: "machine".to_owned(),
            pid: 812,
            name: Some("postgres".to_owned()),
            cgroup: "/system.slice/db".to_owned(),
            bytes: 100 * MIB,
            growth_bytes: MIB,
            fall_bytes: 310 * MIB,
            fall_seconds: 2.0,
            is_watched: true,
            spared: None,
            is_chosen: false,
            chosen: sample.culprit.clone(),
            reading: sample.reading.unwrap(),
            told: sample.told.unwrap(),
            levels: [46 * MIB, 23 * MIB],
            seen_seconds: 60.0,
        };
        let spared =
            Why { spared: Some("protect.names \"postgres*\" protects it".to_owned()), ..base.clone() };
        let calm = Why { chosen: None, fall_bytes: 0, ..base.clone() };
        let gone = Why { name: None, ..base.clone() };
        let chosen = Why { is_chosen: true, ..base.clone() };
        let all = [base, spared, calm, chosen, gone];
        insta::assert_snapshot!(all.iter().map(why).collect::<Vec<_>>().join("\n"));
    }
}
