//! `manycore report` of a recording.

use super::replayed::Replayed;
use crate::{
    cli::{Format, Report},
    failure::{Failure, Outcome},
    output,
};
use manycore_render::terminal::Terminal;
use manycore_top::{
    Replay, findings,
    page::{self, Courses},
    snapshot::{Order, Part, SnapshotOptions, TopSnapshot},
    text::{self, Times},
};
use std::path::Path;

/// What is printed of a recording: its whole time as one interval.
const PARTS: [Part; 6] =
    [Part::System, Part::Units, Part::Nodes, Part::Processes, Part::Guests, Part::Bandwidth];
const ROWS: usize = 20;

/// Prints the sums over the whole recording and its findings, and writes the page.
///
/// # Errors
/// The recording cannot be read; the page cannot be written.
pub fn report(args: &Report, path: &Path, terminal: Terminal) -> Outcome {
    let mut recording = Replayed::open(path)?;
    let last = recording.numbers().end - 1;
    let options = SnapshotOptions { parts: PARTS.to_vec(), order: Order::Cpu, rows: ROWS };
    let mut replay = Replay::open(path).map_err(Failure::missing)?;
    let lines = findings::of_recording(&mut replay).map_err(Failure::missing)?;
    let courses = Courses::of(&mut replay).map_err(Failure::missing)?;
    if let Some(to) = &args.html {
        let page = page::page(&replay, &courses, &lines);
        output::write_file(to, page.as_bytes())?;
        output::note(&format!("The page is {}.", to.display()));
    }
    let Some(mut shown) = recording.between(0, last)? else {
        return Err(Failure::input(format!("{}: no time passed while it was recorded", path.display())));
    };
    courses.waits().enter(&mut shown.picture);
    let mut snapshot = TopSnapshot::new(&shown.picture, &[], &options);
    snapshot.add_ended(&courses.ended(&shown.picture), &options);
    let ended_guests = courses.ended_guests(&shown.picture).join(", ");
    let has_ended = snapshot.processes.iter().any(|row| row.state == 'X');
    output::result(args.format, terminal, &snapshot, || {
        // CSV has plain numbers.
        let times = if args.format == Format::Csv { Times::Full } else { Times::Heading };
        let mut document = text::document(&snapshot, times);
        if has_ended {
            document.paragraph("State X: the process ended before the end of the recording.");
        }
        if !ended_guests.is_empty() {
            document.paragraph(format!(
                "Ended before the end of the recording: the virtual machines {ended_guests}."
            ));
        }
        for line in &lines {
            document.paragraph(line);
        }
        document
    })?;
    if args.format == Format::Text && args.html.is_none() {
        output::note(&format!("Time lines: manycore report {} --html", path.display()));
    }
    Ok(())
}
