//! The findings of a recording.

use super::{Finding, FindingKind, Watch};
use crate::{
    history::{Error, Replay},
    memory_tour::MemoryTour,
    picture::Picture,
};
use manycore_text::units::duration;
use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

/// Most pictures that are looked at. A longer recording is looked at in longer intervals.
const MOST_PICTURES: usize = 5_000;
/// Most lines.
const MOST_LINES: usize = 50;

/// When a finding was seen first, its words when it had held longest, and for how long.
struct Held {
    from_ms: u64,
    longest: Finding,
}

/// Returns what held for three seconds or longer in a recording, the longest first, each as a line with its time.
///
/// # Errors
/// Those of reading; a recording is read up to a damaged part.
pub fn of_recording(replay: &mut Replay) -> Result<Vec<String>, Error> {
    let machine = replay.head().machine.clone();
    let mut watch = Watch::new(&machine, Duration::from_secs(3));
    let mut tour = MemoryTour::new(&machine);
    let step = replay.len().div_ceil(MOST_PICTURES).max(1);
    let mut held: BTreeMap<(FindingKind, String), Held> = BTreeMap::new();
    let Some(mut before) = replay.at(0)?.cloned() else { return Ok(Vec::new()) };
    for number in 1..replay.len() {
        let now = match replay.at(number) {
            Ok(Some(now)) => now,
            Ok(None) | Err(Error::Chunk { .. }) => break,
            Err(error) => return Err(error),
        };
        if number % step != 0 {
            tour.recall(now);
            continue;
        }
        let mut picture = Picture::new(&machine, &before, now);
        before.clone_from(now);
        // Each sample has the memory by node of one process at most.
        if let Some(picture) = &mut picture {
            tour.remember(picture);
        }
        for (subject, finding) in picture.iter().flat_map(|picture| watch.with_subjects(picture)) {
            let from_ms = before.unix_ms.saturating_sub((finding.seconds * 1e3) as u64);
            let known = held
                .entry((finding.kind, subject))
                .or_insert_with(|| Held { from_ms, longest: finding.clone() });
            if finding.seconds > known.longest.seconds {
                *known = Held { from_ms, longest: finding };
            }
        }
    }
    let mut all: Vec<Held> = held.into_values().collect();
    all.sort_by(|a, b| b.longest.seconds.total_cmp(&a.longest.seconds));
    Ok(all.iter().take(MOST_LINES).map(line).collect())
}

fn line(held: &Held) -> String {
    // The year 9999 is the last one that the format has.
    let time = UNIX_EPOCH + Duration::from_millis(held.from_ms.min(253_402_300_799_000));
    let time = humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC");
    let Finding { text, fix, seconds, .. } = &held.longest;
    let fix = fix.as_ref().map_or_else(String::new, |fix| format!(". Fix: {fix}"));
    format!("{time}, for {}: {text}{fix}", duration(*seconds))
}
