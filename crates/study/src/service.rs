//! A service that stays alive while its placement is switched, and is stopped at the end.

use crate::error::{Error, Result};
use manycore_control::placement::{AffinityEnforcer, WorkerCpus};
use manycore_experiment::interrupt;
use manycore_linux::{
    clock,
    job::{self, Job},
    tasks,
};
use manycore_topology::CpuSet;
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

/// Interval between checks whether a service is ready, or has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Time that a service has to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Time for threads to settle after they were moved.
const SETTLE: Duration = Duration::from_millis(20);

/// The sign that a service is ready.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Its process has started.
    Started,
    /// This command succeeds.
    Command(Vec<String>),
    /// A process listens on this TCP port of the loopback address.
    Port(u16),
}

/// A running service.
pub struct Service {
    name: String,
    jobs: [Job; 1],
    /// Our children that existed before the service was started.
    others: BTreeSet<u32>,
    keeper: Option<AffinityEnforcer>,
    place: Option<WorkerCpus>,
}

impl Service {
    /// Starts `command` and waits until it is ready, for `timeout` at most.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the port is taken already, [`Error::Unavailable`] where it cannot be started,
    /// [`Error::Failed`] where it ends or does not become ready, [`Error::Interrupted`]. Then nothing of it is left.
    pub fn start(command: &[String], ready: &Ready, timeout: Duration) -> Result<Self> {
        if let Ready::Port(port) = ready
            && listens(*port)
        {
            return Err(Error::invalid(format!(
                "port {port} is already in use: stop the process that listens there, or give the service another port"
            )));
        }
        let name = command.join(" ");
        let others: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let mut start = Command::new(&command[0]);
        let job = Job::start(start.args(&command[1..]), &WorkerCpus::default().start(), false)
            .map_err(|error| Error::unavailable(format!("cannot start the service {name}: {error}")))?;
        let mut service = Self { name, jobs: [job], others, keeper: None, place: None };
        service.wait(ready, timeout)?;
        Ok(service)
    }

    fn wait(&mut self, ready: &Ready, timeout: Duration) -> Result {
        let began = Instant::now();
        let mut last = String::new();
        loop {
            self.check()?;
            interrupt::check()?;
            let up = match ready {
                Ready::Started => true,
                Ready::Port(port) => listens(*port),
                Ready::Command(command) => succeeds(command, timeout.saturating_sub(began.elapsed()))?,
            };
            if up {
                return Ok(());
            }
            if let Ready::Command(command) = ready {
                last = format!("; {} did not succeed", command.join(" "));
            }
            if began.elapsed() > timeout {
                return Err(Error::Failed(format!(
                    "the service {} is not ready after {} s{last}",
                    self.name,
                    timeout.as_secs_f64()
                )));
            }
            interrupt::sleep(LOOK)?;
        }
    }

    /// Checks that the service is running.
    ///
    /// # Errors
    /// [`Error::Failed`] with its last words where it has ended.
    pub fn check(&mut self) -> Result {
        job::wait(&mut self.jobs, Duration::ZERO, &mut |_| {})
            .map_err(|error| Error::unavailable(format!("cannot wait for {}: {error}", self.name)))?;
        let Some(ended) = self.jobs[0].ended() else { return Ok(()) };
        // A service that went into the background goes on in processes that have become our children.
        if ended.status.success() && !self.processes().is_empty() {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the service {} ended ({}): {}",
            self.name,
            ended.status,
            self.jobs[0].last_stderr_line()
        )))
    }

    /// Returns its root processes: the one that was started, or those that went into the background and
    /// became our children.
    fn processes(&self) -> Vec<u32> {
        if self.jobs[0].ended().is_none() {
            return vec![self.jobs[0].pid()];
        }
        let children = tasks::children(std::process::id()).into_iter();
        children.filter(|pid| !self.others.contains(pid) && tasks::is_alive(*pid)).collect()
    }

    /// Returns the CPU time of its living processes so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        tasks::with_descendants(&self.processes()).into_iter().filter_map(clock::process_cpu_ns).sum()
    }

    /// Applies a placement to all its threads, present and future.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn place(&mut self, place: &WorkerCpus, inherited: &CpuSet) -> Result {
        if self.place.as_ref() == Some(place) {
            self.look();
            return Ok(());
        }
        let roots = self.processes();
        let keeper = self.keeper.get_or_insert_with(|| AffinityEnforcer::new(place, inherited));
        keeper.move_to(place, inherited, &roots);
        self.place = Some(place.clone());
        Ok(interrupt::sleep(SETTLE)?)
    }

    /// Applies the placement to new tasks. Returns the time after which this has to be repeated.
    pub fn look(&mut self) -> Option<Duration> {
        let roots = self.processes();
        self.keeper.as_mut().map(|keeper| keeper.scan(&roots))
    }

    /// Returns a note for each task that set its own affinity.
    pub fn own_affinities(&self) -> Vec<String> {
        let own = self.keeper.iter().flat_map(AffinityEnforcer::own_affinities);
        own.map(|(task, cpus)| format!("{}: {task} set its own affinity to CPUs {cpus}", self.name)).collect()
    }
}

impl Drop for Service {
    /// Ends the service with SIGTERM, and kills processes that do not end.
    fn drop(&mut self) {
        let (began, mut asked) = (Instant::now(), BTreeSet::new());
        while began.elapsed() < GRACE {
            let living = self.processes();
            if living.is_empty() {
                break;
            }
            // Children of a process that ends may become our children. They get SIGTERM in turn.
            for pid in living.into_iter().filter(|pid| asked.insert(*pid)) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                    let _ = rustix::process::kill_process(pid, Signal::TERM);
                }
            }
            match job::wait(&mut self.jobs, LOOK, &mut |_| {}) {
                // Processes in the background are not jobs of ours, so they have to be polled.
                Ok(true) => std::thread::sleep(LOOK),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        self.jobs[0].signal(Signal::KILL);
        job::end_leftover_processes(&self.others, &|_| true);
    }
}

fn listens(port: u16) -> bool {
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    addresses.iter().any(|address| TcpStream::connect_timeout(address, Duration::from_millis(200)).is_ok())
}

fn succeeds(command: &[String], timeout: Duration) -> Result<bool> {
    let mut probe = Command::new(&command[0]);
    let job = Job::start(probe.args(&command[1..]), &WorkerCpus::default().start(), false)
        .map_err(|error| Error::unavailable(format!("cannot start {}: {error}", command[0])))?;
    let (mut jobs, began) = ([job], Instant::now());
    while began.elapsed() <= timeout.max(LOOK) {
        let ended = job::wait(&mut jobs, LOOK, &mut |_| {})
            .map_err(|error| Error::unavailable(format!("cannot wait for {}: {error}", command[0])))?;
        if ended {
            return Ok(jobs[0].ended().is_some_and(|ended| ended.status.success()));
        }
        interrupt::check()?;
    }
    Ok(false)
}
