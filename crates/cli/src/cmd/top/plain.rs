//! Tables and JSON, for logs and pipes.

use super::{
    live::Live,
    parts,
    replayed::Replayed,
    shown::Shown,
    wanted,
    work::{CommandOutput, Work},
};
use crate::{
    cli::{Format, Top, TopPart},
    failure::{Failure, Outcome},
    live::IntervalTimer,
    output,
};
use manycore_render::terminal::Terminal;
use manycore_text::names::printable_json;
use manycore_top::{
    Wanted,
    snapshot::{Part, SnapshotOptions, TopSnapshot},
    text::{self, Times},
};
use std::time::Duration;

/// Prints a snapshot for each interval.
pub(super) fn run(args: &Top, terminal: Terminal) -> Outcome {
    let parts = parts(args);
    let options = SnapshotOptions {
        parts: parts.iter().copied().map(Part::from).collect(),
        order: args.sort.into(),
        rows: args.rows,
    };
    let count = if args.once { Some(1) } else { args.count };
    let mut printer = Printer {
        format: args.format.unwrap_or(Format::Text),
        terminal,
        is_first: true,
        has_head: false,
        is_only: count == Some(1),
    };
    if let Some(path) = &args.replay {
        return print_recording(Replayed::open(path)?, args.interval, count, &options, &mut printer);
    }
    let is_printed = !args.is_only_for_others();
    let wanted = match wanted(&parts) {
        wanted if is_printed => wanted,
        // Counters of threads are neither recorded nor served.
        wanted if !args.show.is_empty() => Wanted { counters: false, ..wanted },
        _ => Wanted::default(),
    };
    let has_findings = is_printed && parts.contains(&TopPart::Findings);
    let mut live = Live::begin(args, wanted.clone(), has_findings, Work::find(&args.work)?)?;
    let mut timer = IntervalTimer::with_command(args.interval, count)?;
    live.work().start(&CommandOutput::Stderr)?;
    let mut print_all = || -> Outcome {
        let mut is_over = false;
        while !is_over && timer.wait()? {
            let shown = live.next(wanted.clone())?.filter(|_| is_printed);
            shown.map_or(Ok(()), |shown| printer.print(&shown, &options))?;
            // After the sample: until its status is taken, the counters of a command that has ended are there.
            is_over = live.work().ended()?.is_some() || live.has_no_output() && !is_printed;
            if !is_over && let Some(why) = live.take_warning() {
                output::note(&format!("The recording has ended early: {why}"));
            }
        }
        Ok(())
    };
    let result = print_all();
    live.end(result)
}

/// Prints the intervals of a recording.
fn print_recording(
    mut recording: Replayed,
    interval: Duration,
    count: Option<u64>,
    options: &SnapshotOptions,
    printer: &mut Printer,
) -> Outcome {
    // Samples are not taken at exact times.
    let least = interval.as_nanos() as u64 / 10 * 9;
    let mut left = count.unwrap_or(u64::MAX);
    let mut before = recording.sample(0)?.unwrap_or_default();
    for number in recording.numbers() {
        let Some(now) = recording.sample(number)? else { break };
        if left == 0 {
            break;
        }
        if now.at_ns.saturating_sub(before.at_ns) < least {
            continue;
        }
        if let Some(shown) = recording.picture(number, &before, &now) {
            printer.print(&shown, options)?;
            left -= 1;
        }
        before = now;
    }
    Ok(())
}

struct Printer {
    format: Format,
    terminal: Terminal,
    is_first: bool,
    /// Whether the head of the only table has been printed.
    has_head: bool,
    /// Whether it is the only snapshot.
    is_only: bool,
}

impl Printer {
    fn print(&mut self, shown: &Shown, options: &SnapshotOptions) -> Outcome {
        let snapshot = &TopSnapshot::new(&shown.picture, &shown.findings, options);
        let is_first = std::mem::replace(&mut self.is_first, false);
        let times = match self.format {
            Format::Csv => Times::Full,
            _ if self.is_only => Times::Heading,
            _ => Times::Clock,
        };
        let document = || text::document(snapshot, times);
        match self.format {
            Format::Json => {
                let line = serde_json::to_string(snapshot).map_err(Failure::missing)?;
                output::print(&format!("{}\n", printable_json(&line)))
            }
            Format::Text => {
                let gap = if is_first { "" } else { "\n" };
                output::print_raw(&format!("{gap}{}", document().text(self.terminal)))
            }
            Format::Markdown => output::print_raw(&document().markdown()),
            Format::Csv => {
                if options.parts.len() > 1 {
                    return output::print_raw(&document().csv_with_titles());
                }
                let csv = document().csv();
                // The head of a single table is that of all its rows.
                let has_head = self.has_head;
                self.has_head |= !csv.is_empty();
                output::print_raw(if has_head { csv.split_once('\n').map_or("", |all| all.1) } else { &csv })
            }
        }
    }
}
