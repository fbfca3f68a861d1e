//! Sends requests at their times over many connections, in one thread.

use crate::{
    Error, Result,
    arrivals::{Arrivals, Schedule},
    result::LoadResult,
    template::Template,
    timer::Timer,
};
use manycore_linux::clock::thread_cpu;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    iter::Peekable,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime,
    sync::Notify,
    task::{self, LocalSet},
    time,
};

/// How long replies are waited for after the last request.
const GRACE: Duration = Duration::from_secs(1);
/// A connection is made within this time.
const CONNECT: Duration = Duration::from_secs(5);
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
    /// Connections, at least 1. Each has one request at a time.
    pub connections: usize,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// How long requests are sent before those that count.
    pub warm_up: Duration,
    /// How long requests are sent that count.
    pub duration: Duration,
    /// Seed of the arrivals and of the random numbers in requests.
    pub seed: u64,
    /// Whether the thread looks for replies shortly before each request, so that its wake-up does not delay it: for a thread
    /// with a CPU of its own.
    pub polls: bool,
}

/// Sends requests for the warm-up and the duration, and waits up to 1 s for the last replies.
///
/// # Errors
/// [`Error::Request`] for an impossible rate, or no connections; [`Error::Connect`]; [`Error::System`]. A server that fails
/// later is no error: its failures are counted.
pub fn run(request: &LoadRequest) -> Result<LoadResult> {
    request.arrivals.check()?;
    if request.connections == 0 {
        return Err(Error::Request("a load needs a connection".to_owned()));
    }
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::System { what: "cannot create the runtime", source })?;
    LocalSet::new().block_on(&runtime, generate(request))
}

async fn generate(request: &LoadRequest) -> Result<LoadResult> {
    let mut streams = Vec::with_capacity(request.connections);
    for _ in 0..request.connections {
        let stream = connect(request.address).await;
        streams.push(stream.map_err(|source| Error::Connect { address: request.address, source })?);
    }
    let cpu_before = thread_cpu();
    let shared = Rc::new(Shared::new(request));
    let connections: Vec<_> = (0..)
        .zip(streams)
        .map(|(index, stream)| task::spawn_local(Connection::new(Rc::clone(&shared), index, stream).run()))
        .collect();
    shared
        .send()
        .await
        .map_err(|source| Error::System { what: "cannot wait for the next request", source })?;
    let all = async {
        for connection in connections {
            // It has panicked, or it was aborted: its request is unanswered.
            let _ended = connection.await;
        }
    };
    // What is not answered by then is counted below.
    let _in_time = time::timeout(GRACE, all).await;
    Ok(shared.end(thread_cpu().saturating_sub(cpu_before)))
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = time::timeout(CONNECT, TcpStream::connect(address)).await.map_err(io::Error::from)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A request that is to be sent. Times are nanoseconds since the begin.
#[derive(Clone, Copy, Debug)]
struct Job {
    intended: u64,
    /// The time since then that passed although a connection was free.
    late: u64,
}

/// What the connections share.
struct Shared {
    request: LoadRequest,
    began: Instant,
    /// Requests that no connection has yet.
    upcoming: RefCell<Peekable<Schedule>>,
    /// Those that are handed to free connections.
    jobs: RefCell<VecDeque<u64>>,
    /// Connections that wait for a request, without those that get one of `jobs`.
    free: Cell<usize>,
    /// Requests that were intended before this moment were late although a connection was free.
    late_until: Cell<u64>,
    /// Requests that were sent, and replies and failures.
    events: Cell<u64>,
    /// CPU time in which this thread looked for replies and there were none.
    idle_ns: Cell<u64>,
    has_free: Notify,
    arrived: Notify,
    has_ended: Cell<bool>,
    /// The request of each connection that waits for its reply.
    waiting: RefCell<Vec<Option<Job>>>,
    result: RefCell<LoadResult>,
}

impl Shared {
    fn new(request: &LoadRequest) -> Self {
        let end = (request.warm_up + request.duration).as_nanos() as u64;
        let upcoming = Schedule::new(request.arrivals, request.seed, end);
        Self {
            request: request.clone(),
            began: Instant::now(),
            upcoming: RefCell::new(upcoming.peekable()),
            jobs: RefCell::default(),
            free: Cell::new(0),
            late_until: Cell::new(0),
            events: Cell::new(0),
            idle_ns: Cell::new(0),
            has_free: Notify::new(),
            arrived: Notify::new(),
            has_ended: Cell::new(false),
            waiting: RefCell::new(vec![None; request.connections]),
            result: RefCell::new(LoadResult::new()),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Whether a request that is intended at that time counts.
    fn counts(&self, intended: u64) -> bool {
        intended >= self.request.warm_up.as_nanos() as u64
    }

    /// Hands requests to free connections until the end.
    async fn send(&self) -> io::Result<()> {
        let duration = self.request.warm_up + self.request.duration;
        if self.request.arrivals == Arrivals::Closed {
            Timer::new()?.wait_until(self.began + duration).await?;
        } else {
            let left = duration.saturating_sub(self.began.elapsed());
            // While no connection is free, each that becomes free takes its next request itself.
            time::timeout(left, self.hand_in_time()).await.unwrap_or(Ok(()))?;
            while self.free.get() > 0 && self.hand() {}
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
            if self.free.get() == 0 {
                self.has_free.notified().await;
            } else if left == 0 {
                self.hand();
                handed += 1;
                if handed % BATCH == 0 {
                    task::yield_now().await;
                }
            } else if left <= wake_up {
                self.look_for_replies().await;
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
        let (begin, events) = (self.now(), self.events.get());
        task::yield_now().await;
        if self.events.get() == events {
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
        if self.free.get() > 0 {
            self.late_until.set(now);
        }
        if self.counts(intended) {
            self.result.borrow_mut().intended += 1;
        }
        Some(intended)
    }

    /// Hands the next request to a free connection. Returns whether its time has come.
    fn hand(&self) -> bool {
        let Some(intended) = self.take_due() else { return false };
        self.jobs.borrow_mut().push_back(intended);
        self.free.set(self.free.get() - 1);
        self.arrived.notify_one();
        true
    }

    /// Waits for the next request; `None` at the end.
    async fn next(&self) -> Option<Job> {
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
            self.free.set(self.free.get() + 1);
            self.has_free.notify_one();
            self.arrived.notified().await;
        }
    }

    /// Counts what is left, and returns the result.
    fn end(&self, cpu: Duration) -> LoadResult {
        let mut result = self.result.borrow().clone();
        let now = self.now();
        let unsent: Vec<u64> = self.upcoming.borrow_mut().by_ref().filter(|&at| self.counts(at)).collect();
        result.intended += unsent.len() as u64;
        let (handed, waiting) = (self.jobs.borrow(), self.waiting.borrow());
        let waiting = waiting.iter().flatten().map(|job| job.intended);
        let taken = handed.iter().copied().chain(waiting).filter(|&at| self.counts(at));
        for intended in taken.chain(unsent) {
            result.unanswered += 1;
            result.latency.saturating_record(now - intended);
        }
        let cpu = cpu.saturating_sub(Duration::from_nanos(self.idle_ns.get()));
        LoadResult { elapsed: self.request.duration, cpu, ..result }
    }
}

/// One connection.
struct Connection {
    shared: Rc<Shared>,
    index: usize,
    stream: Option<TcpStream>,
    random: Xoshiro256PlusPlus,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    fn new(shared: Rc<Shared>, index: usize, stream: TcpStream) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(shared.request.seed.wrapping_add(1 + index as u64));
        Self { shared, index, stream: Some(stream), random, output: Vec::new(), input: Vec::new() }
    }

    async fn run(mut self) {
        let shared = Rc::clone(&self.shared);
        while let Some(job) = shared.next().await {
            shared.waiting.borrow_mut()[self.index] = Some(job);
            shared.events.set(shared.events.get() + 1);
            let replied = self.exchange().await;
            shared.waiting.borrow_mut()[self.index] = None;
            shared.events.set(shared.events.get() + 1);
            if replied.is_err() {
                self.stream = None;
                self.input.clear();
            }
            if !shared.counts(job.intended) {
                continue;
            }
            let latency = shared.now() - job.intended;
            let mut result = shared.result.borrow_mut();
            match replied {
                Ok(None) => {
                    result.replied(latency);
                    result.own.saturating_record(job.late);
                }
                Ok(Some(reply)) => result.failed(|| reply),
                Err(error) => result.failed(|| error.to_string()),
            }
        }
    }

    /// Sends a request, and reads its reply. Returns the begin of the reply if it is an error.
    async fn exchange(&mut self) -> io::Result<Option<String>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.shared.request.address).await?,
        };
        let template = &self.shared.request.template;
        template.write(|below| self.random.random_range(0..below), &mut self.output);
        stream.write_all(&self.output).await?;
        let reply = loop {
            if stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            let malformed = |_| io::Error::new(io::ErrorKind::InvalidData, "the server sent no valid reply");
            if let Some(reply) = template.protocol.reply(&self.input).map_err(malformed)? {
                break reply;
            }
        };
        let begin =
            || String::from_utf8_lossy(&self.input[..reply.length]).lines().next().unwrap_or("").to_owned();
        let error = reply.is_error.then(begin);
        self.input.drain(..reply.length);
        if !reply.closes {
            self.stream = Some(stream);
        }
        Ok(error)
    }
}
