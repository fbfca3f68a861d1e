//! Load generators of other programs, one for each instance.
//!
//! A slice lasts as long as the client of the observed instance. A client of another instance that ends earlier is started
//! again, so that all instances are loaded during the whole slice; those that still run at its end are killed. On another host
//! they end with their standard input, and so with this process.

use crate::{
    Error, Result,
    client_rate::ClientRate,
    hosts::{LoadHosts, cpus_of, place_of},
    load::{CLIENT_LIMIT, Edge, LoadOutcome},
    template::{CommandTemplate, InstanceValues},
};
use manycore_experiment::{
    interrupt,
    metric::{self, LoadModel, MetricReader, RunOutput, load_model},
    record::{Metric, RequestTimes},
    tail_bound::LatencyFigure,
};
use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use manycore_remote::{last_line, supervised};
use manycore_topology::CpuSet;
use std::{
    io::PipeWriter,
    net::SocketAddr,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime},
};

/// A client may take so long.
const LONGEST: Duration = Duration::from_mins(30);
/// How long a wait for clients takes at most before an interruption is noticed.
const WAIT: Duration = Duration::from_millis(200);
/// How long clients on other hosts may take to end after a slice.
const END: Duration = Duration::from_secs(5);

/// A client that is started for each instance.
#[derive(Clone, Debug)]
pub struct ClientLoad {
    command: CommandTemplate,
    reader: MetricReader,
    model: Option<LoadModel>,
    rate: Option<ClientRate>,
    hosts: LoadHosts,
}

/// The clients of a slice. The first one is that of the observed instance.
struct RunningClients<'a> {
    load: &'a ClientLoad,
    servers: &'a [SocketAddr],
    cpus: &'a CpuSet,
    /// What ends a client on another host when it is closed: dropped first.
    inputs: Vec<Option<PipeWriter>>,
    jobs: Vec<Job>,
    /// The first failure that the client of each other instance reported in its output.
    failures: Vec<Option<String>>,
}

impl ClientLoad {
    /// Takes a command with `{port}`, and the reader of its output: by the name of the program if there is none.
    ///
    /// # Errors
    /// [`Error::Template`] for an invalid command, or a program without a reader.
    pub fn new(words: Vec<String>, reader: Option<MetricReader>) -> Result<Self> {
        let program = words.first().map(|word| word.rsplit('/').next().unwrap_or(word).to_owned());
        let program = program.unwrap_or_default();
        let reader = match reader {
            Some(reader) => reader,
            None => reader_of(&program).ok_or_else(|| {
                Error::Template(format!(
                    "the output of '{program}' is not known: give its reader with --metric, such as --metric wrk"
                ))
            })?,
        };
        let known = load_model(&reader, &words);
        let rate = known.as_ref().and_then(|(name, _)| ClientRate::of(name, &words));
        let model = known.map(|(_, model)| model);
        let command = CommandTemplate::new(words)?;
        if command.has("name") {
            let why = "the command of a load has no {name}: it reaches its instance by {address} and {port}";
            return Err(Error::Template(why.to_owned()));
        }
        Ok(Self { command, reader, model, rate, hosts: LoadHosts::default() })
    }

    /// Runs the clients on these hosts.
    pub fn on(self, hosts: LoadHosts) -> Self {
        Self { hosts, ..self }
    }

    pub(crate) fn hosts(&self) -> &LoadHosts {
        &self.hosts
    }

    /// Returns its program.
    pub fn program(&self) -> &str {
        self.command.program()
    }

    /// Returns when its requests are sent, where that is known.
    pub fn model(&self) -> Option<LoadModel> {
        self.model
    }

    /// Returns the figures of a client that has ended.
    ///
    /// # Errors
    /// Why they cannot be read, as when it counted errors.
    fn figures(&self, job: &Job, since: SystemTime) -> Result<Vec<(Metric, f64)>, String> {
        let (stdout, stderr) = (String::from_utf8_lossy(job.output()), job.stderr_tail());
        let output = RunOutput { stdout: &stdout, stderr: &stderr, since };
        self.reader.read(&output).map_err(|error| error.to_string())
    }

    fn start(&self, index: usize, server: SocketAddr, cpus: &CpuSet) -> Result<(Job, Option<PipeWriter>)> {
        let own = cpus_of(index, cpus, self.hosts.first_is_alone());
        let (port, address) = (server.port(), server.ip());
        let list = own.as_ref().map(ToString::to_string).unwrap_or_default();
        let values = InstanceValues { index, port, address, cpus: list, name: String::new() };
        let words = self.command.words(&values);
        if !self.hosts.is_local() {
            return self.start_remotely(index, words, own.as_ref());
        }
        let start = StartPlacement { cpus: own, ..StartPlacement::default() };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let job = Job::start(&mut command, &start, true);
        let job = job.map_err(|source| Error::ClientStart { index, program: words[0].clone(), source })?;
        Ok((job, None))
    }

    /// Starts a client on its host, bound to `cpus` of that host.
    fn start_remotely(
        &self,
        index: usize,
        words: Vec<String>,
        cpus: Option<&CpuSet>,
    ) -> Result<(Job, Option<PipeWriter>)> {
        let bound = cpus.map(|cpus| ["taskset".to_owned(), "-c".to_owned(), cpus.to_string()]);
        let words: Vec<String> = bound.into_iter().flatten().chain(words).collect();
        let (host, session) = place_of(index, self.hosts.count());
        let (job, input) = self.hosts.connection(host).start(session, &supervised(&words))?;
        Ok((job, Some(input)))
    }
}

/// Returns the reader of a program.
fn reader_of(program: &str) -> Option<MetricReader> {
    let name = if program == "memtier_benchmark" { "memtier" } else { program };
    let known = ["wrk", "wrk2", "oha", "hey", "redis-benchmark", "memtier"];
    known.contains(&name).then(|| name.parse().ok()).flatten()
}

/// Runs a client for each instance, until that of the first one ends.
pub(crate) fn run(
    load: &ClientLoad,
    servers: &[SocketAddr],
    figure: LatencyFigure,
    cpus: &CpuSet,
    edge: &mut dyn FnMut(Edge),
) -> Result<Vec<LoadOutcome>> {
    let since = SystemTime::now();
    edge(Edge::Begin);
    let (mut clients, began) = RunningClients::start(load, servers, cpus)?;
    clients.wait(began, since)?;
    let elapsed = began.elapsed();
    edge(Edge::End);
    clients.end()?;
    let own = cpus_of(0, cpus, load.hosts.first_is_alone());
    let width = own.map_or_else(process_cpus, |cpus| cpus.len());
    let observed = outcome(load, &clients.jobs[0], since, (elapsed, width), figure)?;
    let others = clients.failures.into_iter().skip(1).map(|failure| LoadOutcome {
        failed: u64::from(failure.is_some()),
        first_failure: failure,
        ..LoadOutcome::default()
    });
    Ok(std::iter::once(observed).chain(others).collect())
}

impl<'a> RunningClients<'a> {
    /// Starts a client for each instance, that of the observed one last. Also returns when that was.
    fn start(load: &'a ClientLoad, servers: &'a [SocketAddr], cpus: &'a CpuSet) -> Result<(Self, Instant)> {
        let failures = vec![None; servers.len()];
        let mut clients = Self { load, servers, cpus, inputs: Vec::new(), jobs: Vec::new(), failures };
        let mut began = Instant::now();
        for (index, &server) in servers.iter().enumerate().rev() {
            began = Instant::now();
            let (job, input) = load.start(index, server, cpus)?;
            clients.jobs.push(job);
            clients.inputs.push(input);
        }
        clients.jobs.reverse();
        clients.inputs.reverse();
        Ok((clients, began))
    }

    /// Waits until the client of the observed instance ends. Others that end are started again.
    fn wait(&mut self, began: Instant, since: SystemTime) -> Result {
        while self.jobs[0].ended().is_none() {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if began.elapsed() > LONGEST {
                return Err(Error::ClientTooLong { seconds: LONGEST.as_secs_f64() });
            }
            wait(&mut self.jobs)?;
            for index in 1..self.jobs.len() {
                if self.jobs[index].ended().is_some() {
                    self.check(index)?;
                    let failure = self.load.figures(&self.jobs[index], since).err();
                    self.failures[index] = self.failures[index].take().or(failure);
                    let (job, input) = self.load.start(index, self.servers[index], self.cpus)?;
                    self.jobs[index] = job;
                    self.inputs[index] = input;
                }
            }
        }
        self.check(0)
    }

    /// Checks that a client that has ended has succeeded.
    fn check(&self, index: usize) -> Result {
        let (job, program) = (&self.jobs[index], self.load.program());
        let Some(usage) = job.ended().filter(|usage| !usage.status.success()) else { return Ok(()) };
        let mut program = program.to_owned();
        if !self.load.hosts.is_local() {
            let connection = self.load.hosts.connection(place_of(index, self.load.hosts.count()).0);
            if let Some(error) = connection.failure(job, &program) {
                return Err(error.into());
            }
            program = format!("{program} on {}", connection.host());
        }
        Err(Error::Client { index, program, why: format!("{}: {}", usage.status, last_line(job)) })
    }

    /// Ends the clients on other hosts, and waits for that. Those on this machine are killed when they are dropped.
    fn end(&mut self) -> Result {
        let is_remote = self.inputs.iter().any(Option::is_some);
        self.inputs.clear();
        let end = Instant::now() + END;
        while is_remote && Instant::now() < end && !wait(&mut self.jobs)? {}
        Ok(())
    }
}

/// Waits a while until a client exits or prints something. Returns whether all have exited.
fn wait(jobs: &mut [Job]) -> Result<bool> {
    job::wait(jobs, WAIT, &mut |_| {})
        .map_err(|source| Error::System { what: "cannot wait for clients", source })
}

/// Returns the number of CPUs of a client that is not bound.
fn process_cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `elapsed` is how long the client ran, with the number of CPUs that it could use.
fn outcome(
    load: &ClientLoad,
    job: &Job,
    since: SystemTime,
    (elapsed, cpus): (Duration, usize),
    figure: LatencyFigure,
) -> Result<LoadOutcome> {
    let (stdout, stderr) = (String::from_utf8_lossy(job.output()), job.stderr_tail());
    let output = RunOutput { stdout: &stdout, stderr: &stderr, since };
    let unreadable = |why: String| Error::ClientOutput { reader: load.reader.to_string(), why };
    let found = metric::requests(std::slice::from_ref(&load.reader), &output);
    let mut found = found.map_err(|error| unreadable(error.to_string()))?;
    if found.is_empty() {
        let why = "it printed no distribution of latencies: wrk needs --latency, redis-benchmark no -q, memtier_benchmark \
                   no --hide-histogram";
        return Err(unreadable(why.to_owned()));
    }
    if found.len() > 1 {
        let kinds: Vec<&str> = found.iter().map(|requests| requests.name.as_str()).collect();
        let why = format!("it has several kinds of requests ({}): give a load of one kind", kinds.join(", "));
        return Err(unreadable(why));
    }
    let requests: RequestTimes = found.swap_remove(0);
    let LatencyFigure::Quantile(q) = figure else {
        return Err(unreadable("the mean is not in its distribution: use a quantile such as p99".to_owned()));
    };
    let figures = load.figures(job, since);
    let is_printed = |metric: &Metric| metric.name == figure.to_string() && metric.unit == requests.unit;
    let printed = figures.iter().flatten().find(|(metric, _)| is_printed(metric)).map(|(_, value)| *value);
    let figure_ms = printed.map_or_else(|| requests.known_quantile(q), Ok).map_err(|near| {
        let near: Vec<String> =
            near.iter().map(|share| format!("p{}", (share * 1e5).round() / 1e3)).collect();
        unreadable(format!("its distribution has no {figure}, only {}", near.join(" and ")))
    })?;
    let is_rate = |metric: &Metric| metric.unit == "requests/s" || metric.unit == "ops/s";
    let rate = figures.iter().flatten().find(|(metric, _)| is_rate(metric)).map(|(_, value)| *value);
    let rate = rate.unwrap_or(requests.count as f64 / elapsed.as_secs_f64());
    let failure = figures.err();
    // The process here is not the client.
    let usage = job.ended().filter(|_| load.hosts.is_local());
    let cpu = usage.map(|usage| usage.cpu.as_secs_f64() / elapsed.as_secs_f64());
    let missed = load.rate.filter(|planned| planned.is_missed(rate));
    let is_busy = |rate: ClientRate| cpu.is_some_and(|used| rate.is_busy(used, cpus, CLIENT_LIMIT));
    Ok(LoadOutcome {
        figure_ms,
        rate,
        requests: Some(requests),
        failed: u64::from(failure.is_some()),
        first_failure: failure,
        client_cpus: cpu,
        is_client_limited: missed.is_some_and(is_busy),
        is_overloaded: missed.is_some_and(|rate| !is_busy(rate)),
        ..LoadOutcome::default()
    })
}
