//! Two threads that pass one cache line back and forth, which measures core-to-core latency.
//!
//! The definition is that of the compare-and-swap test of core-to-core-latency. One thread serves and the
//! other one answers. Each tries `compare_exchange` on the same word, without a pause, until it replaces the
//! other side's value by its own. So each try transfers the line, as with a contended lock. Two transfers
//! make a round trip. The latency is the time of one way: half a round trip.
//!
//! This is not a [`crate::Load`], because it takes two threads, which the caller starts and pins. Neither
//! side can hang: a waiting side checks the clock now and then, and leaves when the other side has left.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Round trips per burst: 5 to 50 microseconds between most CPUs. The clock is read once per burst, which
/// then takes less than a hundredth of the time, and few bursts are preempted.
pub const ROUND_TRIPS: u32 = 100;

/// Minimum number of bursts in a visit, however long they take.
const MIN_BURSTS: usize = 3;

/// Lines per page.
pub const LINES: usize = 32;

/// Tries between two checks of the clock: more than a running partner ever needs.
const TRIES: u32 = 1024;

/// The server has written the word; the answer is due.
const SERVED: u32 = 0;
/// The answer has been written; the server is due.
const ANSWERED: u32 = 1;
/// A side has left.
const OVER: u32 = 2;

/// A word that shares neither its line nor the adjacent one, which some CPUs prefetch with it.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct SharedLine(AtomicU32);

/// Lines on a page of their own. The memory of the page is on the node of its first writer.
///
/// Latency also depends on the address of the line, which selects the part of a cache that tracks the line.
/// Many lines make a figure depend on the CPUs and not on the address.
#[repr(align(4096))]
#[derive(Debug, Default)]
pub struct LinePage([SharedLine; LINES]);

/// Duration of the visit of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPongTime {
    /// Time for bursts.
    pub length: Duration,
    /// Time after which a side gives up in any case.
    pub timeout: Duration,
}

/// Result of a visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PingPong {
    /// Time of one way in nanoseconds, by burst, in order; empty if the partner never came.
    pub bursts: Vec<f64>,
    /// Line transfers in all bursts, two for each round trip.
    pub transfers: u64,
    /// Time of all bursts.
    pub time: Duration,
}

impl LinePage {
    /// Returns line `index`, modulo the number of lines.
    pub fn line(&self, index: usize) -> &SharedLine {
        &self.0[index % LINES]
    }
}

impl SharedLine {
    /// Prepares the line for a visit. It must not be in use.
    pub fn open(&self) {
        self.0.store(SERVED, Relaxed);
    }

    /// Ends a visit: both sides leave.
    pub fn close(&self) {
        self.0.store(OVER, Relaxed);
    }

    /// Serves for one visit, while [`SharedLine::answer`] runs on the other CPU. The first burst is a warm-up and
    /// is discarded. A burst that is cut short when the timeout ends counts with the round trips that it
    /// has.
    pub fn serve(&self, visit: PingPongTime) -> PingPong {
        let end = Instant::now() + visit.timeout;
        let mut ping_pong = PingPong::default();
        if self.burst(1, end).0 == 1 {
            self.burst(ROUND_TRIPS, end.min(Instant::now() + visit.length / 4));
            let enough = Instant::now() + visit.length;
            loop {
                let (done, time) = self.burst(ROUND_TRIPS, end);
                if done > 0 {
                    let transfers = 2 * u64::from(done);
                    ping_pong.bursts.push(time.as_nanos() as f64 / transfers as f64);
                    ping_pong.transfers += transfers;
                    ping_pong.time += time;
                }
                let now = Instant::now();
                if done < ROUND_TRIPS || now >= end || now >= enough && ping_pong.bursts.len() >= MIN_BURSTS {
                    break;
                }
            }
        }
        self.close();
        ping_pong
    }

    /// Answers until the server closes the line, or until twice the timeout.
    pub fn answer(&self, visit: PingPongTime) {
        // Waits longer than the server, so that the server never waits for an answerer that has just left.
        let end = Instant::now() + 2 * visit.timeout;
        while self.exchange(SERVED, ANSWERED, end) {}
        self.close();
    }

    /// Does at most `most` round trips. Returns their number, and the time from the first to the last.
    fn burst(&self, most: u32, end: Instant) -> (u32, Duration) {
        let began = Instant::now();
        let done = (0..most).take_while(|_| self.exchange(ANSWERED, SERVED, end)).count();
        (done as u32, began.elapsed())
    }

    /// Replaces the other side's value by ours when it is there. Returns false if the other side left or does
    /// not come.
    #[inline]
    fn exchange(&self, theirs: u32, ours: u32, end: Instant) -> bool {
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

    const VISIT: PingPongTime =
        PingPongTime { length: Duration::from_millis(1), timeout: Duration::from_mins(1) };

    #[test]
    fn a_line_goes_back_and_forth() {
        let page = LinePage::default();
        let line = page.line(LINES + 3);
        line.open();
        let ping_pong = std::thread::scope(|scope| {
            scope.spawn(|| line.answer(VISIT));
            line.serve(VISIT)
        });
        assert!(ping_pong.bursts.len() >= MIN_BURSTS, "{ping_pong:?}");
        assert_eq!(ping_pong.transfers % 2, 0);
        let mean = ping_pong.time.as_nanos() as f64 / ping_pong.transfers as f64;
        let least = ping_pong.bursts.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.0 && least <= mean, "{least} {mean}");
    }

    #[test]
    fn a_side_without_a_partner_gives_up() {
        let timeout = Duration::from_millis(5);
        let visit = PingPongTime { timeout, ..VISIT };
        let line = SharedLine::default();
        line.open();
        let began = Instant::now();
        assert_eq!(line.serve(visit), PingPong::default());
        assert!(began.elapsed() >= timeout);
        assert_eq!(line.serve(VISIT), PingPong::default(), "a closed line is left at once");
        line.open();
        line.answer(visit);
        assert_eq!(line.serve(VISIT), PingPong::default(), "a side that leaves closes the line");
    }

    #[test]
    fn lines_are_apart_and_alone_on_their_page() {
        assert_eq!(size_of::<SharedLine>(), 128);
        assert_eq!((size_of::<LinePage>(), align_of::<LinePage>()), (4096, 4096));
    }
}
