//! What a load measured.

use crate::histogram;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Largest latency that is recorded as it is, in nanoseconds: an hour. Longer ones count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// What a load measured, without its warm-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadResult {
    /// How long requests were sent.
    pub elapsed: Duration,
    /// Requests that were to be sent.
    pub intended: u64,
    /// Requests with a reply that is no error.
    pub answered: u64,
    /// Requests with an error as reply, or whose connection was closed.
    pub failed: u64,
    /// Requests without a reply when the load ended. Their latency counts as the time until then.
    pub unanswered: u64,
    /// Requests whose time had come, and that waited for a connection, when sending ended. Replies to them may be among the
    /// answered ones.
    pub queued: u64,
    /// Replies that are no error and came while requests were sent, also to requests of the warm-up.
    pub replies: u64,
    /// The first error that a server replied, or of a connection.
    pub first_failure: Option<String>,
    /// CPU time of the generating thread, without that of polling ([`crate::LoadRequest::polls`]).
    pub cpu: Duration,
    /// Nanoseconds from the intended start to the end of the reply.
    #[serde(with = "histogram")]
    pub latency: Histogram<u64>,
    /// Nanoseconds by which a request was sent too late although a connection was free: the generator's own part of the
    /// latency.
    #[serde(with = "histogram")]
    pub own: Histogram<u64>,
}

impl LoadResult {
    pub(crate) fn new() -> Self {
        Self {
            elapsed: Duration::ZERO,
            intended: 0,
            answered: 0,
            failed: 0,
            unanswered: 0,
            queued: 0,
            replies: 0,
            first_failure: None,
            cpu: Duration::ZERO,
            latency: Self::empty_histogram(),
            own: Self::empty_histogram(),
        }
    }

    pub(crate) fn empty_histogram() -> Histogram<u64> {
        // Three digits up to an hour: the arguments are valid.
        Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!())
    }

    /// Returns a quantile of the latency in nanoseconds; 0 without requests.
    pub fn latency_ns(&self, q: f64) -> u64 {
        self.latency.value_at_quantile(q)
    }

    /// Returns the replies per second while requests were sent.
    pub fn rate(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the share of the mean latency that is the generator's own: requests that it sent too late.
    pub fn own_share(&self) -> f64 {
        let (own, all) =
            (self.own.mean() * self.own.len() as f64, self.latency.mean() * self.latency.len() as f64);
        if all > 0.0 { own / all } else { 0.0 }
    }

    pub(crate) fn replied(&mut self, latency_ns: u64) {
        self.answered += 1;
        self.latency.saturating_record(latency_ns.max(1));
    }

    pub(crate) fn unanswered(&mut self, waited_ns: u64) {
        self.unanswered += 1;
        self.latency.saturating_record(waited_ns);
    }

    pub(crate) fn failed(&mut self, why: impl FnOnce() -> String) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(why);
    }
}
