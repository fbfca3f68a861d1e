//! Load generators of other programs, one for each instance.
//!
//! A slice lasts as long as the client of the observed instance. A client of another instance that ends earlier is started
//! again, so that all instances are loaded during the whole slice; those that still run at its end are killed.

use crate::{
    Error, Result,
    load::{LoadOutcome, cpus_of},
    template::{CommandTemplate, InstanceValues},
};
use manycore_experiment::{
    interrupt,
    metric::{self, LoadModel, MetricReader, RunOutput, load_model},
    record::RequestTimes,
    tail_bound::LatencyFigure,
};
use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use manycore_topology::CpuSet;
use std::{
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

/// A client may take so long.
const LONGEST: Duration = Duration::from_mins(30);
/// How long a wait for clients takes at most before an interruption is noticed.
const WAIT: Duration = Duration::from_millis(200);

/// A client that is started for each instance.
#[derive(Clone, Debug)]
pub struct ClientLoad {
    command: CommandTemplate,
    reader: MetricReader,
    model: Option<LoadModel>,
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
        let model = load_model(&reader, &words).map(|(_, model)| model);
        Ok(Self { command: CommandTemplate::new(words)?, reader, model })
    }

    /// Returns its program.
    pub fn program(&self) -> &str {
        self.command.program()
    }

    /// Returns when its requests are sent, where that is known.
    pub fn model(&self) -> Option<LoadModel> {
        self.model
    }

    fn start(&self, index: usize, server: SocketAddr, cpus: &CpuSet) -> Result<Job> {
        let own = cpus_of(index, cpus);
        let (port, address) = (server.port(), server.ip());
        let list = own.as_ref().map(ToString::to_string).unwrap_or_default();
        let words =
            self.command.words(&InstanceValues { index, port, address, cpus: list, name: String::new() });
        let start = StartPlacement { cpus: own, ..StartPlacement::default() };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Job::start(&mut command, &start, true).map_err(|source| Error::Client {
            index,
            program: words[0].clone(),
            why: source.to_string(),
        })
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
) -> Result<Vec<LoadOutcome>> {
    let (since, began) = (SystemTime::now(), Instant::now());
    let mut jobs: Vec<Job> = Vec::new();
    for (index, &server) in servers.iter().enumerate() {
        jobs.push(load.start(index, server, cpus)?);
    }
    while jobs[0].ended().is_none() {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        if began.elapsed() > LONGEST {
            return Err(Error::ClientTooLong { seconds: LONGEST.as_secs_f64() });
        }
        job::wait(&mut jobs, WAIT, &mut |_| {})
            .map_err(|source| Error::System { what: "cannot wait for clients", source })?;
        for (index, job) in jobs.iter_mut().enumerate().skip(1) {
            if job.ended().is_some() {
                check(index, job, load)?;
                *job = load.start(index, servers[index], cpus)?;
            }
        }
    }
    check(0, &jobs[0], load)?;
    let observed = outcome(load, &jobs[0], since, began.elapsed(), figure)?;
    let others = (1..servers.len()).map(|_| LoadOutcome::default());
    Ok(std::iter::once(observed).chain(others).collect())
}

/// Checks that a client that has ended has succeeded.
fn check(index: usize, job: &Job, load: &ClientLoad) -> Result {
    match job.ended() {
        Some(usage) if !usage.status.success() => Err(Error::Client {
            index,
            program: load.command.program().to_owned(),
            why: format!("{}: {}", usage.status, job.last_stderr_line()),
        }),
        _ => Ok(()),
    }
}

fn outcome(
    load: &ClientLoad,
    job: &Job,
    since: SystemTime,
    elapsed: Duration,
    figure: LatencyFigure,
) -> Result<LoadOutcome> {
    let (stdout, stderr) = (String::from_utf8_lossy(job.output()), job.stderr_tail());
    let output = RunOutput { stdout: &stdout, stderr: &stderr, since };
    let unreadable = |why: String| Error::ClientOutput { reader: load.reader.to_string(), why };
    let found = metric::requests(std::slice::from_ref(&load.reader), &output);
    let mut found = found.map_err(|error| unreadable(error.to_string()))?;
    if found.is_empty() {
        let why = "it printed no distribution of latencies: wrk needs --latency, redis-benchmark no -q";
        return Err(unreadable(why.to_owned()));
    }
    let requests: RequestTimes = found.swap_remove(0);
    let LatencyFigure::Quantile(q) = figure else {
        return Err(unreadable("the mean is not in its distribution: use a quantile such as p99".to_owned()));
    };
    // The figures of a client that counted errors cannot be read.
    let failure = load.reader.read(&output).err().map(|error| error.to_string());
    let cpu = job.ended().map(|usage| usage.cpu.as_secs_f64() / elapsed.as_secs_f64());
    Ok(LoadOutcome {
        figure_ms: requests.quantile(q),
        rate: requests.count as f64 / elapsed.as_secs_f64(),
        requests: Some(requests),
        failed: u64::from(failure.is_some()),
        first_failure: failure,
        client_cpus: cpu,
        ..LoadOutcome::default()
    })
}
