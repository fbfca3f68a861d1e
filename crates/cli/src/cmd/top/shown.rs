//! Where pictures come from: the running system, or a recording.

use super::{live::Live, replayed::Replayed, work::CommandOutput};
use crate::failure::Outcome;
use manycore_top::{Picture, TaskUse, Wanted, findings::Finding, view::RecorderState};
use manycore_topology::Machine;
use std::ops::Range;

/// A picture, its number, its findings, and the machine if its CPUs have changed.
pub(super) struct Shown {
    pub number: usize,
    pub picture: Picture,
    pub findings: Vec<Finding>,
    pub machine: Option<Box<Machine>>,
}

/// A source of pictures.
pub(super) enum Source {
    Live(Box<Live>),
    Replayed(Box<Replayed>),
}

impl Source {
    pub fn machine(&self) -> &Machine {
        match self {
            Self::Live(live) => live.machine(),
            Self::Replayed(replayed) => replayed.machine(),
        }
    }

    /// Returns the name of the recording; `None` for the running system.
    pub fn recording(&self) -> Option<&str> {
        match self {
            Self::Live(_) => None,
            Self::Replayed(replayed) => Some(replayed.name()),
        }
    }

    /// Starts the command that is watched, if there is one.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self, output: &CommandOutput) -> Outcome {
        match self {
            Self::Live(live) => live.work().start(output),
            Self::Replayed(_) => Ok(()),
        }
    }

    /// Returns what can be shown before the first interval has passed.
    pub fn first(&mut self) -> Option<Picture> {
        match self {
            Self::Live(live) => live.since_boot(),
            Self::Replayed(_) => None,
        }
    }

    /// Returns the next picture: of the running system what happened since the last one, of a recording the one after that
    /// which was shown last. `None` if no time has passed, and behind the end. The memory of `spare` is used again.
    ///
    /// # Errors
    /// Those of reading processes or the recording.
    pub fn next(&mut self, wanted: Wanted, spare: Vec<TaskUse>) -> Outcome<Option<Shown>> {
        match self {
            Self::Live(live) => live.next(wanted, spare),
            Self::Replayed(replayed) => replayed.next(),
        }
    }

    /// Returns whether the samples are recorded.
    pub fn recorder(&self) -> RecorderState {
        match self {
            Self::Live(live) => live.recorder(),
            Self::Replayed(_) => RecorderState::Off,
        }
    }

    /// Returns the numbers of the pictures that there are.
    pub fn numbers(&self) -> Range<usize> {
        match self {
            Self::Live(live) => live.numbers(),
            Self::Replayed(replayed) => replayed.numbers(),
        }
    }

    /// Returns the picture of a number.
    pub fn at(&mut self, number: usize) -> Option<Shown> {
        match self {
            Self::Live(live) => live.at(number),
            Self::Replayed(replayed) => replayed.at(number).ok().flatten(),
        }
    }

    /// Returns whether the command that is watched has ended.
    ///
    /// # Errors
    /// Its status cannot be read.
    pub fn is_over(&mut self) -> Outcome<bool> {
        match self {
            Self::Live(live) => live.work().ended().map(|status| status.is_some()),
            Self::Replayed(_) => Ok(false),
        }
    }

    /// Ends what was begun, and returns the status of the command as that of this program.
    pub fn end(self, reported: Outcome) -> Outcome {
        match self {
            Self::Live(live) => live.end(reported),
            Self::Replayed(_) => reported,
        }
    }
}
