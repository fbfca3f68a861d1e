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
    cli::{Format, Top},
    failure::{Failure, Outcome},
    live::IntervalTimer,
    output,
};
use manycore_render::terminal::Terminal;
use manycore_text::{names::printable_json, units};
use manycore_top::{
    Sample, Wanted,
    snapshot::{Part, SnapshotOptions, TopSnapshot, first_processes},
    text::{self, Times},
};
use std::time::Duration;

/// Prints a snapshot for each interval.
pub(super) fn run(args: &Top, terminal: Terminal) -> Outcome {
    let parts = parts(args);
    let options = SnapshotOptions { parts: parts.clone(), order: args.sort.into(), rows: args.rows };
    let count = if args.once { Some(1) } else { args.count };
    let mut printer = Printer {
        format: args.format.unwrap_or(Format::Text),
        terminal,
        is_first: true,
        has_printed: false,
        asked: args.show.clone(),
        is_only: count == Some(1),
        is_recording: args.replay.is_some(),
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
    let has_findings = is_printed && parts.contains(&Part::Findings);
    let mut live = Live::begin(args, wanted.clone(), has_findings, Work::find(&args.work)?)?;
    let mut timer = IntervalTimer::with_command(args.interval, count)?;
    live.work().start(&CommandOutput::Stderr)?;
    let mut print_all = || -> Outcome {
        let (mut is_over, mut spare) = (false, Vec::new());
        while !is_over && timer.wait_or(|| live.work().has_ended())? {
            if let Some(mut shown) = live.next(wanted.clone(), std::mem::take(&mut spare))? {
                if is_printed {
                    let pids = first_processes(&shown.picture, &options);
                    live.add_details(&mut shown.picture, &pids);
                    printer.print(&shown, &options)?;
                }
                spare = shown.picture.tasks;
            }
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

/// Prints the intervals of a recording, and says how much of it is left out at its end.
///
/// # Errors
/// It cannot be read, or is shorter than an interval.
fn print_recording(
    mut recording: Replayed,
    interval: Duration,
    count: Option<u64>,
    options: &SnapshotOptions,
    printer: &mut Printer,
) -> Outcome {
    let interval_ns = interval.as_nanos() as u64;
    let mut left = count.unwrap_or(u64::MAX);
    let mut before = recording.sample(0)?.unwrap_or_default();
    // The last sample of which no picture was made.
    let mut passed_over: Option<Sample> = None;
    let mut rest = Duration::ZERO;
    for number in recording.numbers() {
        let Some(now) = recording.sample(number)? else { break };
        if left == 0 {
            break;
        }
        let last = passed_over.as_ref().unwrap_or(&before);
        let [passed, step] = [&before, last].map(|one| now.at_ns.saturating_sub(one.at_ns));
        let is_too_short = !ends_interval(passed, step, interval_ns);
        if is_too_short || passed_over.is_some() {
            recording.pass_over(last, &now);
        }
        if is_too_short {
            rest = Duration::from_nanos(passed);
            passed_over = Some(now);
            continue;
        }
        rest = Duration::ZERO;
        if let Some(shown) = recording.picture(number, &before, &now) {
            printer.print(&shown, options)?;
            left -= 1;
        }
        (before, passed_over) = (now, None);
    }
    let seconds = rest.as_secs_f64();
    if printer.is_first {
        return Err(Failure::input(format!(
            "the recording has {seconds:.1} s, and an interval {}: choose a shorter one with --interval",
            units::duration(interval.as_secs_f64()),
        )));
    }
    if !rest.is_zero() && left > 0 {
        output::note(&format!(
            "The last {seconds:.1} s of the recording are left out: they are less than an interval."
        ));
    }
    Ok(())
}

/// Returns whether an interval ends with a sample: samples are not taken at exact times, and this one is the nearest to its end. `passed`
/// nanoseconds have passed since the interval began, and `step` since the sample before.
const fn ends_interval(passed: u64, step: u64, interval: u64) -> bool {
    passed.saturating_add(step / 2) >= interval
}

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Printer {
    format: Format,
    terminal: Terminal,
    is_first: bool,
    /// Whether anything has been printed.
    has_printed: bool,
    /// The parts that were asked for.
    asked: Vec<Part>,
    /// Whether it is the only snapshot.
    is_only: bool,
    /// Whether the pictures are those of a recording.
    is_recording: bool,
}

/// Returns why parts that were asked for are missing in the first picture.
fn missing(snapshot: &TopSnapshot, parts: &[Part], is_recording: bool) -> Vec<&'static str> {
    let reasons = [
        (
            Part::Units,
            snapshot.units.is_empty(),
            "No units: the machine has one cluster, last-level cache and node at most.",
            "The recording has no units: its machine has one cluster, last-level cache and node at most.",
        ),
        (
            Part::Guests,
            snapshot.guests.is_empty(),
            "No virtual machine runs.",
            "The recording has no virtual machine at its start.",
        ),
        (
            Part::Bandwidth,
            snapshot.bandwidth.is_empty(),
            "Memory bandwidth: not available (needs resctrl with memory bandwidth monitoring).",
            "The recording has no memory bandwidth: it is recorded with --show bandwidth, where resctrl is mounted.",
        ),
        (
            Part::Groups,
            snapshot.groups.is_empty(),
            "No control groups are mounted.",
            "The recording has no control groups: they are recorded with --show groups.",
        ),
        (
            Part::Interrupts,
            snapshot.interrupts.is_empty(),
            "No interrupt was handled.",
            "The recording has no interrupts: they are recorded with --show interrupts.",
        ),
        (
            Part::Latency,
            snapshot.latency.is_none(),
            "No latencies were counted.",
            "The recording has no latencies: they are recorded with --bpf.",
        ),
    ];
    let missing = reasons.into_iter().filter(|(part, is_missing, ..)| parts.contains(part) && *is_missing);
    missing.map(|(_, _, live, recorded)| if is_recording { recorded } else { live }).collect()
}

impl Printer {
    fn print(&mut self, shown: &Shown, options: &SnapshotOptions) -> Outcome {
        let snapshot = &TopSnapshot::new(&shown.picture, &shown.findings, options);
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_first {
            missing(snapshot, &self.asked, self.is_recording).into_iter().for_each(output::note);
        }
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
                let text = document().text(self.terminal);
                if text.is_empty() {
                    return Ok(());
                }
                let gap = if std::mem::replace(&mut self.has_printed, true) { "\n" } else { "" };
                output::print_raw(&format!("{gap}{text}"))
            }
            Format::Markdown => output::print_raw(&document().markdown()),
            Format::Csv => {
                if options.parts.len() > 1 {
                    return output::print_raw(&document().csv_with_titles());
                }
                let csv = document().csv();
                // The head of a single table is that of all its rows.
                let has_head = self.has_printed;
                self.has_printed |= !csv.is_empty();
                output::print_raw(if has_head { csv.split_once('\n').map_or("", |all| all.1) } else { &csv })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ends_interval;

    /// Regression: an interval ended with the first sample after nine tenths of it.
    #[test]
    fn an_interval_ends_with_the_sample_that_is_nearest_to_its_end() {
        let first = |step: u64| {
            (1..=20).map(|count| count * step).find(|&passed| ends_interval(passed, step, 10_000))
        };
        assert_eq!(
            [first(1000), first(999), first(1001), first(997)],
            [Some(10_000), Some(9990), Some(10_010), Some(9970)]
        );
        assert_eq!([first(3000), first(4000), first(60_000)], [Some(9000), Some(8000), Some(60_000)]);
    }
}
