//! `manycore density`: how many instances of a service fit while the latency of the first one is within a bound.

mod hook;
mod variant;

use crate::{
    cli::{ContainerProgram, DensityArgs, GeneratorArgs, KindArgs, LoadHostArgs},
    failure::{Failure, Outcome},
    measuring::Run,
    output, quoted_command, source,
};
use manycore_density::{
    Error,
    clients::ClientLoad,
    hosts::LoadHosts,
    instances::{
        ContainerEngine, ContainerNetwork, ContainerSpec, DomainSpec, DomainTemplate, InstanceKind,
        InstanceLimits, InstanceTuning, Readiness, Safeguard, ServiceSpec,
    },
    load::{InstanceLoad, SliceTimes},
    options::{DensityOptions, DensityVariant, Rate},
    session,
    template::CommandTemplate,
};
use manycore_linux::{clock, input_file};
use manycore_load::Template;
use manycore_remote as remote;
use manycore_render::terminal::Terminal;
use manycore_study::format_command;
use manycore_topology::Machine;
use std::collections::BTreeSet;
use variant::VariantContext;

/// Largest number of instances for each usable CPU, unless the user gives another one.
const MOST_PER_CPU: usize = 16;

/// Largest size of the XML of a virtual machine, in bytes.
const MAX_XML: u64 = 1 << 20;

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &DensityArgs, terminal: Terminal) -> Outcome {
    let machine = source::live()?;
    let (options, notes) = options(args, &machine)?;
    let longest = options.longest().map(|longest| longest.as_secs_f64());
    let mut run = Run::begin("density", &args.results, terminal, longest)?;
    for note in notes {
        output::note(&note);
    }
    let measured = session::run(machine, &options, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}

/// Returns the options, and what the user should know about them.
fn options(args: &DensityArgs, machine: &Machine) -> Outcome<(DensityOptions, BTreeSet<String>)> {
    // The command line has it, or the file.
    let load = args.load.as_ref().ok_or_else(|| Failure::input("--load is needed"))?;
    let (kind, subject) = kind(args)?;
    let most = args.max.map_or(MOST_PER_CPU * machine.usable().len().max(1), |most| most as usize);
    // Those of other hosts are no CPUs of this machine.
    let load_cpus = args.load_cpus.as_ref().filter(|_| args.hosts.load_host.is_empty());
    let given: Vec<&str> = args.variant.iter().map(String::as_str).collect();
    let given = if given.is_empty() { vec![""] } else { given };
    let domain = match &kind {
        InstanceKind::Domain(spec) => Some(&spec.xml),
        InstanceKind::Process(_) | InstanceKind::Container(_) => None,
    };
    let width = domain.map_or_else(|| args.cpu_limit.unwrap_or(1.0).ceil() as usize, DomainTemplate::vcpus);
    let context = VariantContext { machine, load_cpus, domain, width };
    let variants = given.into_iter().map(|text| variant::variant(text, context));
    let (variants, notes): (Vec<_>, Vec<_>) = variants.collect::<Outcome<Vec<_>>>()?.into_iter().unzip();
    check_names(&variants)?;
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
    let options = DensityOptions {
        service: ServiceSpec {
            kind,
            address: args.address,
            first_port: args.ports,
            limits: InstanceLimits { cpus: args.cpu_limit, memory: args.memory_limit },
            tuning: InstanceTuning::default(),
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
        rate: args.rate.unwrap_or(Rate::ShareOfCapacity(0.6)),
        bound: args.bound,
        most,
        may_reduce: args.max.is_none(),
        pairs: args.pairs as usize,
        times: SliceTimes { length: args.slice, settle: args.settle },
        seed: args.seed.unwrap_or_else(clock::now_ns),
    };
    Ok((options, notes.into_iter().flatten().collect()))
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

/// Refuses variants that reports could not tell apart, and one that is given twice.
fn check_names(variants: &[DensityVariant]) -> Outcome {
    let mut names = BTreeSet::new();
    let twice = variants
        .iter()
        .find(|variant| !names.insert(variant.name.as_deref().unwrap_or(&variant.description)));
    match twice {
        None => Ok(()),
        Some(DensityVariant { name: Some(name), .. }) => {
            Err(Failure::input(format!("two variants are called {name}: give each a name of its own")))
        }
        Some(DensityVariant { description, .. }) => {
            Err(Failure::input(format!("--variant {description} is there twice")))
        }
    }
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
    let GeneratorArgs { connections, pipeline, arrivals, random } = args.generator;
    let generator = |template| -> Outcome<_> {
        Ok(InstanceLoad::Generator {
            template,
            connections: connections as usize,
            pipeline: pipeline as usize,
            pattern: arrivals.into(),
            hosts: hosts(args, Some(&args.hosts.load_program))?,
        })
    };
    if let Some(words) = text.strip_prefix("redis:") {
        let words = quoted_command::split(words)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return Ok((generator(Template::redis(&words, random)?)?, words.join(" ")));
    }
    if let Some(path) = text.strip_prefix("http:") {
        return Ok((generator(Template::http("localhost", path, random)?)?, format!("GET {path}")));
    }
    check_no_generator(args)?;
    let load = ClientLoad::new(quoted_command::split(text)?, args.metric.clone())?;
    Ok((InstanceLoad::Clients(load.on(hosts(args, None)?)), text.to_owned()))
}

/// Refuses options of the load generator, which another client would not follow.
fn check_no_generator(args: &DensityArgs) -> Outcome {
    let usual = GeneratorArgs::default();
    let GeneratorArgs { connections, pipeline, arrivals, random } = args.generator;
    let given = [
        ("--rate", args.rate.is_some()),
        ("--connections", connections != usual.connections),
        ("--pipeline", pipeline != usual.pipeline),
        ("--arrivals", arrivals != usual.arrivals),
        ("--random", random != usual.random),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::input(format!(
            "{option} is for the loads redis:COMMAND and http:PATH; other clients have options of their own in --load"
        ))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_end_with_the_last_one() {
        check_ports(65_500, 36).unwrap();
        let wrong = check_ports(65_500, 37).unwrap_err();
        assert!(wrong.message().contains("the ports 65500 to 65536"), "{wrong:?}");
    }
}
