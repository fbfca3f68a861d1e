//! The subcommand `density`.

use super::{
    Results,
    option_file::PRESETS,
    value::{duration, share, size},
};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use manycore_density::options::Rate;
use manycore_experiment::{metric::MetricReader, tail_bound::TailBound};
use manycore_load::ArrivalPattern;
use manycore_remote::RemoteHost;
use manycore_topology::CpuSet;
use std::{net::IpAddr, path::PathBuf, time::Duration};

/// How many instances of a service fit?
///
/// Starts instances of a service, loads each of them, and searches for the largest number at which the latency of the first
/// one is within a bound.
#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  manycore density --service 'redis-server --port {port} --save \"\"' --load 'redis:GET key:{random}' --max 32
  manycore density --service 'redis-server --port {port} --save \"\"' --load 'redis:GET key:{random}' --rate 2000/s \\
      --cpu-limit 0.2 --memory-limit 64M    each in a control group with limits (as root)
  manycore density --service 'python3 -m http.server --bind {address} {port}' --load http:/ --bound 'p99 < 20ms'
  manycore density --service './server --port {port}' --load 'wrk2 -t1 -c8 -d5s -R500 --latency http://{address}:{port}/'
  manycore density --service './server --port {port}' --load http:/ --variant free --variant close    which placement holds more
  manycore density ... --variant base= --variant tuned=close,memory=bind,irq:eth0=local,qos:others=30%    before and after
  manycore density --container docker.io/library/redis --publish 6379 --cpu-limit 2 --load 'redis:GET key:{random}'    containers
  manycore density --service 'redis-server --port {port} --bind {address} --protected-mode no' --address 192.0.2.1 --load 'redis:GET key:{random}' \
      --load-host gen1 --load-host gen2    loads on other hosts, by ssh
  manycore density --preset redis-document --max 8    the client of the published measurement: a closed loop
  manycore density host.toml    the same options from a file

In commands, {port}, {address}, {index}, {cpus} and {name} stand for the instance's own ({name} not in --load). --load redis:WORDS sends a redis command, \
http:PATH a GET request: in an open loop, at a fixed rate with Poisson arrivals (or --arrivals constant), and a latency counts from the intended start. \
{random} in them is a random number. Any other --load is a command that is started for each instance, and whose output is \
read as by compare --metric; closed-loop clients such as redis-benchmark hide the time that requests wait.

A bound is FIGURE < LIMIT: mean or pN, and +N% (over a lone instance, which is measured again in each pair) or a time. Each \
count is measured until an interval shows on which side of the bound it is. The answer is the largest number that fits, with \
an interval. A count at which an instance or a request fails twice is above the bound.

Items of a --variant: a placement (free, close, spread, cpus=LIST, ...), memory=bind, env:NAME=VALUE and settings of the machine \
(thp=never, set:FILE=VALUE) as for compare; irq:DEVICE=WHERE for its interrupts (CPUs, a placement, local, or beside the \
instances); observed:weight=N, the CPU weight of the first instance (default 100), and weight=N, that of the others; \
qos:others=30%, the memory bandwidth of all others together; vm=plan, virtual machines are planned as by vm plan.

A file has the options as keys of TOML: service = \"...\", max = 32. Options of the command line have precedence; those of --variant are added. \
Ctrl-C ends at once and saves the results so far."
)]
pub struct DensityArgs {
    /// Read options from this TOML file
    #[arg(value_name = "SPEC.TOML")]
    pub spec: Option<PathBuf>,
    /// Use the instances and the load of the published measurement
    #[arg(long, value_name = "NAME", value_parser = presets(), conflicts_with = "spec")]
    pub preset: Option<String>,
    /// Command of an instance, with {port}; started without a shell. With --container, its command in the container
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["spec", "preset", "container", "domain_xml"])]
    pub service: Option<String>,
    #[command(flatten)]
    pub kind: KindArgs,
    /// Load of an instance: redis:COMMAND, `http:PATH`, or the command of a client with {port}
    #[arg(long, value_name = "LOAD", required_unless_present_any = ["spec", "preset"])]
    pub load: Option<String>,
    /// Reader of a client's output [default: by its name]
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<MetricReader>,
    /// Bound of the latency of the first instance
    #[arg(long, value_name = "BOUND", default_value = "p99 < +10%")]
    pub bound: TailBound,
    /// Largest number of instances to measure [default: 16 for each usable CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub max: Option<u32>,
    /// Requests to each instance: 500/s, or a share of what a lone one serves [default: 60%]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// CPUs that an instance may use, such as 0.5. Needs control groups
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    pub cpu_limit: Option<f64>,
    /// Memory that an instance may use. Needs control groups
    #[arg(long, value_name = "MEMORY", value_parser = size)]
    pub memory_limit: Option<u64>,
    /// What to compare: [NAME=]ITEM,... such as close,memory=bind; may be repeated
    #[arg(long, value_name = "VARIANT")]
    pub variant: Vec<String>,
    /// CPUs of the loads, which instances do not get. With several, the load of the first instance has the first one alone.
    /// With --load-host, they are CPUs of that host
    #[arg(long, value_name = "LIST")]
    pub load_cpus: Option<CpuSet>,
    #[command(flatten)]
    pub hosts: LoadHostArgs,
    /// Address on which instances serve
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Port of the first instance; each further one has the next
    #[arg(long, value_name = "PORT", default_value_t = 7100, value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: u16,
    /// An instance is ready when this command succeeds [default: when it accepts connections]
    #[arg(long, value_name = "COMMAND")]
    pub ready: Option<String>,
    /// Time that an instance may take until it is ready
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub ready_limit: Duration,
    /// Run this command once for each instance that is ready: it loads the data
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Option<String>,
    /// Maximum pairs of slices of a variant
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pairs: u32,
    /// Length of a slice
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub slice: Duration,
    /// Time before each slice, under the same load, that does not count
    #[arg(long, value_name = "DURATION", default_value = "300ms", value_parser = duration)]
    pub settle: Duration,
    /// Seed of all random orders [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// Loads of the generator of this program.
#[derive(Clone, Copy, Debug, Args)]
pub struct GeneratorArgs {
    /// Connections to each instance
    #[arg(long, value_name = "N", default_value_t = Self::default().connections, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Requests that a connection has at a time; with 1, it waits for each reply
    #[arg(long, value_name = "N", default_value_t = Self::default().pipeline, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pipeline: u32,
    /// How requests are distributed in time
    #[arg(long, value_enum, value_name = "PATTERN", default_value_t = Self::default().arrivals)]
    pub arrivals: ArrivalsArg,
    /// Random numbers are below this
    #[arg(long, value_name = "N", default_value_t = Self::default().random)]
    pub random: u64,
}

impl Default for GeneratorArgs {
    fn default() -> Self {
        Self { connections: 8, pipeline: 1, arrivals: ArrivalsArg::Poisson, random: 10_000_000 }
    }
}

/// How requests are distributed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsArg {
    /// At random, as from many users.
    Poisson,
    /// At equal distances.
    Constant,
}

impl From<ArrivalsArg> for ArrivalPattern {
    fn from(arg: ArrivalsArg) -> Self {
        match arg {
            ArrivalsArg::Poisson => Self::Poisson,
            ArrivalsArg::Constant => Self::Constant,
        }
    }
}

/// Instances that are containers or virtual machines.
#[derive(Debug, Args)]
pub struct KindArgs {
    /// Instances are containers of this image
    #[arg(long, value_name = "IMAGE", conflicts_with = "domain_xml")]
    pub container: Option<String>,
    /// Program that runs containers
    #[arg(id = "container_engine", long = "engine", value_name = "ENGINE", value_enum,
        default_value_t = ContainerProgram::Podman, requires = "container")]
    pub engine: ContainerProgram,
    /// Options of 'podman run' before the image, such as '--tmpfs /data'
    #[arg(long, value_name = "OPTIONS", requires = "container", allow_hyphen_values = true)]
    pub run_options: Option<String>,
    /// Port on which the service in a container listens; it is published as {port} [default: the container has the network
    /// of the host]
    #[arg(long, value_name = "PORT", requires = "container", value_parser = clap::value_parser!(u16).range(1..))]
    pub publish: Option<u16>,
    /// Instances are virtual machines of libvirt with this XML, which has <name>{name}</name>
    #[arg(id = "domain_xml", long = "domain", value_name = "FILE", conflicts_with = "service")]
    pub domain: Option<PathBuf>,
    /// Connection to libvirt
    #[arg(
        id = "domain_connect",
        long = "connect",
        value_name = "URI",
        default_value = "qemu:///system",
        requires = "domain_xml"
    )]
    pub connect: String,
}

/// Other hosts on which loads run.
#[derive(Debug, Args)]
pub struct LoadHostArgs {
    /// Host on which the loads run, by ssh (user@host) or Slurm (slurm:NODE, or slurm); may be repeated. With several, the load
    /// of the first instance has the first host alone
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub load_host: Vec<RemoteHost>,
    /// Program manycore on the hosts of --load-host, for --load redis: and `http:`
    #[arg(long, value_name = "PATH", default_value = "manycore", requires = "load_host")]
    pub load_program: String,
    /// Program that connects to the hosts of --load-host, with its options, such as 'ssh -F FILE'
    #[arg(
        id = "load_ssh",
        long = "ssh",
        value_name = "COMMAND",
        default_value = "ssh",
        requires = "load_host"
    )]
    pub ssh: String,
}

/// A program that runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContainerProgram {
    /// Podman.
    Podman,
    /// Docker.
    Docker,
}

fn presets() -> PossibleValuesParser {
    PRESETS.map(|(name, _)| name).into()
}

/// Parses `500/s`, `500` or `60%`.
fn rate(text: &str) -> Result<Rate, String> {
    if text.trim_end().ends_with('%') {
        return share(text).map(Rate::ShareOfCapacity);
    }
    let number = text.trim().trim_end_matches("/s").trim().parse::<f64>().ok();
    number.filter(|rate| *rate > 0.0 && *rate <= 1e7).map(Rate::PerSecond).ok_or_else(|| {
        "expected requests per second such as 500/s, or a share of the capacity such as 60%".to_owned()
    })
}

/// Parses a number of CPUs above 0.
fn cpus(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|cpus| (0.01..=8192.0).contains(cpus));
    number.ok_or_else(|| "expected a number of CPUs from 0.01 such as 0.5 or 2".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_absolute_or_shares() {
        assert_eq!(
            [rate("500/s"), rate("500"), rate(" 2.5 /s")].map(Result::unwrap),
            [Rate::PerSecond(500.0), Rate::PerSecond(500.0), Rate::PerSecond(2.5)]
        );
        assert_eq!(rate("60%"), Ok(Rate::ShareOfCapacity(0.6)));
        for wrong in ["", "0", "-1/s", "100%", "fast", "inf", "nan/s", "1e9"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(cpus("0.2"), Ok(0.2));
        assert!(["0", "x", "-1", "nan", "1e9"].into_iter().all(|text| cpus(text).is_err()));
    }
}
