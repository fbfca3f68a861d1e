//! A service that stays alive while its placement is switched, and is ended afterwards.

use crate::error::{Error, Result};
use manycore_control::placing::{Keeper, Place};
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

/// Time between looks whether a service is ready, and time of the last ones.
const LOOK: Duration = Duration::from_millis(20);

/// Time that a service has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Time that threads get to settle where they were moved.
const SETTLE: Duration = Duration::from_millis(20);

/// What says that a service is up.
#[derive(Clone, Debug)]
pub enum Ready {
    /// It has started.
    Started,
    /// This command ends with success.
    Command(Vec<String>),
    /// Something listens on this TCP port of the loopback address.
    Port(u16),
}

/// A service under way.
pub struct Service {
    name: String,
    jobs: [Job; 1],
    /// Children of ours that were there before it.
    others: BTreeSet<u32>,
    keeper: Option<Keeper>,
    place: Option<Place>,
}

impl Service {
    /// Starts `command` and waits until it is ready, at most for `timeout`.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the port is taken already, [`Error::Unavailable`] where it cannot be started,
    /// [`Error::Failed`] where it ends or does not become ready, [`Error::Interrupted`]. Then nothing of it is left.
    pub fn start(command: &[String], ready: &Ready, timeout: Duration) -> Result<Self> {
        if let Ready::Port(port) = ready
            && listens(*port)
        {
            return Err(Error::invalid(format!(
                "port {port} is in use already: end what listens there, or give the service another port"
            )));
        }
        let name = command.join(" ");
        let others: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let mut start = Command::new(&command[0]);
        let job = Job::start(start.args(&command[1..]), &Place::default().start(), false)
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
                last = format!("; {} does not succeed", command.join(" "));
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

    /// Whether it lives.
    ///
    /// # Errors
    /// [`Error::Failed`] with its last words where it has ended.
    pub fn check(&mut self) -> Result {
        job::wait(&mut self.jobs, Duration::ZERO, &mut |_| {})
            .map_err(|error| Error::unavailable(format!("cannot wait for {}: {error}", self.name)))?;
        let Some(ended) = self.jobs[0].ended() else { return Ok(()) };
        // One that went into the background lives on in processes that came to us.
        if ended.status.success() && !self.processes().is_empty() {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the service {} ended ({}): {}",
            self.name,
            ended.status,
            self.jobs[0].last_words()
        )))
    }

    /// Its first processes: one, or those that went into the background and came to us.
    fn processes(&self) -> Vec<u32> {
        if self.jobs[0].ended().is_none() {
            return vec![self.jobs[0].pid()];
        }
        let children = tasks::children(std::process::id()).into_iter();
        children.filter(|pid| !self.others.contains(pid) && tasks::is_alive(*pid)).collect()
    }

    /// CPU time of its living processes until now, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        tasks::tree(&self.processes()).into_iter().filter_map(clock::process_cpu_ns).sum()
    }

    /// Moves it, all its threads and those to come.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn place(&mut self, place: &Place, inherited: &CpuSet) -> Result {
        if self.place.as_ref() == Some(place) {
            self.look();
            return Ok(());
        }
        let roots = self.processes();
        let keeper = self.keeper.get_or_insert_with(|| Keeper::new(place, inherited));
        keeper.move_to(place, inherited, &roots);
        self.place = Some(place.clone());
        Ok(interrupt::sleep(SETTLE)?)
    }

    /// Seats tasks that have appeared; returns how long nobody need look again.
    pub fn look(&mut self) -> Option<Duration> {
        let roots = self.processes();
        self.keeper.as_mut().map(|keeper| keeper.look(&roots))
    }

    /// What its tasks did to their affinity themselves.
    pub fn own_affinities(&self) -> Vec<String> {
        let own = self.keeper.iter().flat_map(Keeper::own_affinities);
        own.map(|(task, cpus)| format!("{}: {task} set its own affinity to CPUs {cpus}", self.name)).collect()
    }
}

impl Drop for Service {
    /// Asks it to end, and kills what does not.
    fn drop(&mut self) {
        let (began, mut asked) = (Instant::now(), BTreeSet::new());
        while began.elapsed() < GRACE {
            let living = self.processes();
            if living.is_empty() {
                break;
            }
            // One that ends may leave to us what it started: that is asked in its turn.
            for pid in living.into_iter().filter(|pid| asked.insert(*pid)) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                    let _ = rustix::process::kill_process(pid, Signal::TERM);
                }
            }
            match job::wait(&mut self.jobs, LOOK, &mut |_| {}) {
                // Those in the background are no jobs of ours: they are looked at.
                Ok(true) => std::thread::sleep(LOOK),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        self.jobs[0].signal(Signal::KILL);
        job::end_strays(&self.others, &|_| true);
    }
}

fn listens(port: u16) -> bool {
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    addresses.iter().any(|address| TcpStream::connect_timeout(address, Duration::from_millis(200)).is_ok())
}

fn succeeds(command: &[String], timeout: Duration) -> Result<bool> {
    let mut probe = Command::new(&command[0]);
    let job = Job::start(probe.args(&command[1..]), &Place::default().start(), false)
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
