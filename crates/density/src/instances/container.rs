//! An instance that is a container of podman or docker.

use super::{
    running::{
        Running, Start, exists_already, last_line, last_output_line, manager_fails, succeeded, wait_for_end,
        with_descendants,
    },
    spec::{ContainerNetwork, ContainerSpec, ServiceSpec},
};
use crate::{Error, Result, template::InstanceValues};
use manycore_control::{
    container::{self, ContainerEngine},
    journal::Change,
    measured_group::cpu_shares,
    tool,
};
use manycore_experiment::interrupt;
use manycore_linux::{memory_policy::MemoryPolicy, pidfd::open_pidfd, tasks};
use manycore_topology::CpuSet;
use std::{
    io,
    os::fd::OwnedFd,
    process::Stdio,
    time::{Duration, Instant},
};

/// How long the start of a container may take, with the time to load an image that could not be loaded before.
const START: Duration = Duration::from_mins(10);
/// How long an image may take to load from elsewhere.
const PULL: Duration = Duration::from_hours(1);
/// How long other subcommands of the engine may take.
const LIMIT: Duration = Duration::from_mins(1);

/// What to do if the engine cannot be used.
const HINT: &str = "start its daemon, or name another engine with --engine";

/// A running container.
#[derive(Debug)]
pub(super) struct ContainerInstance {
    index: usize,
    engine: ContainerEngine,
    name: String,
    /// Its first process.
    pid: u32,
    process: OwnedFd,
}

impl ContainerInstance {
    pub(super) fn start(spec: &ContainerSpec, start: &Start<'_>) -> Result<Self> {
        let (index, engine, name) = (start.values.index, spec.engine, start.values.name.clone());
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::MissingProgram(engine.program()),
            _ => Error::Start { index, program: engine.program().to_owned(), source },
        };
        // It is another program's, as in another process namespace, and must not be removed by our journal.
        let exists = container::exists(engine, &name);
        if exists.map_err(|error| manager_fails(index, engine.program(), error, HINT))? {
            return Err(failed(exists_already(&name)));
        }
        pull(spec, start.values)?;
        if let Some(custody) = &start.custody {
            custody.record(&Change::Container { engine, name: name.clone() })?;
        }
        // The first process is not known before the container runs, so this one is replaced.
        let words = arguments(spec, start.spec, start.values);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let started = tool::change_instance(&mut engine.command(&words), &name, Stdio::null(), START);
        let first = started.and_then(|done| succeeded(&done)).and_then(|()| first_process(engine, &name));
        match first {
            Ok(Some((pid, process))) => Ok(Self { index, engine, name, pid, process }),
            Ok(None) => {
                let error = ended(index, engine, &name);
                let _ = container::remove(engine, &name);
                Err(error)
            }
            Err(error) => {
                // A container that cannot run was created nevertheless.
                if error.kind() != io::ErrorKind::NotFound {
                    let _ = container::remove(engine, &name);
                }
                Err(failed(error))
            }
        }
    }

    fn manage(&self, subcommand: &str, what: &'static str) -> Result {
        let mut command = self.engine.command(&[subcommand, &self.name]);
        let done = tool::change_instance(&mut command, &self.name, Stdio::null(), LIMIT);
        done.and_then(|done| succeeded(&done)).map_err(|source| Error::Manage {
            index: self.index,
            what,
            source,
        })
    }
}

impl Running for ContainerInstance {
    fn pause(&mut self) -> Result {
        self.check()?;
        self.manage("pause", "paused")
    }

    fn resume(&mut self) -> Result {
        self.check()?;
        self.manage("unpause", "resumed")
    }

    fn check(&mut self) -> Result {
        if wait_for_end(&self.process, Instant::now()) {
            return Err(ended(self.index, self.engine, &self.name));
        }
        Ok(())
    }

    fn wait(&mut self, until: Instant) -> Result {
        wait_for_end(&self.process, until);
        Ok(())
    }

    fn supervisor(&self) -> Option<u32> {
        tasks::usage(self.pid).map(|usage| usage.parent).filter(|&parent| parent > 1)
    }

    /// Daemons in a container become children of its first process.
    fn processes(&self) -> Vec<u32> {
        with_descendants(self.pid)
    }
}

impl Drop for ContainerInstance {
    fn drop(&mut self) {
        // What is left of it is undone with the journal.
        let _ = container::remove(self.engine, &self.name);
    }
}

/// Returns the arguments that start the container of an instance.
fn arguments(spec: &ContainerSpec, service: &ServiceSpec, values: &InstanceValues) -> Vec<String> {
    // The removal of a container sends its stop signal first, and waits ten seconds for the end.
    let mut words: Vec<String> = ["run", "--detach"].map(str::to_owned).to_vec();
    // Those of the user come first: a later option replaces an earlier one, and the name must be ours.
    words.extend(spec.options.words(values));
    words.extend(["--stop-signal", "KILL", "--name", &values.name].map(str::to_owned));
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    add("--label", format!("manycore.instance={}", values.index));
    match spec.network {
        ContainerNetwork::Host => add("--network", "host".to_owned()),
        ContainerNetwork::Publish(inner) => {
            let address = match values.address {
                std::net::IpAddr::V4(address) => address.to_string(),
                std::net::IpAddr::V6(address) => format!("[{address}]"),
            };
            add("--publish", format!("{address}:{}:{inner}", values.port));
        }
    }
    if let Some(cpus) = service.limits.cpus {
        add("--cpus", cpus.to_string());
    }
    if let Some(bytes) = service.limits.memory {
        add("--memory", bytes.to_string());
    }
    if !values.cpus.is_empty() {
        add("--cpuset-cpus", values.cpus.clone());
    }
    if let MemoryPolicy::Bind(nodes) = service.tuning.memory(values.index) {
        add("--cpuset-mems", nodes.into_iter().collect::<CpuSet>().to_string());
    }
    if let Some(weight) = service.tuning.weight(values.index) {
        add("--cpu-shares", cpu_shares(weight).to_string());
    }
    for (name, value) in &service.tuning.env {
        add("--env", format!("{name}={value}"));
    }
    words.push(values.replace_in(&spec.image));
    words.extend(spec.command.words(values));
    words
}

/// Loads the image if it is not there and the user has no wish about that. The start of a container would load it too, but
/// must not be interrupted. The start reports what is wrong with an image.
fn pull(spec: &ContainerSpec, values: &InstanceValues) -> Result {
    let has_wish = |option: &String| option.starts_with("--pull") || option.starts_with("--rootfs");
    if spec.options.words(values).iter().any(has_wish) {
        return Ok(());
    }
    let image = values.replace_in(&spec.image);
    let run = |arguments: &[&str], limit| {
        tool::run_unless(&mut spec.engine.command(arguments), Stdio::null(), limit, &interrupt::requested)
    };
    let is_there = run(&["image", "inspect", "--format", "{{.Id}}", &image], LIMIT);
    if is_there.is_ok_and(|done| done.status.success()) {
        return Ok(());
    }
    match run(&["pull", "--quiet", &image], PULL) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// Returns a value of a container. The error is what the engine printed last.
fn inspect(engine: ContainerEngine, name: &str, value: &str) -> io::Result<String> {
    let arguments = ["container", "inspect", "--format", value, name];
    let done = tool::run(&mut engine.command(&arguments), Stdio::null(), LIMIT)?;
    succeeded(&done)?;
    // Standard error has warnings of engines that work.
    Ok(last_output_line(&done))
}

/// Returns the first process of a container; absent if it has ended.
fn first_process(engine: ContainerEngine, name: &str) -> io::Result<Option<(u32, OwnedFd)>> {
    let pid = || inspect(engine, name, "{{.State.Pid}}");
    let unknown = |why| io::Error::other(format!("the process of container {name} is unknown: {why}"));
    let first = pid().map_err(|error| unknown(error.to_string()))?;
    let number = first.parse::<u32>().map_err(|_| unknown(first.clone()))?;
    let Some(process) = Some(number).filter(|&pid| pid > 0).and_then(|pid| open_pidfd(pid).ok()) else {
        return Ok(None);
    };
    // If it still runs, it is the process that was opened.
    Ok(pid().is_ok_and(|again| again == first).then_some((number, process)))
}

/// Returns how a container ended, with what it printed last.
fn ended(index: usize, engine: ContainerEngine, name: &str) -> Error {
    let status = inspect(engine, name, "{{.State.ExitCode}}").unwrap_or_else(|_| "unknown".to_owned());
    let logs = tool::run(&mut engine.command(&["logs", "--tail", "5", name]), Stdio::null(), LIMIT);
    let last = logs.map(|done| last_line(&done)).unwrap_or_default();
    Error::Ended { index, status: format!("exit status: {status}"), last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::CommandTemplate;

    #[test]
    fn a_container_gets_its_name_port_limits_and_cpus() {
        let words = |text: &str| {
            CommandTemplate::arguments(text.split_whitespace().map(str::to_owned).collect()).unwrap()
        };
        let spec = ContainerSpec {
            engine: ContainerEngine::Podman,
            image: "docker.io/redis".to_owned(),
            options: words("--volume /srv/{index}:/data"),
            command: words("redis-server --port 6379"),
            network: ContainerNetwork::Publish(6379),
        };
        let mut service = ServiceSpec::new(words("unused"), "127.0.0.1".parse().unwrap(), 7000);
        service.limits.cpus = Some(0.2);
        service.limits.memory = Some(8 << 20);
        service.tuning.places = vec!["2-3".parse().unwrap()];
        let values = service.values(1, "manycore-density-9-1".to_owned()).unwrap();
        assert_eq!(
            arguments(&spec, &service, &values).join(" "),
            "run --detach --volume /srv/1:/data --stop-signal KILL --name manycore-density-9-1 --label manycore.instance=1 --publish \
             127.0.0.1:7001:6379 --cpus 0.2 --memory 8388608 --cpuset-cpus 2-3 docker.io/redis \
             redis-server --port 6379"
        );
        let service = ServiceSpec::new(words("unused"), "::1".parse().unwrap(), 7000);
        let values = service.values(0, "n".to_owned()).unwrap();
        let host = ContainerSpec {
            network: ContainerNetwork::Host,
            command: words("server {port}"),
            ..spec.clone()
        };
        let text = arguments(&host, &service, &values).join(" ");
        assert!(
            text.contains("--volume /srv/0:/data")
                && text.ends_with("--network host docker.io/redis server 7000"),
            "{text}"
        );
        assert!(arguments(&spec, &service, &values).contains(&"[::1]:7000:6379".to_owned()));
    }
}
