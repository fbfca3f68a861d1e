//! The subcommand `top`.

use super::{Format, value::interval};
use clap::{
    ArgGroup, Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use manycore_linux::targets::Target;
use manycore_top::snapshot::{Order, Part};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};

/// Watch CPUs, caches and tasks
///
/// Shows what each CPU, cluster, last-level cache and node does, which tasks run and which wait for a CPU, until `q` or
/// Ctrl-C.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("work").args(["pid", "cgroup", "container", "domain", "unit", "command"]).multiple(true),
    after_help = "\
Examples:
  manycore top                                       the machine and its tasks; ? shows the keys
  manycore top --unit nginx                          only the tasks of a service
  manycore top -- ./solver                           a command, to its end
  manycore top --once                                the last second as tables
  manycore top --interval 5s --show cpus             lines, as those of mpstat
  manycore top --interval 5s --show threads --sort wait --format csv >waits.csv
  manycore top --once --format json | jq '.findings'
  manycore top --record day.top                      keep it for later: --replay day.top, report day.top
  sudo manycore top --once --bpf --show latency      how long tasks wait after a wake-up
  manycore top --serve 127.0.0.1:9733                a web page, and metrics for Prometheus at /metrics

Tables are printed if standard output is no terminal, or with --once, --count, --format or --show. With --record, --show selects what is \
recorded, and only --once and --format print tables. Columns have the names of mpstat and \
pidstat. %wait is the time in which tasks could run but waited for a CPU (run delay); migr/s are changes of the CPU.

It reads /proc, /sys and, where there are any, counters of the CPUs, without privileges. What another user's processes hide, such as memory by node, \
needs root."
)]
pub struct Top {
    /// Print one interval and exit
    #[arg(long)]
    pub once: bool,
    /// Time between readings, 100ms or more
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Stop after N readings
    #[arg(long, value_name = "N", conflicts_with = "once", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// What is printed, and recorded by --record [default: system,units,processes,findings; for csv: processes]
    #[arg(long, value_name = "PART", value_parser = part_parser(), value_delimiter = ',')]
    pub show: Vec<Part>,
    /// Order of processes and threads, the largest first; of the view, the first one
    #[arg(long, value_enum, default_value_t = TopOrder::Cpu)]
    pub sort: TopOrder,
    /// Most processes, threads and other rows of a table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Output format; json prints one object per line [default: text]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Count latencies and migrations exactly, by programs in the kernel (BPF); needs root
    #[arg(long, conflicts_with = "replay")]
    pub bpf: bool,
    /// Record the samples in a new file; groups, interrupts and bandwidth only if --show has them
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Show a recording in place of the running system
    #[arg(long, value_name = "FILE", conflicts_with_all = ["work", "serve"])]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub serve: TopServe,
    #[command(flatten)]
    pub work: TopWork,
}

/// What other programs can read.
#[derive(Debug, Args)]
#[command(next_help_heading = "For other programs")]
pub struct TopServe {
    /// Serve a web page and metrics for Prometheus
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub serve: Option<String>,
    /// Serve clients that send the token in this file; needed if other hosts can reach the address
    #[arg(long, value_name = "FILE", requires = "serve")]
    pub token: Option<PathBuf>,
    /// Serve metrics of each CPU, too
    #[arg(long, requires = "serve")]
    pub per_cpu: bool,
}

/// The work that is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Only the tasks of")]
#[group(skip)]
pub struct TopWork {
    /// Processes and their descendants
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = super::value::process_id)]
    pub pid: Vec<u32>,
    /// A control group and all below it: its path as in /proc/PID/cgroup, or its directory
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// A container, by its id or a prefix of the id
    #[arg(long, value_name = "ID")]
    pub container: Vec<String>,
    /// A running libvirt domain, by its name, id or UUID
    #[arg(long, value_name = "NAME")]
    pub domain: Vec<String>,
    /// A systemd unit; a name without a suffix is a service
    #[arg(long, value_name = "NAME")]
    pub unit: Vec<String>,
    /// Run this command to its end
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Returns the parser of parts, which is also their help.
fn part_parser() -> impl TypedValueParser<Value = Part> {
    let values = Part::ALL.map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| Part::named(&name).ok_or("no such part"))
}

impl Top {
    /// Returns whether tables are asked for, and no view.
    pub fn is_plain(&self) -> bool {
        let is_shown = !self.show.is_empty() && self.record.is_none();
        self.once || self.count.is_some() || self.format.is_some() || is_shown
    }

    /// Returns whether nothing is printed without a terminal: the pictures are for a file or for other programs.
    pub fn is_only_for_others(&self) -> bool {
        let is_served = self.serve.serve.is_some() && self.show.is_empty() && self.count.is_none();
        !self.once && self.format.is_none() && (is_served || self.record.is_some())
    }
}

impl TopWork {
    /// Returns what is named, each with its name, without the command.
    pub fn targets(&self) -> Vec<(String, Target)> {
        let named = |kind: &'static str, names: &[String], of: fn(String) -> Target| -> Vec<_> {
            names.iter().map(|name| (kind, name.clone(), of(name.clone()))).collect()
        };
        let pids = self.pid.iter().map(|&pid| ("pid", format!("pid {pid}"), Target::Pids(vec![pid])));
        let mut all: Vec<(&str, String, Target)> = pids.collect();
        all.extend(named("cgroup", &self.cgroup, Target::Cgroup));
        all.extend(named("container", &self.container, Target::Container));
        all.extend(named("domain", &self.domain, Target::Domain));
        all.extend(named("unit", &self.unit, Target::Unit));
        let mut seen = BTreeSet::new();
        all.retain(|(kind, name, _)| seen.insert((*kind, name.clone())));
        // A unit and a domain may have the same name.
        let is_one = |name: &str| seen.iter().filter(|(_, other)| other == name).count() == 1;
        let shown = |kind, name: String| if is_one(&name) { name } else { format!("{kind} {name}") };
        all.into_iter().map(|(kind, name, target)| (shown(kind, name), target)).collect()
    }
}

/// Order of processes and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopOrder {
    /// Time on CPUs.
    Cpu,
    /// Time of waiting for a CPU.
    Wait,
    /// Changes of the CPU.
    Migrations,
    /// Context switches.
    Switches,
    /// Resident memory.
    Memory,
}

impl From<TopOrder> for Order {
    fn from(order: TopOrder) -> Self {
        match order {
            TopOrder::Cpu => Self::Cpu,
            TopOrder::Wait => Self::Wait,
            TopOrder::Migrations => Self::Migrations,
            TopOrder::Switches => Self::Switches,
            TopOrder::Memory => Self::Memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, Subcommand};
    use clap::Parser;

    #[test]
    fn names_of_what_is_watched_are_unique() {
        let words = "manycore top --pid 7 --pid 7 --unit web --domain web --unit db";
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let Subcommand::Top(top) = cli.subcommand else { panic!("{cli:?}") };
        let names: Vec<String> = top.work.targets().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["pid 7", "domain web", "unit web", "db"]);
    }
}
