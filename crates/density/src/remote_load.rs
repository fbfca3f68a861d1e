//! The generator of this program on other hosts: one process on each, which runs all loads there.

use crate::{Error, Result, hosts::LoadHosts, load::Edge};
use manycore_experiment::interrupt;
use manycore_linux::job::{self, Job};
use manycore_load::{
    LoadResult,
    batch::{GO, LoadBatch, LoadReply, PlacedLoad, READY, SUBCOMMAND},
};
use manycore_remote::{Error as RemoteError, last_line, write_input};
use std::{
    io::{PipeWriter, Write},
    time::{Duration, Instant},
};

/// How long a wait takes at most before an interruption is noticed.
const WAIT: Duration = Duration::from_millis(200);
/// How long a process may take besides its loads: to start, to connect to the servers, and to wait for the last replies.
const BESIDES: Duration = Duration::from_mins(1);

/// The processes of a slice, one for each host with loads.
struct Generators<'a> {
    hosts: &'a LoadHosts,
    /// The host of each process, and the indices of its loads.
    shares: Vec<(usize, Vec<usize>)>,
    /// The processes end with them: dropped first.
    inputs: Vec<PipeWriter>,
    jobs: Vec<Job>,
}

/// Runs loads at the same time, each on its host. All begin when the processes on all hosts have made their connections.
///
/// # Errors
/// [`Error::Remote`], [`Error::Load`] and [`Error::Interrupted`].
pub(crate) fn generate(
    hosts: &LoadHosts,
    loads: &[PlacedLoad],
    host_of: impl Fn(usize) -> usize,
    edge: &mut dyn FnMut(Edge),
) -> Result<Vec<LoadResult>> {
    let of_host =
        |host: usize| (host, (0..loads.len()).filter(|&index| host_of(index) == host).collect::<Vec<_>>());
    let shares = (0..hosts.count()).map(of_host).filter(|(_, share)| !share.is_empty()).collect();
    let mut generators = Generators::start(hosts, shares, loads)?;
    generators.wait(BESIDES, |job| is_ready(job.output()) || job.ended().is_some())?;
    generators.check_started()?;
    edge(Edge::Begin);
    for input in &mut generators.inputs {
        // A process that has ended is found below.
        let _written = writeln!(input, "{GO}");
    }
    let longest = loads.iter().map(|load| load.request.warm_up + load.request.duration).max();
    generators.wait(longest.unwrap_or_default() + BESIDES, |job| job.ended().is_some())?;
    edge(Edge::End);
    generators.results(loads.len())
}

impl<'a> Generators<'a> {
    fn start(hosts: &'a LoadHosts, shares: Vec<(usize, Vec<usize>)>, loads: &[PlacedLoad]) -> Result<Self> {
        let mut generators = Self { hosts, shares, inputs: Vec::new(), jobs: Vec::new() };
        for (host, share) in &generators.shares {
            let words = [hosts.generator(*host), SUBCOMMAND].map(str::to_owned);
            let (job, mut input) = hosts.connection(*host).start(0, &words)?;
            generators.jobs.push(job);
            let batch = LoadBatch { loads: share.iter().map(|&index| loads[index].clone()).collect() };
            let line = batch.line();
            let line = line.map_err(|source| Error::System { what: "cannot write loads", source })?;
            // A process that does not read it is found when it is waited for.
            let end = Instant::now() + BESIDES;
            write_input(&mut input, &line, || interrupt::requested() || Instant::now() > end);
            generators.inputs.push(input);
        }
        Ok(generators)
    }

    /// Checks that no process has ended before its loads were started: a server does not accept connections, or a load is
    /// invalid.
    fn check_started(&self) -> Result {
        match self.jobs.iter().find(|job| job.ended().is_some()) {
            None => Ok(()),
            Some(job) => {
                LoadReply::results(job.output())?;
                Err(manycore_load::Error::Reply("it has ended before it was started".to_owned()).into())
            }
        }
    }

    /// Waits until something holds of all processes, for at most `limit`.
    fn wait(&mut self, limit: Duration, is_done: impl Fn(&Job) -> bool) -> Result {
        let end = Instant::now() + limit;
        loop {
            for (job, (host, _)) in self.jobs.iter().zip(&self.shares) {
                if job.ended().is_some_and(|usage| !usage.status.success() || !is_done(job)) {
                    return Err(self.failure(job, *host));
                }
            }
            if self.jobs.iter().all(&is_done) {
                return Ok(());
            }
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if let Some(at) = self.jobs.iter().position(|job| !is_done(job)).filter(|_| Instant::now() > end)
            {
                let host = self.hosts.connection(self.shares[at].0).host().clone();
                let why = format!("the load generator has not answered within {} s", limit.as_secs());
                return Err(RemoteError::Lost { host, why }.into());
            }
            job::wait(&mut self.jobs, WAIT, &mut |_| {})
                .map_err(|source| Error::System { what: "cannot wait for loads", source })?;
        }
    }

    /// Returns why a process has ended too early.
    fn failure(&self, job: &Job, host: usize) -> Error {
        let connection = self.hosts.connection(host);
        let lost = || RemoteError::Lost { host: connection.host().clone(), why: last_line(job) };
        connection.failure(job, self.hosts.generator(host)).unwrap_or_else(lost).into()
    }

    /// Returns the results of all loads.
    fn results(&self, count: usize) -> Result<Vec<LoadResult>> {
        let mut results = vec![None; count];
        for (job, (_, share)) in self.jobs.iter().zip(&self.shares) {
            for (index, result) in share.iter().zip(LoadReply::results(job.output())?) {
                results[*index] = Some(result);
            }
        }
        let missing = || manycore_load::Error::Reply("a load has no result".to_owned());
        results.into_iter().map(|result| result.ok_or_else(|| missing().into())).collect()
    }
}

/// Whether a process has made its connections. The shell there may have printed other lines before.
fn is_ready(printed: &[u8]) -> bool {
    printed.split(|&byte| byte == b'\n').any(|line| line == READY.as_bytes())
}
