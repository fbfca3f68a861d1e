//! Instances of a service as processes: started when they are needed first, stopped while they are not.

use crate::{
    Error, Result,
    template::{CommandTemplate, InstanceValues},
};
use manycore_linux::child;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    io::{BufRead, BufReader},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How long an instance may take until it accepts connections.
const READY: Duration = Duration::from_secs(30);
/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(5);
/// An attempt to connect ends after this time.
const CONNECT: Duration = Duration::from_secs(1);
/// How long the last output of an instance that has ended is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How instances are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// The command.
    pub command: CommandTemplate,
    /// The address on which all serve.
    pub address: IpAddr,
    /// The port of the first; each further one has the next.
    pub first_port: u16,
}

/// Running instances. They are killed, with all that they have started, when this is dropped. If this program is killed, the
/// kernel kills them, but not what they have started.
#[derive(Debug)]
pub struct Instances {
    spec: ServiceSpec,
    started: Vec<Instance>,
    /// The first so many run; the others are stopped.
    active: usize,
}

#[derive(Debug)]
struct Instance {
    index: usize,
    server: SocketAddr,
    child: Child,
    /// The last line of its standard error.
    said: Arc<Mutex<String>>,
    /// Disconnected when its standard error has ended.
    reading: mpsc::Receiver<()>,
}

impl Instances {
    /// Prepares instances. None is started.
    pub fn new(spec: ServiceSpec) -> Self {
        Self { spec, started: Vec::new(), active: 0 }
    }

    /// Makes the first `count` instances run, and stops all others (SIGSTOP). Instances that are not there are started,
    /// and waited for until they accept connections.
    ///
    /// # Errors
    /// [`Error::Start`], [`Error::PortInUse`], [`Error::NotReady`]; [`Error::Ended`] if one has ended by itself. The
    /// instances that run stay.
    pub fn set_active(&mut self, count: usize) -> Result {
        for instance in self.started.iter().take(count).skip(self.active) {
            instance.signal(Signal::CONT)?;
        }
        while self.started.len() < count {
            let instance = Instance::start(&self.spec, self.started.len())?;
            self.started.push(instance);
        }
        for instance in self.started.iter().take(self.active).skip(count) {
            instance.signal(Signal::STOP)?;
        }
        self.active = count;
        self.check()
    }

    /// Removes the instances that have ended, and all behind them: they are started again when they are needed.
    pub fn remove_ended(&mut self) {
        let first = self.started.iter_mut().position(|instance| instance.check().is_err());
        if let Some(first) = first {
            self.started.truncate(first);
            self.active = self.active.min(first);
        }
    }

    /// Returns where the running instances serve.
    pub fn servers(&self) -> Vec<SocketAddr> {
        self.started.iter().take(self.active).map(|instance| instance.server).collect()
    }

    /// Returns the process of each running instance.
    pub fn processes(&self) -> Vec<u32> {
        self.started.iter().take(self.active).map(|instance| instance.child.id()).collect()
    }

    /// Checks that all instances are there.
    ///
    /// # Errors
    /// [`Error::Ended`] with the first that is not.
    pub fn check(&mut self) -> Result {
        self.started.iter_mut().try_for_each(Instance::check)
    }
}

impl Instance {
    fn start(spec: &ServiceSpec, index: usize) -> Result<Self> {
        let port = u16::try_from(usize::from(spec.first_port) + index).map_err(|_| {
            let first = spec.first_port;
            Error::Template(format!(
                "instance {index} has no port: ports begin with {first} and end with 65535"
            ))
        })?;
        let server = SocketAddr::new(spec.address, port);
        // A server that is there already would be measured in place of the instance.
        if TcpListener::bind(server).is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse) {
            return Err(Error::PortInUse { index, port });
        }
        let values = InstanceValues { index, port, address: spec.address, cpus: String::new() };
        let words = spec.command.words(&values);
        let failed = |source| Error::Start { index, program: words[0].clone(), source };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = child::spawn(&mut command).map_err(failed)?;
        let said = Arc::new(Mutex::new(String::new()));
        let (is_reading, reading) = mpsc::channel();
        if let Some(output) = child.stderr.take() {
            let said = Arc::clone(&said);
            // It ends with the output.
            let _reader = thread::spawn(move || {
                keep_last(BufReader::new(output), &said);
                drop(is_reading);
            });
        }
        let mut instance = Self { index, server, child, said, reading };
        instance.wait_until_ready()?;
        Ok(instance)
    }

    fn wait_until_ready(&mut self) -> Result {
        let end = Instant::now() + READY;
        loop {
            self.check()?;
            if TcpStream::connect_timeout(&self.server, CONNECT).is_ok() {
                return Ok(());
            }
            if Instant::now() > end {
                let (index, port, seconds) = (self.index, self.server.port(), READY.as_secs());
                return Err(Error::NotReady { index, port, seconds, last: self.last() });
            }
            // Nothing says when a program begins to listen; its end wakes this up.
            let retry = Instant::now() + RETRY;
            let waited = child::wait_until(&mut self.child, retry);
            waited.map_err(|source| Error::System { what: "cannot wait for an instance", source })?;
        }
    }

    fn check(&mut self) -> Result {
        let status = self.child.try_wait();
        match status.map_err(|source| Error::System { what: "cannot wait for an instance", source })? {
            None => Ok(()),
            Some(status) => {
                // What it has started may hold its output open.
                let _read = self.reading.recv_timeout(LAST_WORDS);
                Err(Error::Ended { index: self.index, status: status.to_string(), last: self.last() })
            }
        }
    }

    fn signal(&self, signal: Signal) -> Result {
        let group = Pid::from_child(&self.child);
        match kill_process_group(group, signal) {
            // It has ended; the check that follows says so.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::System { what: "cannot signal an instance", source: error.into() }),
        }
    }

    fn last(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        child::kill(&mut self.child);
    }
}

/// Keeps the last line of an output that is not empty. Reads to its end, so that the program is never blocked.
fn keep_last(output: impl BufRead, said: &Mutex<String>) {
    const LONGEST: usize = 500;
    for line in output.split(b'\n').map_while(std::result::Result::ok) {
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]).trim().to_owned();
        if !text.is_empty() {
            *said.lock().unwrap_or_else(PoisonError::into_inner) = text;
        }
    }
}
