//! What instances are: how they are started, limited, placed and prepared.

use super::tuning::InstanceTuning;
use crate::{
    Error, Result,
    template::{CommandTemplate, InstanceValues, check_names, names},
};
use manycore_control::{
    cleanup::Program,
    container::ContainerEngine,
    journal,
    measured_group::{MAX_CPUS, MIN_CPUS, WEIGHTS},
};
use manycore_linux::memory_policy::MemoryPolicy;
use manycore_text::xml;
use manycore_topology::CpuSet;
use std::{net::IpAddr, path::PathBuf, time::Duration};

/// How long an instance may take until it is ready, by default.
const READY: Duration = Duration::from_secs(30);

/// How instances are started, and what they get.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// What an instance is.
    pub kind: InstanceKind,
    /// The address on which all serve.
    pub address: IpAddr,
    /// The port of the first; each further one has the next.
    pub first_port: u16,
    /// Limits of each instance.
    pub limits: InstanceLimits,
    /// Their places, and which of them are favoured.
    pub tuning: InstanceTuning,
    /// What shows that an instance is ready.
    pub ready: Readiness,
    /// How long an instance may take until it is ready.
    pub ready_limit: Duration,
    /// A command that is run once when an instance is ready, to load its data.
    pub prepare: Option<CommandTemplate>,
    /// What ends the instances if this program cannot. Without it, processes are in no control group: those that have
    /// left their process group are not stopped and not ended; and there are no limits, containers and virtual machines.
    pub safeguard: Option<Safeguard>,
}

/// What an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceKind {
    /// A process, with all that it starts.
    Process(CommandTemplate),
    /// A container.
    Container(ContainerSpec),
    /// A virtual machine.
    Domain(DomainSpec),
}

impl InstanceKind {
    /// Whether something else may accept connections before the service does: the proxy of a published port, or the network
    /// of a virtual machine.
    pub(crate) fn may_have_proxy(&self) -> bool {
        match self {
            Self::Process(_) => false,
            Self::Container(spec) => matches!(spec.network, ContainerNetwork::Publish(_)),
            Self::Domain(_) => true,
        }
    }
}

/// How containers are started. They are called `{name}`, and are removed at the end with their anonymous volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// The program that manages them. Its daemon, if it has one, must run on this machine.
    pub engine: ContainerEngine,
    /// The image.
    pub image: String,
    /// Further options of `run`, before the image.
    pub options: CommandTemplate,
    /// The command in the container, after the image; that of the image if empty.
    pub command: CommandTemplate,
    /// How clients reach the service.
    pub network: ContainerNetwork,
}

/// How clients reach the service in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerNetwork {
    /// It has the network of the host, and serves on `{port}`.
    Host,
    /// It serves on this port, which is published as `{port}`.
    Publish(u16),
}

/// How virtual machines are started: transient ones of libvirt, with the name `{name}`. What serves in them must be
/// reachable at `{address}` and `{port}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSpec {
    /// The connection, such as `qemu:///system`.
    pub uri: String,
    /// The XML, with names in braces as in commands.
    pub xml: DomainTemplate,
}

/// The XML of a virtual machine, with what differs between instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainTemplate {
    text: String,
    memory: Option<u64>,
    vcpus: usize,
}

impl DomainTemplate {
    /// Takes the text of a file.
    ///
    /// # Errors
    /// [`Error::Template`] if it is no XML of a domain, a name in braces is unknown, the name of the domain is not `{name}`, by
    /// which domains are found at the end, or nothing else differs between instances, so that all would serve at one address.
    pub fn new(text: &str) -> Result<Self> {
        check_names(names(text).into_iter(), "the XML of the virtual machine")?;
        let wrong = |what: String| Error::Template(format!("the XML of the virtual machine: {what}"));
        let document = xml::parse(text).map_err(|error| wrong(error.to_string()))?;
        let root = document.root_element();
        if !xml::is_element(root, "domain") {
            return Err(wrong("its root element is not <domain>".to_owned()));
        }
        if xml::child(root, "name").map(xml::text_of).is_none_or(|name| name.trim() != "{name}") {
            return Err(wrong(
                "it needs <name>{name}</name>, so that each instance has a name of its own".to_owned(),
            ));
        }
        if !names(text).iter().any(|name| ["port", "address", "index"].contains(name)) {
            return Err(wrong(
                "it has no {port}, {address} or {index}: without them, all instances would serve at the same place"
                    .to_owned(),
            ));
        }
        let memory = xml::child(root, "memory").and_then(|memory| {
            xml::bytes(&xml::text_of(memory), memory.attribute("unit").unwrap_or_default())
        });
        let vcpus =
            xml::child(root, "vcpu").and_then(|vcpu| xml::text_of(vcpu).trim().parse().ok()).unwrap_or(1);
        Ok(Self { text: text.to_owned(), memory, vcpus })
    }

    /// Returns the bytes of memory that a virtual machine has; absent if that is not in the XML.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// Returns the number of virtual CPUs.
    pub fn vcpus(&self) -> usize {
        self.vcpus
    }

    /// Whether it has `{cpus}`. Otherwise instances ignore their places.
    pub fn has_cpus(&self) -> bool {
        names(&self.text).contains(&"cpus")
    }

    /// Returns the XML of an instance.
    pub fn text(&self, values: &InstanceValues) -> String {
        values.replace_in(&self.text)
    }
}

/// Limits of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InstanceLimits {
    /// CPU time per time: 0.5 is half of a CPU, 2 is two CPUs. In each 0.1 s it gets so much, and waits then.
    pub cpus: Option<f64>,
    /// Memory in bytes. If an instance needs more, the kernel kills processes in it.
    pub memory: Option<u64>,
}

impl InstanceLimits {
    /// Whether there is a limit.
    pub fn any(&self) -> bool {
        self.cpus.is_some() || self.memory.is_some()
    }
}

/// What shows that an instance is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It accepts connections on its port.
    #[default]
    Port,
    /// This command succeeds. It is run again until then.
    Command(CommandTemplate),
}

/// What ends instances if this program is killed: a journal that `manycore undo` can undo, and a cleanup process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Safeguard {
    /// The directory of journals. The cleanup process must find the same one.
    pub journals: PathBuf,
    /// The program of the cleanup process.
    pub cleanup: Program,
}

impl Safeguard {
    /// Returns that of the program `manycore`.
    pub fn own() -> Self {
        Self { journals: journal::folder(), cleanup: Program::own() }
    }
}

impl ServiceSpec {
    /// Describes processes without limits and places, that are ready when they accept connections.
    pub fn new(command: CommandTemplate, address: IpAddr, first_port: u16) -> Self {
        Self {
            kind: InstanceKind::Process(command),
            address,
            first_port,
            limits: InstanceLimits::default(),
            tuning: InstanceTuning::default(),
            ready: Readiness::Port,
            ready_limit: READY,
            prepare: None,
            safeguard: None,
        }
    }

    /// Checks what does not depend on the machine.
    ///
    /// # Errors
    /// [`Error::Limits`], [`Error::Template`].
    pub fn check(&self) -> Result {
        let limits = |what: &str| Err(Error::Limits(what.to_owned()));
        if self.limits.cpus.is_some_and(|cpus| !(MIN_CPUS..=MAX_CPUS).contains(&cpus)) {
            return Err(Error::Limits(format!("the limit of CPU time must be {MIN_CPUS} CPUs or more")));
        }
        if self.limits.memory == Some(0) {
            return limits("the limit of memory must be more than 0 bytes");
        }
        let tuning = &self.tuning;
        if tuning.places.iter().any(CpuSet::is_empty) {
            return limits("the place of an instance has no CPU");
        }
        let weights = [tuning.observed_weight, tuning.others_weight];
        if weights.into_iter().flatten().any(|weight| !WEIGHTS.contains(&weight)) {
            return limits("a weight must be a number from 1 to 10000");
        }
        if self.safeguard.is_none() && (self.needs_group() || !matches!(self.kind, InstanceKind::Process(_)))
        {
            return limits("limits, containers and virtual machines need a journal and a cleanup process");
        }
        let is_interleaved = |policy: &MemoryPolicy| matches!(policy, MemoryPolicy::Interleave(_));
        match &self.kind {
            InstanceKind::Domain(_) if self.limits.any() => limits(
                "the limits of a virtual machine belong in its XML: <memory>, and <cputune> with <quota>",
            ),
            InstanceKind::Domain(_) if tuning.has_weights() || !tuning.env.is_empty() => limits(
                "the weight of a virtual machine belongs in its XML: <cputune> with <shares>; and it has no environment",
            ),
            InstanceKind::Domain(_) if !tuning.memory.is_empty() => {
                limits("the memory policy of a virtual machine belongs in its XML: <numatune>")
            }
            InstanceKind::Container(_) if tuning.memory.iter().any(is_interleaved) => {
                limits("the memory of a container can be bound to nodes, but not interleaved over them")
            }
            InstanceKind::Container(container) => container.check(),
            InstanceKind::Process(_) | InstanceKind::Domain(_) => Ok(()),
        }
    }

    /// Whether the instances need control groups with limits or weights.
    pub(super) fn needs_group(&self) -> bool {
        self.limits.any() || self.tuning.has_weights()
    }

    /// Returns what is an instance's own.
    ///
    /// # Errors
    /// [`Error::Template`] if there is no port left for it.
    pub fn values(&self, index: usize, name: String) -> Result<InstanceValues> {
        let first = self.first_port;
        let port = u16::try_from(usize::from(first) + index).map_err(|_| {
            let what = format!("instance {index} has no port: ports begin with {first} and end with 65535");
            Error::Template(what)
        })?;
        let cpus = self.tuning.place(index).map(CpuSet::to_string).unwrap_or_default();
        Ok(InstanceValues { index, port, address: self.address, cpus, name })
    }
}

impl ContainerSpec {
    fn check(&self) -> Result {
        let names_port = self.options.has("port") || self.command.has("port");
        let what = match self.network {
            _ if self.image.is_empty() || self.image.starts_with('-') => "the containers have no image",
            ContainerNetwork::Host if !names_port => {
                "the options and the command of the containers have no {port}: in the network of the host, all would serve \
                 on the same port. Publish a port of the container with --publish, or give it {port} with --service or \
                 --run-options"
            }
            _ => return Ok(()),
        };
        Err(Error::Template(what.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> CommandTemplate {
        CommandTemplate::arguments(text.split_whitespace().map(str::to_owned).collect()).unwrap()
    }

    fn spec() -> ServiceSpec {
        ServiceSpec::new(words("server {port}"), "127.0.0.1".parse().unwrap(), 65_530)
    }

    fn safe() -> ServiceSpec {
        ServiceSpec { safeguard: Some(Safeguard::own()), ..spec() }
    }

    #[test]
    fn instances_beyond_the_last_port_are_refused() {
        assert_eq!(spec().values(5, String::new()).unwrap().port, 65_535);
        assert!(spec().values(6, String::new()).unwrap_err().to_string().contains("end with 65535"));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let said = |spec: ServiceSpec| spec.check().unwrap_err().to_string();
        assert!(spec().check().is_ok() && safe().check().is_ok());
        let limited = |cpus, memory| ServiceSpec { limits: InstanceLimits { cpus, memory }, ..safe() };
        assert!(limited(Some(0.2), Some(1 << 20)).check().is_ok());
        for cpus in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(said(limited(Some(cpus), None)).contains("0.01 CPUs or more"));
        }
        assert!(said(limited(None, Some(0))).contains("more than 0"));
        let tuned = |tuning| ServiceSpec { tuning, ..safe() };
        let nowhere = InstanceTuning { places: vec![CpuSet::default()], ..InstanceTuning::default() };
        assert!(said(tuned(nowhere)).contains("no CPU"));
        for weight in [0, 10_001] {
            let tuning = InstanceTuning { others_weight: Some(weight), ..InstanceTuning::default() };
            assert!(said(tuned(tuning)).contains("from 1 to 10000"));
        }
        let unsafe_limits = ServiceSpec { safeguard: None, ..limited(Some(1.0), None) };
        assert!(said(unsafe_limits).contains("journal"));
        let container = |network, image: &str, command| {
            let kind = InstanceKind::Container(ContainerSpec {
                engine: ContainerEngine::Podman,
                image: image.to_owned(),
                options: words(""),
                command: words(command),
                network,
            });
            ServiceSpec { kind, ..safe() }
        };
        assert!(container(ContainerNetwork::Host, "redis", "redis-server --port {port}").check().is_ok());
        assert!(container(ContainerNetwork::Publish(6379), "redis", "").check().is_ok());
        assert!(said(container(ContainerNetwork::Host, "redis", "")).contains("no {port}"));
        assert!(said(container(ContainerNetwork::Publish(1), "--privileged", "")).contains("no image"));
        let xml = DomainTemplate::new("<domain><name>{name}</name><title>{port}</title></domain>").unwrap();
        let kind = InstanceKind::Domain(DomainSpec { uri: "test:///default".to_owned(), xml });
        assert!(said(ServiceSpec { kind, ..limited(Some(1.0), None) }).contains("<cputune>"));
    }

    #[test]
    fn the_memory_of_a_domain_has_a_unit() {
        let of = |rest: &str| {
            let xml = format!("<domain><name>{{name}}</name><title>{{port}}</title>{rest}</domain>");
            let template = DomainTemplate::new(&xml).unwrap();
            (template.memory(), template.vcpus())
        };
        assert_eq!(of(""), (None, 1));
        assert_eq!(of("<memory>2048</memory><vcpu placement='static'> 4 </vcpu>"), (Some(2 << 20), 4));
        assert_eq!(of("<memory unit='GiB'>3</memory>").0, Some(3 << 30));
        assert_eq!(of("<memory unit='parsec'>3</memory>").0, None);
    }

    #[test]
    fn the_xml_of_a_domain_has_its_name() {
        let text = "<domain type='qemu'><name>{name}</name><title>{index}</title></domain>";
        let values = spec().values(2, "manycore-1-2".to_owned()).unwrap();
        let template = DomainTemplate::new(text).unwrap();
        assert_eq!(
            template.text(&values),
            "<domain type='qemu'><name>manycore-1-2</name><title>2</title></domain>"
        );
        let said = |text| DomainTemplate::new(text).unwrap_err().to_string();
        assert!(said("<domain><name>web</name></domain>").contains("<name>{name}</name>"));
        assert!(
            said("<domain><name>{name}</name><vcpu cpuset='{cpus}'>1</vcpu></domain>").contains("no {port}")
        );
        assert!(said("<network><name>{name}</name></network>").contains("not <domain>"));
        assert!(said("<domain>").contains("not XML"));
        assert!(said("<domain><name>{name}</name><x>{prot}</x></domain>").contains("{prot}"));
    }
}
