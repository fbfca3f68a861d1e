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
    /// The part of the time since then that passed before the generator handed it to the connections.
    late: u64,
}

/// What the connections share.
struct Shared {
    request: LoadRequest,
    began: Instant,
    jobs: RefCell<VecDeque<Job>>,
    arrived: Notify,
    has_ended: Cell<bool>,
    /// The request of each connection that waits for its reply.
    waiting: RefCell<Vec<Option<Job>>>,
    result: RefCell<LoadResult>,
}

impl Shared {
    fn new(request: &LoadRequest) -> Self {
        Self {
            request: request.clone(),
            began: Instant::now(),
            jobs: RefCell::default(),
            arrived: Notify::new(),
            has_ended: Cell::new(false),
            waiting: RefCell::new(vec![None; request.connections]),
            result: RefCell::new(LoadResult::new()),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Whether a request counts.
    fn counts(&self, job: Job) -> bool {
        job.intended >= self.request.warm_up.as_nanos() as u64
    }

    /// Hands each request to the connections at its time, until the end.
    async fn send(&self) -> io::Result<()> {
        let end = (self.request.warm_up + self.request.duration).as_nanos() as u64;
        let timer = Timer::new()?;
        if self.request.arrivals == Arrivals::Closed {
            timer.wait_until(self.began + Duration::from_nanos(end)).await?;
        } else {
            let mut handed = 0;
            for intended in Schedule::new(self.request.arrivals, self.request.seed).take_while(|&at| at < end)
            {
                while self.now() < intended {
                    handed = 0;
                    timer.wait_until(self.began + Duration::from_nanos(intended)).await?;
                }
                self.hand(intended);
                handed += 1;
                if handed % BATCH == 0 {
                    task::yield_now().await;
                }
            }
        }
        self.has_ended.set(true);
        self.arrived.notify_waiters();
        Ok(())
    }

    fn hand(&self, intended: u64) {
        let job = Job { intended, late: self.now() - intended };
        if self.counts(job) {
            self.result.borrow_mut().intended += 1;
        }
        self.jobs.borrow_mut().push_back(job);
        self.arrived.notify_one();
    }

    /// Waits for the next request; `None` at the end.
    async fn next(&self) -> Option<Job> {
        let mut was_free = false;
        loop {
            if self.request.arrivals == Arrivals::Closed {
                let job = (!self.has_ended.get()).then(|| Job { intended: self.now(), late: 0 });
                if job.is_some_and(|job| self.counts(job)) {
                    self.result.borrow_mut().intended += 1;
                }
                return job;
            }
            if let Some(job) = self.jobs.borrow_mut().pop_front() {
                // A free connection gets it later than intended only because of this thread.
                let late = if was_free { self.now() - job.intended } else { job.late };
                return Some(Job { late, ..job });
            }
            if self.has_ended.get() {
                return None;
            }
            was_free = true;
            self.arrived.notified().await;
        }
    }

    /// Counts what is left, and returns the result.
    fn end(&self, cpu: Duration) -> LoadResult {
        let mut result = self.result.borrow().clone();
        let now = self.now();
        let waiting = self.waiting.borrow();
        for job in self.jobs.borrow().iter().chain(waiting.iter().flatten()).filter(|job| self.counts(**job))
        {
            result.unanswered += 1;
            result.latency.saturating_record(now - job.intended);
        }
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
            let replied = self.exchange().await;
            shared.waiting.borrow_mut()[self.index] = None;
            if replied.is_err() {
                self.stream = None;
                self.input.clear();
            }
            if !shared.counts(job) {
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
