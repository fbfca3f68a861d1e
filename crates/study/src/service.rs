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
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time that a service has to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Time for threads to settle after they were moved.
const SETTLE: Duration = Duration::from_millis(20);

/// The sign that a service is ready.
#[derive(Clone, Debug)]
pub enum Readiness {
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
    enforcer: Option<AffinityEnforcer>,
    place: Option<WorkerCpus>,
}

impl Service {
    /// Starts `command` and waits until it is ready, for `timeout` at most.
    ///
    /// # Errors
    /// [`Error::PortInUse`], [`Error::System`] if it cannot be started, [`Error::ServiceEnded`],
    /// [`Error::ServiceNotReady`], [`Error::Interrupted`]. No process of it is left running then.
    pub fn start(command: &[String], ready: &Readiness, timeout: Duration) -> Result<Self> {
        if let Readiness::Port(port) = ready
            && listens(*port)
        {
            return Err(Error::PortInUse(*port));
        }
        let name = command.join(" ");
        let others: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let mut start = Command::new(&command[0]);
        let job = Job::start(start.args(&command[1..]), &WorkerCpus::default().start(), false)
            .map_err(Error::system(format!("start the service {name}")))?;
        let mut service = Self { name, jobs: [job], others, enforcer: None, place: None };
        service.wait(ready, timeout)?;
        Ok(service)
    }

    fn wait(&mut self, ready: &Readiness, timeout: Duration) -> Result {
        let began = Instant::now();
        loop {
            self.check()?;
            interrupt::check()?;
            let up = match ready {
                Readiness::Started => true,
                Readiness::Port(port) => listens(*port),
                Readiness::Command(command) => succeeds(command, timeout.saturating_sub(began.elapsed()))?,
            };
            if up {
                return Ok(());
            }
            if began.elapsed() > timeout {
                let probe = match ready {
                    Readiness::Command(command) => Some(command.join(" ")),
                    Readiness::Started | Readiness::Port(_) => None,
                };
                return Err(Error::ServiceNotReady { service: self.name.clone(), limit: timeout, probe });
            }
            interrupt::sleep(POLL_INTERVAL)?;
        }
    }

    /// Checks that the service is running.
    ///
    /// # Errors
    /// [`Error::ServiceEnded`] with the last lines of its output.
    pub fn check(&mut self) -> Result {
        job::wait(&mut self.jobs, Duration::ZERO, &mut |_| {})
            .map_err(Error::system(format!("wait for {}", self.name)))?;
        let Some(ended) = self.jobs[0].ended() else { return Ok(()) };
        // A service that went into the background goes on in processes that have become our children.
        if ended.status.success() && !self.processes().is_empty() {
            return Ok(());
        }
        Err(Error::ServiceEnded {
            service: self.name.clone(),
            status: ended.status,
            output: self.jobs[0].last_stderr_line(),
        })
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
            self.enforce_affinity();
            return Ok(());
        }
        let roots = self.processes();
        let enforcer = self.enforcer.get_or_insert_with(|| AffinityEnforcer::new(place, inherited));
        enforcer.move_to(place, inherited, &roots);
        self.place = Some(place.clone());
        Ok(interrupt::sleep(SETTLE)?)
    }

    /// Applies the placement to new tasks. Returns the time after which this has to be repeated.
    pub fn enforce_affinity(&mut self) -> Option<Duration> {
        let roots = self.processes();
        self.enforcer.as_mut().map(|enforcer| enforcer.scan(&roots))
    }

    /// Returns a note for each task that set its own affinity.
    pub fn own_affinities(&self) -> Vec<String> {
        let own = self.enforcer.iter().flat_map(AffinityEnforcer::own_affinities);
        own.map(|(task, cpus)| format!("{}: {task} set its own affinity to CPUs {cpus}", self.name)).collect()
    }
}

impl Drop for Service {
    /// Ends the service with SIGTERM, and kills processes that do not end.
    fn drop(&mut self) {
        let (began, mut terminated) = (Instant::now(), BTreeSet::new());
        while began.elapsed() < GRACE {
            let living = self.processes();
            if living.is_empty() {
                break;
            }
            // Children of a process that ends may become our children. They get SIGTERM in turn.
            for pid in living.into_iter().filter(|pid| terminated.insert(*pid)) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                    let _ = rustix::process::kill_process(pid, Signal::TERM);
                }
            }
            match job::wait(&mut self.jobs, POLL_INTERVAL, &mut |_| {}) {
                // Processes in the background are not jobs of ours, so they have to be polled.
                Ok(true) => std::thread::sleep(POLL_INTERVAL),
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
        .map_err(Error::system(format!("start {}", command[0])))?;
    let (mut jobs, began) = ([job], Instant::now());
    while began.elapsed() <= timeout.max(POLL_INTERVAL) {
        let ended = job::wait(&mut jobs, POLL_INTERVAL, &mut |_| {})
            .map_err(Error::system(format!("wait for {}", command[0])))?;
        if ended {
            return Ok(jobs[0].ended().is_some_and(|ended| ended.status.success()));
        }
        interrupt::check()?;
    }
    Ok(false)
}
