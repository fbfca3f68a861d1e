//! A service that stays alive while its placement is switched. One that was started for the run is stopped at the end;
//! one that was running before gets its CPUs back.

use crate::{
    error::{Error, Result},
    format_command,
    run_mark::RunMark,
};
use manycore_control::{
    cleanup::{Cleanup, Leftover},
    placement::{AffinityEnforcer, SwitchedProcesses, WorkerCpus},
};
use manycore_experiment::interrupt;
use manycore_linux::{
    clock,
    job::{self, Job},
    tasks,
};
use manycore_sharing::WatchedRoots;
use manycore_topology::{CpuSet, Machine};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fmt::{self, Display, Formatter},
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

/// The service that is placed in place of the command.
#[derive(Clone, Debug)]
pub enum ServiceSource {
    /// A command to start, and the sign that it is ready.
    Command(Vec<String>, Readiness),
    /// Processes that are running already.
    Running(Vec<u32>),
}

impl Display for ServiceSource {
    /// Writes the command, or the names and ids of the processes.
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Self::Command(command, _) => out.write_str(&format_command(command)),
            Self::Running(pids) => {
                let names: Vec<String> = pids.iter().filter_map(|&pid| tasks::name(pid)).collect();
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                write!(out, "{} ({})", names.join(", "), pids.join(","))
            }
        }
    }
}

/// A running service.
pub struct Service {
    name: String,
    /// Processes that were running before. `None` for those of a started service, and after the end.
    found: Option<SwitchedProcesses>,
    /// The process that was started, if any.
    jobs: Vec<Job>,
    /// Our children that existed before the service was started.
    others: BTreeSet<u32>,
    enforcer: Option<AffinityEnforcer>,
    place: Option<WorkerCpus>,
}

impl Service {
    /// Takes processes that are running as the service, on `machine`, which is this one.
    ///
    /// # Errors
    /// Those of [`SwitchedProcesses::open`].
    pub fn running(pids: &[u32], machine: &Machine, subcommand: &str) -> Result<Self> {
        let name = ServiceSource::Running(pids.to_vec()).to_string();
        let what = format!("{subcommand} --service-pid: {name}");
        Ok(Self {
            found: Some(SwitchedProcesses::open(pids, machine, subcommand, &what)?),
            name,
            jobs: Vec::new(),
            others: BTreeSet::new(),
            enforcer: None,
            place: None,
        })
    }

    /// Gives processes that were running before their CPUs back. Returns what could not be restored.
    pub fn release(&mut self) -> Option<String> {
        match self.found.take()?.restore() {
            Ok((journal, restored)) => restored.failure(&journal),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Starts `command`, which the `cleanup` process ends if this one is killed, and waits until it is ready, for `timeout`
    /// at most.
    ///
    /// # Errors
    /// [`Error::PortInUse`], [`Error::System`] if it cannot be started, [`Error::ServiceEnded`],
    /// [`Error::ServiceNotReady`], [`Error::Interrupted`]. No process of it is left running then.
    pub(crate) fn start(
        command: &[String],
        ready: &Readiness,
        timeout: Duration,
        (cleanup, mark): (&mut Cleanup, &RunMark),
    ) -> Result<Self> {
        if let Readiness::Port(port) = ready
            && listens(*port)
        {
            return Err(Error::PortInUse(*port));
        }
        let name = format_command(command);
        let others: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let mut start = Command::new(&command[0]);
        start.args(&command[1..]).env(RunMark::NAME, mark.value());
        let job = Job::start(&mut start, &WorkerCpus::default().start(), false)
            .map_err(Error::system(format!("start the service {name}")))?;
        let pid = job.pid();
        let mut service = Self { name, found: None, jobs: vec![job], others, enforcer: None, place: None };
        if let Some(started) = tasks::start_time(pid) {
            cleanup.add(Leftover::ProcessGroup(pid, started))?;
        }
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
    /// [`Error::ServiceEnded`] with the last lines of its output, or [`Error::ServiceGone`].
    pub fn check(&mut self) -> Result {
        if let Some(found) = &self.found {
            let is_gone = found.running().is_empty();
            return if is_gone { Err(Error::ServiceGone(self.name.clone())) } else { Ok(()) };
        }
        job::wait(&mut self.jobs, Duration::ZERO, &mut |_| {})
            .map_err(Error::system(format!("wait for {}", self.name)))?;
        let Some(ended) = self.jobs.first().and_then(Job::ended) else { return Ok(()) };
        // A service that went into the background goes on in processes that have become our children.
        if ended.status.success() && !self.processes().is_empty() {
            return Ok(());
        }
        Err(Error::ServiceEnded {
            service: self.name.clone(),
            status: ended.status,
            output: self.jobs.first().map(Job::last_stderr_line).unwrap_or_default(),
        })
    }

    /// Returns its root processes: the one that was started, or those that went into the background and
    /// became our children.
    fn processes(&self) -> Vec<u32> {
        if let Some(found) = &self.found {
            return found.running();
        }
        if let Some(job) = self.jobs.first().filter(|job| job.ended().is_none()) {
            return vec![job.pid()];
        }
        let children = tasks::children(std::process::id()).into_iter();
        let of_load = load_mark();
        children
            .filter(|pid| !self.others.contains(pid) && tasks::is_alive(*pid))
            .filter(|pid| !tasks::has_environment(*pid, &of_load))
            .collect()
    }

    /// Returns the CPU time of its living processes so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        tasks::with_descendants(&self.processes()).into_iter().filter_map(clock::process_cpu_ns).sum()
    }

    /// Returns where the processes whose running tasks are observed begin.
    pub(crate) fn watched(&self) -> WatchedRoots {
        WatchedRoots::Processes(self.processes())
    }

    /// Applies a placement to all its threads, present and future.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; [`Error::Placement`] if a process that was running before cannot be moved.
    pub fn place(&mut self, place: &WorkerCpus, inherited: &CpuSet) -> Result {
        if self.place.as_ref() == Some(place) {
            self.enforce_affinity();
            return Ok(());
        }
        if let Some(found) = &mut self.found {
            found.place(place)?;
        } else {
            let roots = self.processes();
            let enforcer = self.enforcer.get_or_insert_with(|| AffinityEnforcer::new(place, inherited));
            enforcer.move_to(place, inherited, &roots);
        }
        self.place = Some(place.clone());
        Ok(interrupt::sleep(SETTLE)?)
    }

    /// Applies the placement to new tasks. Returns the time after which this has to be repeated.
    pub fn enforce_affinity(&mut self) -> Option<Duration> {
        if let Some(found) = &mut self.found {
            return Some(found.scan());
        }
        let roots = self.processes();
        self.enforcer.as_mut().map(|enforcer| enforcer.scan(&roots))
    }

    /// Returns a note for each task that set its own affinity.
    pub fn own_affinities(&self) -> Vec<String> {
        let enforcer = self.found.as_ref().map(SwitchedProcesses::enforcer).or(self.enforcer.as_ref());
        let own = enforcer.into_iter().flat_map(AffinityEnforcer::own_affinities);
        own.map(|(task, cpus)| format!("{}: {task} set its own affinity to CPUs {cpus}", self.name)).collect()
    }
}

impl Drop for Service {
    /// Ends a service that was started with SIGTERM, and kills processes that do not end.
    fn drop(&mut self) {
        self.release();
        if self.jobs.is_empty() {
            return;
        }
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
        self.jobs.iter().for_each(|job| job.signal(Signal::KILL));
        job::end_leftover_processes(&self.others, &|_| true);
    }
}

/// Environment variable that marks the load, and all processes that it starts. It distinguishes them from
/// those of the service.
pub(crate) const LOAD_MARKER: &str = "MANYCORE_LOAD";

/// Returns the assignment in the environment of the load of this measurement.
pub(crate) fn load_mark() -> String {
    format!("{LOAD_MARKER}={}", std::process::id())
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
