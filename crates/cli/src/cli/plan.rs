//! The verb that plans: who runs where.

use super::{Format, Source};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use manycore_placement::{Dialect, Memory, Policy, Reserve};
use std::path::PathBuf;

/// Say which CPUs and memory each worker gets, draw it, and write it in the words of other programs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore plan --workers 8 --place spread                   who runs where on this machine, and why
  manycore plan --workers 8 --svg plan.svg --format json     the map with the workers on it; the plan
  manycore plan --machine host7.machine --reserve 2 --exclusive      for another machine
  manycore plan --workers 8 --as openmp > place.sh           OMP_PLACES and the like, to be sourced
  docker run $(manycore plan --workers 8 --as docker --together) IMAGE
  manycore plan --workers 4 --as taskset | while read -r words; do $words ./worker & done

Placements: free, close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE, each optionally
+nosmt. --as writes a line for each worker where the program takes one place, and one line where all workers have
the same CPUs. What a program cannot be told stands in a comment.")]
pub struct Plan {
    #[command(flatten)]
    pub source: Source,
    /// How many workers there are [default: one for each CPU that the placement may use]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Where they run
    #[arg(long, value_name = "PLACE", default_value = "close")]
    pub place: Policy,
    /// CPUs that no worker gets: how many, or which: 2, cpus=0-1
    #[arg(long, value_name = "RESERVE", default_value = "0")]
    pub reserve: Reserve,
    /// Refuse a plan in which there is not a CPU for each worker
    #[arg(long)]
    pub exclusive: bool,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// In text, a line for each worker, however many there are
    #[arg(long)]
    pub all: bool,
    /// Print the plan in the words of another program instead
    #[arg(long = "as", value_name = "PROGRAM", value_parser = dialects(), conflicts_with_all = ["format", "all"])]
    pub dialect: Option<Dialect>,
    /// Where memory comes from, for --as: default, local, interleave, bind, interleave=LIST, bind=LIST
    #[arg(long, value_name = "MEMORY", default_value = "default", requires = "dialect")]
    pub memory: Memory,
    /// With --as: one place for all workers together, such as one container, instead of one for each
    #[arg(long, requires = "dialect")]
    pub together: bool,
    /// Also draw the machine with the workers on it
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn dialects() -> impl TypedValueParser<Value = Dialect> {
    let value = |dialect: Dialect| PossibleValue::new(dialect.name()).help(about(dialect));
    let named = |name: String| Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
    PossibleValuesParser::new(Dialect::ALL.map(value))
        .try_map(move |name| named(name).ok_or("not a program that --as knows"))
}

/// What `--as` prints.
const fn about(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Taskset => "words before a command: its CPUs",
        Dialect::Numactl => "words before a command: its CPUs and memory",
        Dialect::Systemd => "a drop-in for a service",
        Dialect::Docker => "options of docker run",
        Dialect::Podman => "options of podman run",
        Dialect::Kubernetes => "the kubelet's configuration and a pod, as near as they come",
        Dialect::Slurm => "words before a command: a task for each worker",
        Dialect::OpenMp => "environment of a program whose threads are the workers",
        Dialect::Libvirt => "parts of a domain whose virtual CPUs are the workers",
    }
}
