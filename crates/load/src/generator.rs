//! Sends requests at their times over many connections, in one thread.

use crate::{
    arrivals::{Arrivals, Schedule},
    result::LoadResult,
    template::Template,
    timer::Timer,
};
use serde::{Deserialize, Serialize};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    iter::Peekable,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task, time};

/// Requests that are handed to connections before these run.
const BATCH: usize = 32;
/// A thread that polls ends its sleep before a request by its typical delay of wake-ups, at most this, and looks for replies
/// until the request's time.
const LONGEST_WAKE_UP_NS: u64 = 50_000;
/// By how much one wake-up changes the typical delay, which is thus a median.
const WAKE_UP_STEP_NS: u64 = 250;

/// What to send, where, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// The server.
    pub address: SocketAddr,
    /// The request.
    pub template: Template,
    /// Connections, at least 1.
    pub connections: usize,
    /// Requests that a connection has sent and whose replies it waits for, at most; at least 1. With 1, it waits for the reply
    /// before it sends the next request.
    pub pipeline: usize,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// How long requests are sent before those that count.
    pub warm_up: Duration,
    /// How long requests are sent that count.
    pub duration: Duration,
    /// Seed of the arrivals and of the random numbers in requests.
    pub seed: u64,
    /// Whether the thread looks for replies all the time while there are requests without one, and shortly before each
    /// request. So its wake-up delays neither, which takes some tens of microseconds in a virtual machine. For a thread with
    /// a CPU of its own, at a rate.
    pub polls: bool,
}

impl LoadRequest {
    /// Returns the end of sending, in nanoseconds since the begin.
    fn end_ns(&self) -> u64 {
        (self.warm_up + self.duration).as_nanos() as u64
    }
}

/// A request that is to be sent. Times are nanoseconds since the begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    intended: u64,
    /// The time since then that passed although a connection was free.
    late: u64,
}

/// What the connections share.
pub(crate) struct Shared {
    pub(crate) request: LoadRequest,
    began: Instant,
    /// Requests that no connection has yet.
    upcoming: RefCell<Peekable<Schedule>>,
    /// Those that are handed to free connections.
    jobs: RefCell<VecDeque<u64>>,
    /// Connections that wait for a request.
    idle: Cell<usize>,
    /// Requests that were intended before this moment were late although a connection was free.
    late_until: Cell<u64>,
    /// Requests that connections took.
    taken: Cell<u64>,
    /// Those of them that have a reply or have failed.
    answered: Cell<u64>,
    /// CPU time in which this thread looked for replies and there were none.
    idle_ns: Cell<u64>,
    has_free: Notify,
    arrived: Notify,
    has_ended: Cell<bool>,
    /// The requests of each connection that have no reply yet.
    pub(crate) unanswered: RefCell<Vec<VecDeque<Job>>>,
    result: RefCell<LoadResult>,
}

impl Shared {
    pub(crate) fn new(request: &LoadRequest) -> Self {
        let upcoming = Schedule::new(request.arrivals, request.seed, request.end_ns());
        Self {
            request: request.clone(),
            began: Instant::now(),
            upcoming: RefCell::new(upcoming.peekable()),
            jobs: RefCell::default(),
            idle: Cell::new(0),
            late_until: Cell::new(0),
            taken: Cell::new(0),
            answered: Cell::new(0),
            idle_ns: Cell::new(0),
            has_free: Notify::new(),
            arrived: Notify::new(),
            has_ended: Cell::new(false),
            unanswered: RefCell::new(vec![VecDeque::new(); request.connections]),
            result: RefCell::new(LoadResult::new()),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Returns the connections that wait for a request, without those that get one of the handed ones.
    fn free(&self) -> usize {
        self.idle.get().saturating_sub(self.jobs.borrow().len())
    }

    /// Whether a request that is intended at that time counts.
    fn counts(&self, intended: u64) -> bool {
        intended >= self.request.warm_up.as_nanos() as u64
    }

    /// Hands requests to free connections until the end.
    pub(crate) async fn send(&self) -> io::Result<()> {
        let duration = self.request.warm_up + self.request.duration;
        if self.request.arrivals == Arrivals::Closed {
            Timer::new()?.wait_until(self.began + duration).await?;
        } else {
            let left = duration.saturating_sub(self.began.elapsed());
            // While no connection is free, each that becomes free takes its next request itself.
            time::timeout(left, self.hand_in_time()).await.unwrap_or(Ok(()))?;
            while self.free() > 0 && self.hand() {}
        }
        self.has_ended.set(true);
        self.arrived.notify_waiters();
        Ok(())
    }

    /// Hands each request to a free connection at its time, until there are no more.
    async fn hand_in_time(&self) -> io::Result<()> {
        let timer = Timer::new()?;
        let longest = if self.request.polls { LONGEST_WAKE_UP_NS } else { 0 };
        let (mut handed, mut wake_up) = (0, 0);
        while let Some(intended) = self.peek() {
            let left = intended.saturating_sub(self.now());
            let polls = self.request.polls && self.answered.get() < self.taken.get();
            let is_free = self.free() > 0;
            if left == 0 && is_free {
                self.hand();
                handed += 1;
                if handed % BATCH == 0 {
                    task::yield_now().await;
                }
            } else if polls || left <= wake_up && is_free {
                self.look_for_replies().await;
            } else if !is_free {
                self.has_free.notified().await;
            } else {
                let moment = intended - wake_up;
                timer.wait_until(self.began + Duration::from_nanos(moment)).await?;
                let is_longer = self.now().saturating_sub(moment) > wake_up;
                wake_up = if is_longer {
                    wake_up + WAKE_UP_STEP_NS
                } else {
                    wake_up.saturating_sub(WAKE_UP_STEP_NS)
                };
                wake_up = wake_up.min(longest);
            }
        }
        Ok(())
    }

    async fn look_for_replies(&self) {
        let events = || (self.taken.get(), self.answered.get());
        let (begin, before) = (self.now(), events());
        task::yield_now().await;
        if events() == before {
            // More than this is no CPU time: another thread has run.
            let idle = (self.now() - begin).min(LONGEST_WAKE_UP_NS);
            self.idle_ns.set(self.idle_ns.get() + idle);
        }
    }

    fn peek(&self) -> Option<u64> {
        self.upcoming.borrow_mut().peek().copied()
    }

    /// Takes the next request if its time has come.
    fn take_due(&self) -> Option<u64> {
        let now = self.now();
        let intended = self.upcoming.borrow_mut().next_if(|&at| at <= now)?;
        if self.free() > 0 {
            self.late_until.set(now);
        }
        if self.counts(intended) {
            let mut result = self.result.borrow_mut();
            result.intended += 1;
            result.queued += u64::from(self.has_ended.get());
        }
        Some(intended)
    }

    /// Hands the next request to a free connection. Returns whether its time has come.
    fn hand(&self) -> bool {
        let Some(intended) = self.take_due() else { return false };
        self.jobs.borrow_mut().push_back(intended);
        self.arrived.notify_one();
        true
    }

    /// Waits for the next request; `None` at the end. No request is lost if the wait is dropped.
    pub(crate) async fn next(&self) -> Option<Job> {
        if self.request.arrivals == Arrivals::Closed {
            let intended = self.now();
            if !self.has_ended.get() && self.counts(intended) {
                self.result.borrow_mut().intended += 1;
            }
            return (!self.has_ended.get()).then_some(Job { intended, late: 0 });
        }
        loop {
            // A free connection gets it later than intended only because of this thread.
            let handed = self.jobs.borrow_mut().pop_front();
            if let Some(intended) = handed {
                return Some(Job { intended, late: self.now() - intended });
            }
            // It may be late because of this thread, or because no connection was free.
            if let Some(intended) = self.take_due() {
                return Some(Job { intended, late: self.late_until.get().saturating_sub(intended) });
            }
            if self.has_ended.get() || self.peek().is_none() {
                return None;
            }
            let _idle = Idle::new(&self.idle);
            self.has_free.notify_one();
            self.arrived.notified().await;
        }
    }

    /// Notes that a connection took a request.
    pub(crate) fn took(&self) {
        self.taken.set(self.taken.get() + 1);
    }

    /// Counts a request with a reply, or with the reason why it failed.
    pub(crate) fn ended(&self, job: Job, failure: Option<String>) {
        self.answered.set(self.answered.get() + 1);
        let now = self.now();
        let mut result = self.result.borrow_mut();
        // Also replies to requests of the warm-up: in a queue, those of the slice are late.
        if failure.is_none() && self.counts(now) && now < self.request.end_ns() {
            result.replies += 1;
        }
        if !self.counts(job.intended) {
            return;
        }
        match failure {
            None => {
                result.replied(now - job.intended);
                result.own.saturating_record(job.late);
            }
            Some(why) => result.failed(|| why),
        }
    }

    /// Counts what is left, and returns the result.
    pub(crate) fn end(&self, cpu: Duration) -> LoadResult {
        let mut result = self.result.borrow().clone();
        let now = self.now();
        let (handed, waiting) = (self.jobs.borrow(), self.unanswered.borrow());
        let waiting = waiting.iter().flatten().map(|job| job.intended);
        for intended in handed.iter().copied().chain(waiting).filter(|&at| self.counts(at)) {
            result.unanswered(now - intended);
        }
        // There may be millions: they are not collected.
        for intended in self.upcoming.borrow_mut().by_ref().filter(|&at| self.counts(at)) {
            result.intended += 1;
            result.queued += 1;
            result.unanswered(now - intended);
        }
        let cpu = cpu.saturating_sub(Duration::from_nanos(self.idle_ns.get()));
        LoadResult { elapsed: self.request.duration, cpu, ..result }
    }
}

/// A connection that waits for a request, until this is dropped.
struct Idle<'a>(&'a Cell<usize>);

impl<'a> Idle<'a> {
    fn new(all: &'a Cell<usize>) -> Self {
        all.set(all.get() + 1);
        Self(all)
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
