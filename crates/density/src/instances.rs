//! Instances of a service: started when they are needed first, paused while they are not, and ended with all that they have
//! started.
//!
//! | part | what it is |
//! |---|---|
//! | `spec` | what instances are: commands, limits, readiness |
//! | `tuning` | what variants change: places, weights, and a hook for other features |
//! | `custody` | the journal and the cleanup process, which end instances if this program cannot |
//! | `running` | what each kind of instance can do |
//! | `process`, `container`, `domain` | the kinds |
//! | `ready` | readiness and preparation |

mod container;
mod custody;
mod domain;
mod process;
mod ready;
mod running;
mod spec;
mod tuning;

pub use manycore_control::container::ContainerEngine;
pub use spec::{
    ContainerNetwork, ContainerSpec, DomainSpec, DomainTemplate, InstanceKind, InstanceLimits, Readiness,
    Safeguard, ServiceSpec,
};
pub use tuning::{InstanceHook, InstanceTuning};

use crate::{Error, Result, memory, template::InstanceValues};
use custody::Custody;
use manycore_experiment::interrupt;
use manycore_linux::{port, process_memory};
use running::{Running, Start};
use std::{mem, net::SocketAddr, thread};

/// Running instances. They are ended, with all that they have started, when this is dropped. If this program is killed, the
/// cleanup process ends them; `manycore undo` does so if that one was killed too. Without a safeguard, the kernel kills their
/// processes, but not what those have started.
#[derive(Debug)]
pub struct Instances {
    spec: ServiceSpec,
    started: Vec<Instance>,
    /// The first so many run; the others are paused.
    active: usize,
    /// Begun with the first instance. Dropped after the instances.
    custody: Option<Custody>,
}

/// How many instances are paused, resumed or ended at the same time: a program that manages containers takes 0.1 s for each.
const AT_ONCE: usize = 8;

#[derive(Debug)]
struct Instance {
    server: SocketAddr,
    running: Box<dyn Running>,
    is_paused: bool,
}

impl Instances {
    /// Prepares instances. None is started.
    pub fn new(spec: ServiceSpec) -> Self {
        Self { spec, started: Vec::new(), active: 0, custody: None }
    }

    /// Makes the first `count` instances run, and pauses all others. Instances that are not there are started, waited for
    /// until they are ready, and prepared.
    ///
    /// # Errors
    /// [`Error::Limits`], [`Error::Template`], [`Error::Unlimited`] and [`Error::MissingProgram`] if there can be no such
    /// instances; [`Error::Start`], [`Error::PortInUse`], [`Error::NotReady`], [`Error::Prepare`]; [`Error::Ended`] if one
    /// has ended by itself. The instances that run stay.
    pub fn set_active(&mut self, count: usize) -> Result {
        let there = self.started.len().min(count);
        at_once(&mut self.started[..there], false)?;
        while self.started.len() < count {
            interrupt::check().map_err(|_| Error::Interrupted)?;
            self.start()?;
        }
        at_once(&mut self.started[count..], true)?;
        self.active = count;
        self.check()
    }

    /// Removes the instances that have ended, and all behind them: they are started again when they are needed.
    pub fn remove_ended(&mut self) {
        let first = self.started.iter_mut().position(|instance| instance.running.check().is_err());
        if let Some(first) = first {
            self.started.truncate(first);
            self.active = self.active.min(first);
        }
    }

    /// Returns where the running instances serve.
    pub fn servers(&self) -> Vec<SocketAddr> {
        self.started.iter().take(self.active).map(|instance| instance.server).collect()
    }

    /// Returns all processes of each running instance, its first one first.
    pub fn processes(&self) -> Vec<Vec<u32>> {
        self.started.iter().take(self.active).map(|instance| instance.running.processes()).collect()
    }

    /// Checks that all running instances are there.
    ///
    /// # Errors
    /// [`Error::Ended`] with the first that is not.
    pub fn check(&mut self) -> Result {
        self.started.iter_mut().take(self.active).try_for_each(|instance| instance.running.check())
    }

    /// Returns all processes of all instances, also of those that are paused, and those that supervise them.
    pub fn all_processes(&self) -> Vec<u32> {
        let of = |running: &dyn Running| {
            [running.processes(), running.supervisor().into_iter().collect()].concat()
        };
        self.started.iter().flat_map(|instance| of(instance.running.as_ref())).collect()
    }

    /// Checks that nothing else uses the ports of instances up to `count` that are not started yet.
    ///
    /// # Errors
    /// [`Error::PortInUse`]; [`Error::Template`] if there are too few ports.
    pub fn check_ports(&self, count: usize) -> Result {
        (self.started.len()..count)
            .try_for_each(|index| check_port(&self.spec.values(index, String::new())?).map(drop))
    }

    /// Checks that the memory holds `count` instances: as much for each as its limit, or as the first one has now. Does
    /// nothing if neither is known.
    ///
    /// # Errors
    /// [`Error::Memory`] with the arithmetic.
    pub fn check_memory(&self, count: usize) -> Result {
        let used = |instance: &Instance| {
            let of_processes =
                || process_memory::read(&instance.running.processes().into_iter().collect()).pss_bytes;
            instance.running.memory().or_else(of_processes).unwrap_or(0)
        };
        let measured = || self.started.first().map(used);
        let own = match &self.spec.kind {
            InstanceKind::Domain(domain) => domain.xml.memory(),
            InstanceKind::Process(_) | InstanceKind::Container(_) => self.spec.limits.memory,
        };
        let each = own.or_else(measured).filter(|&bytes| bytes > 0);
        if let (Some(each), Some(free)) = (each, memory::available()) {
            let ours: u64 = self.started.iter().map(used).sum();
            memory::check(free.saturating_add(ours), each, count)?;
        }
        Ok(())
    }

    /// Ends all instances. Returns what could not be ended or removed, in words.
    pub fn end(mut self) -> Option<String> {
        self.end_all();
        self.custody.take()?.end()
    }

    fn end_all(&mut self) {
        let mut left = mem::take(&mut self.started);
        let size = left.len().div_ceil(AT_ONCE).max(1);
        thread::scope(|scope| {
            while !left.is_empty() {
                let some = left.split_off(left.len().saturating_sub(size));
                // If no thread can be had, the function is dropped here, and they end with it.
                let _thread = thread::Builder::new().spawn_scoped(scope, move || drop(some));
            }
        });
    }

    /// Starts the next instance.
    fn start(&mut self) -> Result {
        self.spec.check()?;
        if let Some(safeguard) = self.spec.safeguard.as_ref().filter(|_| self.custody.is_none()) {
            self.custody = Some(Custody::begin(safeguard)?);
        }
        let index = self.started.len();
        let own = || format!("{}-{index}", std::process::id());
        let name = self.custody.as_ref().map_or_else(own, |custody| custody.name(index));
        let values = self.spec.values(index, format!("manycore-{name}"))?;
        let server = check_port(&values)?;
        let mut running = self.start_kind(&values)?;
        ready::make_ready(running.as_mut(), &self.spec, &values)?;
        self.started.push(Instance { server, running, is_paused: false });
        Ok(())
    }

    fn start_kind(&mut self, values: &InstanceValues) -> Result<Box<dyn Running>> {
        let start = Start { spec: &self.spec, values, custody: self.custody.as_mut() };
        Ok(match &self.spec.kind {
            InstanceKind::Process(command) => Box::new(process::ProcessInstance::start(command, start)?),
            InstanceKind::Container(spec) => Box::new(container::ContainerInstance::start(spec, &start)?),
            InstanceKind::Domain(spec) => Box::new(domain::DomainInstance::start(spec, &start)?),
        })
    }
}

/// Returns where an instance serves. A server that is there already would be measured in its place.
fn check_port(values: &InstanceValues) -> Result<SocketAddr> {
    let server = SocketAddr::new(values.address, values.port);
    if port::is_used(server) {
        return Err(Error::PortInUse { index: values.index, port: values.port });
    }
    Ok(server)
}

impl Drop for Instances {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Instance {
    fn set_paused(&mut self, paused: bool) -> Result {
        if paused {
            self.running.pause()?;
        } else {
            self.running.resume()?;
        }
        self.is_paused = paused;
        Ok(())
    }
}

/// Pauses or resumes those instances that are not as wanted.
fn at_once(instances: &mut [Instance], paused: bool) -> Result {
    let mut others: Vec<&mut Instance> =
        instances.iter_mut().filter(|instance| instance.is_paused != paused).collect();
    let size = others.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        let set = |some: &mut [&mut Instance]| some.iter_mut().try_for_each(|one| one.set_paused(paused));
        let start = |some| thread::Builder::new().spawn_scoped(scope, move || set(some));
        let threads: Vec<_> = others.chunks_mut(size).map(start).collect();
        let system = |source| Error::System { what: "cannot start a thread", source };
        // Nothing in it panics.
        threads.into_iter().try_for_each(|thread| thread.map_err(system)?.join().unwrap_or(Ok(())))
    })
}
