//! `manycore density`: how many instances of a service fit while the latency of the first one is within a bound.

use crate::{
    cli::{ContainerProgram, DensityArgs, KindArgs, LoadHostArgs},
    failure::{Failure, Outcome},
    measuring::Run,
    quoted_command, source,
};
use manycore_density::{
    Error,
    clients::ClientLoad,
    hosts::LoadHosts,
    instances::{
        ContainerEngine, ContainerNetwork, ContainerSpec, DomainSpec, DomainTemplate, InstanceKind,
        InstanceLimits, Readiness, Safeguard, ServiceSpec,
    },
    load::{InstanceLoad, SliceTimes},
    options::{DensityOptions, DensityVariant},
    session,
    template::CommandTemplate,
};
use manycore_linux::{clock, input_file};
use manycore_load::Template;
use manycore_placement::{Policy, Reserve};
use manycore_remote as remote;
use manycore_render::terminal::Terminal;
use manycore_study::format_command;
use manycore_topology::{CpuSet, Machine};

/// Largest number of instances for each usable CPU, unless the user gives another one.
const MOST_PER_CPU: usize = 16;

/// Largest size of the XML of a virtual machine, in bytes.
const MAX_XML: u64 = 1 << 20;

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &DensityArgs, terminal: Terminal) -> Outcome {
    let machine = source::live()?;
    let options = options(args, &machine)?;
    let longest = options.longest().as_secs_f64();
    let mut run = Run::begin("density", &args.results, terminal, Some(longest))?;
    let measured = session::run(machine, &options, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}

fn options(args: &DensityArgs, machine: &Machine) -> Outcome<DensityOptions> {
    // The command line has it, or the file.
    let load = args.load.as_ref().ok_or_else(|| Failure::input("--load is needed"))?;
    let (kind, subject) = kind(args)?;
    let most = args.max.map_or(MOST_PER_CPU * machine.usable().len().max(1), |most| most as usize);
    // Those of other hosts are no CPUs of this machine.
    let load_cpus = args.load_cpus.as_ref().filter(|_| args.hosts.load_host.is_empty());
    let variants = match args.variant.as_slice() {
        [] => vec![DensityVariant { description: String::new(), ..variant("free", machine, load_cpus)? }],
        given => given.iter().map(|text| variant(text, machine, load_cpus)).collect::<Outcome<_>>()?,
    };
    if most < args.bound.first_count() {
        return Err(Failure::input("--max 1: a bound relative to a lone instance needs at least --max 2"));
    }
    check_ports(args.ports, most * variants.len())?;
    if let Some(cpus) = load_cpus.filter(|cpus| !cpus.is_subset(&machine.usable())) {
        return Err(Failure::input(format!(
            "--load-cpus {cpus}: only CPUs {} can be used here",
            machine.usable()
        )));
    }
    let (load, request) = load_of(args, load)?;
    Ok(DensityOptions {
        service: ServiceSpec {
            kind,
            address: args.address,
            first_port: args.ports,
            limits: InstanceLimits { cpus: args.cpu_limit, memory: args.memory_limit },
            places: Vec::new(),
            ready: match helper(args.ready.as_deref())? {
                Some(command) => Readiness::Command(command),
                None => Readiness::Port,
            },
            ready_limit: args.ready_limit,
            prepare: helper(args.prepare.as_deref())?,
            safeguard: Some(Safeguard::own()),
        },
        subject,
        variants,
        load,
        request,
        load_cpus: args.load_cpus.clone().unwrap_or_default(),
        rate: args.rate,
        bound: args.bound,
        most,
        may_reduce: args.max.is_none(),
        pairs: args.pairs as usize,
        times: SliceTimes { length: args.slice, settle: args.settle },
        seed: args.seed.unwrap_or_else(clock::now_ns),
    })
}

/// Returns what an instance is, and how the record calls it.
fn kind(args: &DensityArgs) -> Outcome<(InstanceKind, String)> {
    let words = || args.service.as_deref().map_or(Ok(Vec::new()), quoted_command::split);
    let KindArgs { container, engine, run_options, publish, domain, connect } = &args.kind;
    if let Some(path) = domain {
        let text = String::from_utf8(input_file::read(path, MAX_XML)?)
            .map_err(|_| Failure::input(format!("{}: it is no UTF-8 text", path.display())))?;
        let spec = DomainSpec { uri: connect.clone(), xml: DomainTemplate::new(&text)? };
        return Ok((InstanceKind::Domain(spec), format!("virtual machine {}", path.display())));
    }
    let Some(image) = container else {
        let words = words()?;
        return Ok((InstanceKind::Process(CommandTemplate::new(words.clone())?), format_command(&words)));
    };
    let spec = ContainerSpec {
        engine: match engine {
            ContainerProgram::Podman => ContainerEngine::Podman,
            ContainerProgram::Docker => ContainerEngine::Docker,
        },
        image: image.clone(),
        options: CommandTemplate::arguments(
            run_options.as_deref().map_or(Ok(Vec::new()), quoted_command::split)?,
        )?,
        command: CommandTemplate::arguments(words()?)?,
        network: publish.map_or(ContainerNetwork::Host, ContainerNetwork::Publish),
    };
    let subject = format!("container {image} {}", spec.command);
    Ok((InstanceKind::Container(spec), subject.trim_end().to_owned()))
}

/// Returns a command that is run for each instance.
fn helper(line: Option<&str>) -> Outcome<Option<CommandTemplate>> {
    line.map(|line| Ok(CommandTemplate::helper(quoted_command::split(line)?)?)).transpose()
}

fn check_ports(first: u16, count: usize) -> Outcome {
    let last = usize::from(first) + count - 1;
    if last > usize::from(u16::MAX) {
        return Err(Failure::input(format!(
            "{count} instances need the ports {first} to {last}, but ports end with 65535: choose others with --ports, or a \
             smaller --max"
        )));
    }
    Ok(())
}

/// Returns the load that a text names, and its request.
fn load_of(args: &DensityArgs, text: &str) -> Outcome<(InstanceLoad, String)> {
    let connections = args.connections as usize;
    let generator = |template| -> Outcome<_> {
        Ok(InstanceLoad::Generator {
            template,
            connections,
            hosts: hosts(args, Some(&args.hosts.load_program))?,
        })
    };
    if let Some(words) = text.strip_prefix("redis:") {
        let words = quoted_command::split(words)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return Ok((generator(Template::redis(&words, args.random)?)?, words.join(" ")));
    }
    if let Some(path) = text.strip_prefix("http:") {
        return Ok((generator(Template::http("localhost", path, args.random)?)?, format!("GET {path}")));
    }
    let load = ClientLoad::new(quoted_command::split(text)?, args.metric.clone())?;
    Ok((InstanceLoad::Clients(load.on(hosts(args, None)?)), text.to_owned()))
}

/// Connects to the hosts of the loads.
fn hosts(args: &DensityArgs, generator: Option<&str>) -> Outcome<LoadHosts> {
    let LoadHostArgs { load_host, ssh, .. } = &args.hosts;
    let hosts = LoadHosts::open(load_host, &quoted_command::split(ssh)?, generator);
    let hosts = hosts.map_err(|error| match error {
        Error::Remote(remote::Error::MissingThere { .. }) => {
            Failure::missing(format!("{error}: install manycore there, or name it with --load-program"))
        }
        error => error.into(),
    })?;
    hosts.check_address(args.address)?;
    Ok(hosts)
}

/// Returns the variant that `PLACE` or `NAME=PLACE` describes.
fn variant(text: &str, machine: &Machine, load_cpus: Option<&CpuSet>) -> Outcome<DensityVariant> {
    let text = text.trim();
    let known = |text: &str| {
        text.parse::<Policy>().map_err(|error| Failure::input(format!("--variant {text}: {error}")))
    };
    let (name, place) = match text.split_once('=') {
        Some((name, place)) if text.parse::<Policy>().is_err() => (Some(name.to_owned()), place),
        _ => (None, text),
    };
    let place = place.strip_prefix("place=").unwrap_or(place);
    let policy = known(place)?;
    let places = places(&policy, machine, load_cpus)?;
    Ok(DensityVariant {
        name: name.filter(|name| name != "place"),
        description: format!("place={place}"),
        places,
    })
}

/// Returns the CPUs of as many workers as the policy gives CPUs of their own, without those of the loads.
fn places(policy: &Policy, machine: &Machine, load_cpus: Option<&CpuSet>) -> Outcome<Vec<CpuSet>> {
    let reserve = load_cpus.map_or(Reserve::Nothing, |cpus| Reserve::Cpus(cpus.clone()));
    if policy.to_string() == "free" {
        let left: CpuSet = machine
            .usable()
            .iter()
            .filter(|cpu| load_cpus.is_some_and(|load| !load.contains(*cpu)))
            .collect();
        return match load_cpus {
            Some(cpus) if left.is_empty() => {
                Err(Failure::input(format!("--load-cpus {cpus} leaves no CPU for the instances")))
            }
            Some(_) => Ok(vec![left]),
            None => Ok(Vec::new()),
        };
    }
    let workers = policy.capacity(machine, &reserve).map_err(Failure::input)?;
    let plan = policy.plan(machine, workers, &reserve).map_err(Failure::input)?;
    Ok(plan.workers.into_iter().map(|worker| worker.cpus).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;

    #[test]
    fn a_variant_is_a_placement_with_or_without_a_name() {
        let machine = SyntheticMachine::guest().record().machine;
        let of = |text: &str| {
            let variant = variant(text, &machine, None).unwrap();
            (variant.name, variant.description, variant.places.len())
        };
        assert_eq!(of("free"), (None, "place=free".to_owned(), 0));
        assert_eq!(of("tight=place=cpus=0"), (Some("tight".to_owned()), "place=cpus=0".to_owned(), 1));
        assert_eq!(of("place=close"), (None, "place=close".to_owned(), machine.usable().len()));
        assert_eq!(of("cpus=0").0, None);
        let wrong = variant("x=nowhere", &machine, None).unwrap_err();
        assert!(wrong.message().contains("--variant nowhere"), "{wrong:?}");
    }

    #[test]
    fn ports_end_with_the_last_one() {
        check_ports(65_500, 36).unwrap();
        let wrong = check_ports(65_500, 37).unwrap_err();
        assert!(wrong.message().contains("the ports 65500 to 65536"), "{wrong:?}");
    }
}
