//! Pictures of a recording.

use super::shown::Shown;
use crate::{
    failure::{Failure, Outcome},
    output,
};
use manycore_text::names::printable;
use manycore_top::{MemoryTour, Picture, RecordingEnd, Replay, Sample, WaitSums, findings::Watch};
use manycore_topology::{CpuSet, Machine};
use std::{ops::Range, path::Path, time::Duration};

/// A recording, and the picture that was shown last.
pub(super) struct Replayed {
    replay: Replay,
    name: String,
    machine: Machine,
    number: usize,
    /// Findings at a moment are those of its interval.
    watch: Watch,
    /// The memory by node of processes, which few samples have.
    tour: MemoryTour,
    /// The waits since the first sample of the next picture, if that is not the one before.
    waits: WaitSums,
}

impl Replayed {
    /// Opens a recording, and says if a part of it is missing.
    ///
    /// # Errors
    /// It cannot be read, or has no two samples.
    pub fn open(path: &Path) -> Outcome<Self> {
        let replay = Replay::open(path).map_err(Failure::input)?;
        if replay.len() < 2 {
            let why = match replay.end() {
                RecordingEnd::Damaged { offset, why } => {
                    format!(
                        "it is damaged at byte {offset} ({why}), and fewer than two samples are before that"
                    )
                }
                RecordingEnd::Finished | RecordingEnd::Interrupted => {
                    "fewer than two samples were recorded".to_owned()
                }
            };
            return Err(Failure::input(format!("{}: {why}", path.display())));
        }
        match replay.end() {
            RecordingEnd::Finished => {}
            RecordingEnd::Interrupted => {
                output::note("The recording was not finished: up to a minute is missing at its end.");
            }
            RecordingEnd::Damaged { offset, why } => {
                output::note(&format!(
                    "The recording is damaged at byte {offset} ({why}); it is shown up to there."
                ));
            }
        }
        let machine = replay.head().machine.clone();
        let name = path.file_name().map(|name| printable(&name.to_string_lossy())).unwrap_or_default();
        Ok(Self {
            watch: Watch::new(&machine, Duration::ZERO),
            tour: MemoryTour::new(&machine),
            replay,
            name,
            machine,
            number: 0,
            waits: WaitSums::default(),
        })
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the numbers of its pictures: the first sample has none.
    pub fn numbers(&self) -> Range<usize> {
        1..self.replay.len()
    }

    /// Returns the picture after that which was shown last; `None` behind the end.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn next(&mut self) -> Outcome<Option<Shown>> {
        self.at(self.number + 1)
    }

    /// Returns a picture; `None` behind the end, and if no time passed before it.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn at(&mut self, number: usize) -> Outcome<Option<Shown>> {
        self.between(number.saturating_sub(1), number)
    }

    /// Returns what happened between two samples, which need not be neighbours.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn between(&mut self, first: usize, number: usize) -> Outcome<Option<Shown>> {
        let Some(before) = self.sample(first)? else { return Ok(None) };
        let Some(now) = self.sample(number)? else { return Ok(None) };
        Ok(self.picture(number, &before, &now))
    }

    /// Returns what happened between two samples of this recording; `None` if no time passed.
    pub fn picture(&mut self, number: usize, before: &Sample, now: &Sample) -> Option<Shown> {
        // For how long something holds is known only if pictures follow each other.
        if number != self.number + 1 {
            self.watch = Watch::new(&self.machine, Duration::ZERO);
        }
        self.number = number;
        let mut picture = Picture::new(&self.machine, before, now)?;
        self.tour.remember(&mut picture);
        std::mem::take(&mut self.waits).enter(&mut picture);
        let findings = self.watch.update(&picture);
        let machine = self.other_machine(&picture);
        Some(Shown { number, picture, findings, machine })
    }

    /// Takes what the next picture needs from two samples that follow each other, at most one of which is its own: the memory
    /// by node, and the waits of tasks that end before that picture.
    pub fn pass_over(&mut self, before: &Sample, now: &Sample) {
        self.tour.recall(now);
        if let Some(picture) = Picture::new(&self.machine, before, now) {
            self.waits.add(&picture);
        }
    }

    /// Returns a sample; `None` behind the end.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn sample(&mut self, number: usize) -> Outcome<Option<Sample>> {
        self.replay.at(number).map(Option::<&Sample>::cloned).map_err(Failure::missing)
    }

    /// Returns the machine with the CPUs that were online then, if those are others.
    fn other_machine(&mut self, picture: &Picture) -> Option<Box<Machine>> {
        let online: CpuSet = picture.cpus.iter().map(|one| one.cpu).collect();
        (online != self.machine.online).then(|| {
            self.machine.online = online;
            Box::new(self.machine.clone())
        })
    }
}
