//! Two threads that pass one cache line back and forth: how long a line takes from one CPU to another.
//!
//! The definition is that of core-to-core-latency's compare-and-swap test. One thread serves and the other
//! answers; each tries `compare_exchange` on the same word, without a pause, until the other side's value is there
//! and its own is put in its place. So each try takes the line over, as that of a contended lock does. Two
//! takings-over make a round trip, and a figure is the time of one way: half a round trip.
//!
//! It is no [`crate::Load`], because it takes two: threads, their CPUs and their start are the caller's. Neither side
//! can hang: a side that waits looks at the clock now and then, and leaves when the other has left.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Round trips in a burst: 5 to 50 microseconds between most CPUs, so that the clock, which is read once for each
/// burst, costs less than a hundredth, and a burst seldom meets a preemption.
pub const ROUND_TRIPS: u32 = 100;

/// Bursts of a visit at least, however long they take.
const LEAST_BURSTS: usize = 3;

/// Lines in a page.
pub const LINES: usize = 32;

/// Tries between two looks at the clock: more than a partner that runs ever takes.
const TRIES: u32 = 1024;

/// The server has it: the answer is due.
const SERVED: u32 = 0;
/// It was answered: the server is due.
const ANSWERED: u32 = 1;
/// A side has left.
const OVER: u32 = 2;

/// A word that shares its line with nothing, nor the line beside it, which some CPUs fetch along.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Line(AtomicU32);

/// Lines that lie on a page of their own, which is where its first writer's memory is.
///
/// How long a line takes also depends on its address, which says what part of a cache keeps track of it: many lines
/// make a figure one of the CPUs and not of the address.
#[repr(align(4096))]
#[derive(Debug, Default)]
pub struct Page([Line; LINES]);

/// How long two CPUs are kept at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Time for bursts.
    pub length: Duration,
    /// Time after which a side gives up, whatever was reached.
    pub patience: Duration,
}

/// What a visit gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rally {
    /// Time of one way in nanoseconds, by burst, in the order taken; empty where the partner never came.
    pub bursts: Vec<f64>,
    /// Takings-over in all bursts, two for each round trip.
    pub transfers: u64,
    /// Time of all bursts.
    pub time: Duration,
}

impl Page {
    /// Line `index`, counted on from the first one again after the last.
    pub fn line(&self, index: usize) -> &Line {
        &self.0[index % LINES]
    }
}

impl Line {
    /// Makes the line ready for a visit. Nobody may be at it.
    pub fn open(&self) {
        self.0.store(SERVED, Relaxed);
    }

    /// Ends a visit: both sides leave.
    pub fn close(&self) {
        self.0.store(OVER, Relaxed);
    }

    /// Serves for one visit; [`Line::answer`] is to run on the other CPU. The first burst warms up and is thrown
    /// away. A burst that ends by impatience counts with the round trips that it has.
    pub fn serve(&self, visit: Visit) -> Rally {
        let end = Instant::now() + visit.patience;
        let mut rally = Rally::default();
        if self.burst(1, end).0 == 1 {
            self.burst(ROUND_TRIPS, end.min(Instant::now() + visit.length / 4));
            let enough = Instant::now() + visit.length;
            loop {
                let (done, time) = self.burst(ROUND_TRIPS, end);
                if done > 0 {
                    let transfers = 2 * u64::from(done);
                    rally.bursts.push(time.as_nanos() as f64 / transfers as f64);
                    rally.transfers += transfers;
                    rally.time += time;
                }
                let now = Instant::now();
                if done < ROUND_TRIPS || now >= end || now >= enough && rally.bursts.len() >= LEAST_BURSTS {
                    break;
                }
            }
        }
        self.close();
        rally
    }

    /// Answers until the server closes the line, or patience ends.
    pub fn answer(&self, visit: Visit) {
        // Later than the server, so that it never waits for one who has just left.
        let end = Instant::now() + 2 * visit.patience;
        while self.turn(SERVED, ANSWERED, end) {}
        self.close();
    }

    /// Round trips done, at most `most`, and the time from the first to the last.
    fn burst(&self, most: u32, end: Instant) -> (u32, Duration) {
        let began = Instant::now();
        let done = (0..most).take_while(|_| self.turn(ANSWERED, SERVED, end)).count();
        (done as u32, began.elapsed())
    }

    /// Takes the line over once the other side's value is there; not where that side left or does not come.
    #[inline]
    fn turn(&self, theirs: u32, ours: u32, end: Instant) -> bool {
        loop {
            for _ in 0..TRIES {
                match self.0.compare_exchange(theirs, ours, Relaxed, Relaxed) {
                    Ok(_) => return true,
                    Err(OVER) => return false,
                    Err(_) => {}
                }
            }
            if Instant::now() >= end {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VISIT: Visit = Visit { length: Duration::from_millis(1), patience: Duration::from_secs(5) };

    #[test]
    fn a_line_goes_back_and_forth() {
        let page = Page::default();
        let line = page.line(LINES + 3);
        line.open();
        let rally = std::thread::scope(|scope| {
            scope.spawn(|| line.answer(VISIT));
            line.serve(VISIT)
        });
        assert!(rally.bursts.len() >= LEAST_BURSTS, "{rally:?}");
        assert_eq!(rally.transfers % 2, 0);
        let mean = rally.time.as_nanos() as f64 / rally.transfers as f64;
        let least = rally.bursts.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.0 && least <= mean, "{least} {mean}");
    }

    #[test]
    fn a_side_that_nobody_meets_leaves() {
        let patience = Duration::from_millis(5);
        let visit = Visit { patience, ..VISIT };
        let line = Line::default();
        line.open();
        let began = Instant::now();
        assert_eq!(line.serve(visit), Rally::default());
        assert!(began.elapsed() >= patience);
        assert_eq!(line.serve(VISIT), Rally::default(), "a closed line is left at once");
        line.open();
        line.answer(visit);
        assert_eq!(line.serve(VISIT), Rally::default(), "who leaves closes the line");
    }

    #[test]
    fn lines_are_apart_and_alone_on_their_page() {
        assert_eq!(size_of::<Line>(), 128);
        assert_eq!((size_of::<Page>(), align_of::<Page>()), (4096, 4096));
    }
}
