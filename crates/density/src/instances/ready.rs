//! Waits until an instance is ready, and prepares it.

use super::{
    running::{Running, last_line},
    spec::{Readiness, ServiceSpec},
};
use crate::{
    Error, Result,
    template::{CommandTemplate, InstanceValues},
};
use manycore_control::tool::{self, ToolOutput};
use manycore_experiment::interrupt;
use std::{
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(5);
/// Pause between two runs of the command that shows readiness.
const RETRY_COMMAND: Duration = Duration::from_millis(50);
/// An attempt to connect ends after this time.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a proxy may take to close a connection that nothing serves.
const PROXY: Duration = Duration::from_millis(200);
/// How long the preparation of an instance may take.
const PREPARE: Duration = Duration::from_mins(10);

/// Waits until an instance is ready, calls the hook, and runs the command that prepares it.
pub(super) fn make_ready(running: &mut dyn Running, spec: &ServiceSpec, values: &InstanceValues) -> Result {
    match &spec.ready {
        Readiness::Port => wait_for_port(running, spec, values)?,
        Readiness::Command(command) => wait_for_command(running, command, spec, values)?,
    }
    if let Some(hook) = &spec.tuning.hook {
        let index = values.index;
        hook.ready(index, &running.processes()).map_err(|source| Error::Tuning { index, source })?;
    }
    match &spec.prepare {
        Some(command) => prepare(running, command, values),
        None => Ok(()),
    }
}

fn wait_for_port(running: &mut dyn Running, spec: &ServiceSpec, values: &InstanceValues) -> Result {
    let (index, port) = (values.index, values.port);
    let server = SocketAddr::new(values.address, port);
    let end = Instant::now() + spec.ready_limit;
    loop {
        interrupt::check().map_err(|_| Error::Interrupted)?;
        running.check()?;
        let stream = TcpStream::connect_timeout(&server, CONNECT);
        if stream.is_ok_and(|stream| !spec.kind.may_have_proxy() || is_served(stream)) {
            return Ok(());
        }
        if Instant::now() > end {
            let seconds = spec.ready_limit.as_secs();
            return Err(Error::NotReady { index, port, seconds, last: running.last() });
        }
        // Nothing reports when a program begins to listen; its end wakes this up.
        running.wait(Instant::now() + RETRY)?;
    }
}

/// Whether a service is behind a connection. A proxy accepts connections before the service does, and closes them.
fn is_served(mut stream: TcpStream) -> bool {
    if stream.set_read_timeout(Some(PROXY)).is_err() {
        return true;
    }
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes > 0,
        Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

fn wait_for_command(
    running: &mut dyn Running,
    command: &CommandTemplate,
    spec: &ServiceSpec,
    values: &InstanceValues,
) -> Result {
    let end = Instant::now() + spec.ready_limit;
    // What the last attempt with an end said.
    let mut said = None;
    loop {
        interrupt::check().map_err(|_| Error::Interrupted)?;
        running.check()?;
        let left = end.saturating_duration_since(Instant::now());
        match run(command, values, left)? {
            Ok(done) if done.status.success() => return Ok(()),
            Ok(done) => said = Some(last_line(&done)),
            // The last attempt may have had little time, and an earlier one the reason.
            Err(timeout) if Instant::now() >= end && said.is_none() => said = Some(timeout.to_string()),
            Err(_) => {}
        }
        if Instant::now() >= end {
            running.check()?;
            let (index, seconds) = (values.index, spec.ready_limit.as_secs());
            let (command, last) = (command.words(values).join(" "), said.unwrap_or_default());
            return Err(Error::NotReadyByCommand { index, command, seconds, last });
        }
        running.wait(Instant::now() + RETRY_COMMAND)?;
    }
}

fn prepare(running: &mut dyn Running, command: &CommandTemplate, values: &InstanceValues) -> Result {
    let (status, last) = match run(command, values, PREPARE)? {
        Ok(done) if done.status.success() => return running.check(),
        Ok(done) => (done.status.to_string(), last_line(&done)),
        Err(timeout) => (timeout.to_string(), String::new()),
    };
    // The end of the instance is the better reason.
    running.check()?;
    let (index, command) = (values.index, command.words(values).join(" "));
    Err(Error::Prepare { index, command, status, last })
}

/// Runs a command for an instance. The inner error is that it took longer than `limit`.
fn run(
    command: &CommandTemplate,
    values: &InstanceValues,
    limit: Duration,
) -> Result<Result<ToolOutput, io::Error>> {
    let words = command.words(values);
    let mut program = Command::new(&words[0]);
    match tool::run_unless(program.args(&words[1..]), Stdio::null(), limit, &interrupt::requested) {
        Ok(done) => Ok(Ok(done)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(Error::Interrupted),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(Err(error)),
        Err(source) => Err(Error::Helper { index: values.index, command: words.join(" "), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    #[test]
    fn a_proxy_without_a_service_is_not_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let waiting = connect();
        let accepted = listener.accept().unwrap().0;
        assert!(is_served(waiting));
        drop(accepted);
        let closing = connect();
        let proxy = thread::spawn(move || drop(listener.accept().unwrap()));
        assert!(!is_served(closing));
        proxy.join().unwrap();
    }
}
