//! The subcommand `qos`.

use super::{
    Format, Results,
    value::{duration, interval, share as measured_share},
};
use clap::{ArgAction, Args, builder::NonEmptyStringValueParser};
use manycore_analysis::limits::LimitCheck;
use manycore_linux::targets::Target;
use manycore_qos::{
    request::{Bandwidth, CacheRequest, DomainSelector, LimitRequest, share},
    set::LimitTarget,
};
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// Limit memory bandwidth and cache of others
///
/// Limits the memory bandwidth and cache of noisy neighbours, and shows the limits in force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos show                                        what can be set, the groups, their owners and limits
  sudo manycore qos set --pid 812 --bandwidth 20%          a process and its descendants
  sudo manycore qos set --domain web1 --cache l3=25%       a virtual machine
  manycore qos watch                                       memory traffic of each group, every second
  sudo manycore qos clear --all                            undo all of it

What can be set depends on the hardware and the kernel: percent on Intel and Arm, MB/s on AMD (and on Intel where \
resctrl is mounted with mba_MBps). Minimum bandwidth, hard limits and priorities need openEuler on Arm.")]
pub struct Qos {
    #[command(subcommand)]
    pub subcommand: QosSubcommand,
}

/// What to do with limits.
#[derive(Debug, clap::Subcommand)]
pub enum QosSubcommand {
    Show(QosShow),
    Set(Box<QosSet>),
    Watch(QosWatch),
    Prove(QosProve),
    Clear(QosClear),
}

/// Which resctrl file system to use.
#[derive(Clone, Debug, Args)]
pub struct Resctrl {
    /// The mounted resctrl file system [default: its mount point, usually /sys/fs/resctrl]
    #[arg(long, value_name = "DIR")]
    pub resctrl: Option<PathBuf>,
}

/// Show what can be set, and the limits in force
///
/// Shows the groups with their owners, limits and usage.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos show
  manycore qos show --group qemu-3-web1          one group, with its tasks
  manycore qos show --format json | jq '.groups[] | {name, owner, schemata}'

Bytes are counted since resctrl was mounted; the kernels of openEuler report the current rate instead. \"unavailable\" \
means that the hardware has no reading. It does not mean 0.")]
pub struct QosShow {
    /// Show only this group ('/' is the default group)
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub group: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub resctrl: Resctrl,
}

/// Limit processes, a container, a domain, ...
///
/// Limits a target, in a group of its own, until `manycore qos clear` or `manycore undo`.
#[derive(Debug, Args)]
#[command(
    override_usage = "manycore qos set TARGET LIMIT... [OPTIONS]",
    after_help = "\
Examples:
  manycore qos set --pid 812 --bandwidth 20%                   a process, its threads and descendants
  manycore qos set --cgroup /batch.slice --bandwidth 2000MB/s --follow
  manycore qos set --container 4f2a --cache l3=4ways --on cache=0
  manycore qos set --unit nginx --min-bandwidth 30% --priority 7
  manycore qos set --domain web1 --bandwidth 50% --hardlimit on --on node=0-1
  manycore qos set --cpus 4-7 --cache l3code=0xff0             tasks on these CPUs that are in no group
  manycore qos set --group qemu-3-web1 --bandwidth 40%         an existing group, of any owner
  manycore qos set --pid 812 --bandwidth 55% --dry-run         show what would be written

All limits are checked before anything is written: a limit that this machine cannot set is an error. After writing, the \
values in force are read back, and every value that the kernel rounded, raised or ignored is reported. New threads and \
child processes inherit the group. With --follow, the command keeps running, also moves processes that enter the control \
group from elsewhere, and undoes everything when it ends. Where libvirt has made a group for a domain, the limits of \
that group are changed; where it has made several, choose one with --group.

Exit codes: 1 if the kernel accepted a limit without reporting an error but did not apply it; 2 if a value is out of \
range or the target does not exist; 3 if the machine has no such control."
)]
pub struct QosSet {
    /// Name of the new group [default: manycore-PID]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Keep running and move processes that enter the control group from elsewhere, until Ctrl-C or its end
    #[arg(long, conflicts_with_all = ["pid", "cpus", "group", "dry_run"])]
    pub follow: bool,
    /// Mount resctrl if it is not mounted
    #[arg(long, conflicts_with = "resctrl")]
    pub mount: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub resctrl: Resctrl,
    // Last: their headings would also be those of the options after them.
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The processes or CPUs that are limited.
#[derive(Debug, Args)]
#[command(next_help_heading = "Target, one of")]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// Processes and their descendants
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: Vec<u32>,
    /// A control group and all below it: its path as in /proc/PID/cgroup ('/' is every process), or its
    /// directory
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// A container, by its id or a prefix of the id
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,
    /// A running libvirt domain, by its name, id or UUID
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// A systemd unit; a name without a suffix is a service
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Tasks that run on these CPUs and are in no other group
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// An existing group ('/' is the default group)
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub group: Option<String>,
}

impl TargetArgs {
    /// Returns what is limited.
    pub fn limit_target(&self) -> LimitTarget {
        match (self.target(), &self.cpus) {
            (Some(target), _) => LimitTarget::Tasks(target),
            (None, Some(cpus)) => LimitTarget::Cpus(cpus.clone()),
            (None, None) => LimitTarget::Group(self.group.clone().unwrap_or_default()),
        }
    }

    /// Returns the target whose tasks are limited; absent for CPUs and groups.
    fn target(&self) -> Option<Target> {
        let named = |name: &Option<String>, of: fn(String) -> Target| name.clone().map(of);
        (!self.pid.is_empty())
            .then(|| Target::Pids(self.pid.clone()))
            .or_else(|| named(&self.cgroup, Target::Cgroup))
            .or_else(|| named(&self.container, Target::Container))
            .or_else(|| named(&self.domain, Target::Domain))
            .or_else(|| named(&self.unit, Target::Unit))
    }

    /// Returns the target as it is written on the command line.
    pub fn words(&self) -> String {
        match (self.target(), &self.cpus) {
            (Some(Target::Pids(pids)), _) => {
                format!("--pid {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            }
            (Some(Target::Cgroup(path)), _) => format!("--cgroup {path}"),
            (Some(Target::Container(id)), _) => format!("--container {id}"),
            (Some(Target::Domain(name)), _) => format!("--domain {name}"),
            (Some(Target::Unit(name)), _) => format!("--unit {name}"),
            (None, Some(cpus)) => format!("--cpus {cpus}"),
            (None, None) => format!("--group {}", self.group.as_deref().unwrap_or("/")),
        }
    }
}

/// The requested limits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Maximum memory bandwidth: 50%, or 2000MB/s if the kernel counts in MB/s; 100% removes the limit
    #[arg(long, value_name = "MOST")]
    pub bandwidth: Option<Bandwidth>,
    /// Minimum memory bandwidth under contention (openEuler)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_bandwidth: Option<u64>,
    /// Whether --bandwidth also applies while memory is idle (openEuler)
    #[arg(long, value_name = "on|off", action = ArgAction::Set, value_parser = super::value::on_or_off)]
    pub hardlimit: Option<bool>,
    /// Priority under memory contention: 0 to 7, 7 is served first; 3 is the default (openEuler)
    #[arg(long, value_name = "0..7")]
    pub priority: Option<u64>,
    /// Portion of a cache: l3=50%, l3=4ways, l3=0xff0, l2=...; with the mount option cdp also l3code=...,
    /// l3data=...
    #[arg(long, value_name = "CACHE=PORTION", action = ArgAction::Append, value_delimiter = ',')]
    pub cache: Vec<CacheRequest>,
    /// Set the limits only on these NUMA nodes or caches: node=0-1, cache=0
    #[arg(long, value_name = "WHERE")]
    pub on: Option<DomainSelector>,
}

impl LimitArgs {
    /// Returns the limits as a request, independent of the kernel's syntax.
    pub fn request(&self) -> LimitRequest {
        LimitRequest {
            bandwidth: self.bandwidth,
            min_bandwidth: self.min_bandwidth,
            hard_limit: self.hardlimit,
            priority: self.priority,
            caches: self.cache.clone(),
            on: self.on.clone(),
        }
    }
}

/// Watch memory traffic and cache of groups
///
/// Watches the memory traffic and cache occupancy of groups, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos watch                                      all groups, every second, redrawn on a terminal
  manycore qos watch --group qemu-3-web1 --group /        two groups; '/' is the default group
  manycore qos watch --interval 5s --count 12 >minute     lines for a pipe or a file, twelve readings
  manycore qos watch --history yesterday.jsonl            also stores each reading as a line of JSON
  manycore qos watch --format json | jq '.groups[] | {name, memory_bytes_per_second}'

Rates are bytes over the time between two readings, summed over nodes (caches); a sum with a missing part is not shown. \
A group that is new, or was removed and created again, has a rate from its second reading on. \"unavailable\" means that \
the hardware has no reading; it does not mean 0. Monitoring groups are included in their parent groups. In JSON, rates \
are in bytes per second, and null where there is none.")]
pub struct QosWatch {
    /// Show only this group; may be given several times, and the group may be created later
    #[arg(long = "group", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub groups: Vec<String>,
    /// Time between readings, at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Stop after N readings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Append each reading to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Output format; json prints one object per line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub resctrl: Resctrl,
}

/// Measure whether limits are enforced
///
/// Measures with a memory load whether limits are enforced on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos prove                              all that can be set here: maximum, minimum, priority
  manycore qos prove bandwidth --bandwidth 30%
  manycore qos prove min priority --node 1 --budget 2m

Worker processes read and write memory on the CPUs of one node, in groups that are created for the measurement and \
removed afterwards. bandwidth: the same CPUs with and without the limit. min and priority: one half of the CPUs with and \
without the preference, while the other half uses as much memory bandwidth as it can get; the slowdown that this \
contention causes is measured too. Pairs are interleaved and evaluated as 'compare' does, but HOLDS needs the 99.5 % \
interval; the record is saved.

Exit codes: 1 if a limit has no effect or the wrong one; 3 if nothing could be shown on this machine.")]
pub struct QosProve {
    /// What to check [default: all that can be set here]
    #[arg(value_name = "CHECK", value_parser = check)]
    pub checks: Vec<LimitCheck>,
    /// Limit of the bandwidth check: 30%, 2000MB/s
    /// [default: 10%, or a tenth of the rate measured without a limit]
    #[arg(long, value_name = "MOST")]
    pub bandwidth: Option<Bandwidth>,
    /// Minimum bandwidth of the min check
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "90%")]
    pub min_bandwidth: u64,
    /// Priority in the priority check; the competing group has priority 3
    #[arg(long, value_name = "0..7", default_value_t = 7, value_parser = clap::value_parser!(u64).range(0..=7))]
    pub priority: u64,
    /// Time to spend, divided equally among the checks, at least 1s for each [default: 15s for each]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
    /// NUMA node whose CPUs and memory are used [default: the first node with both]
    #[arg(long, value_name = "NODE")]
    pub node: Option<u32>,
    /// Equivalence margin, fixed before measuring: results that differ by no more than this are equivalent
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = measured_share)]
    pub equivalent: f64,
    /// Seed of all random orders [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
    #[command(flatten)]
    pub resctrl: Resctrl,
}

fn check(text: &str) -> Result<LimitCheck, String> {
    let found = LimitCheck::ALL.into_iter().find(|check| check.name() == text);
    found.ok_or_else(|| "expected bandwidth, min or priority".to_owned())
}

/// Undo limits that qos set has set
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos clear manycore-812      undo changes to this group; a group that manycore made is removed
  manycore qos clear --all             all groups that manycore made, and all limits that it changed

Tasks return to the groups that they were in. Settings that another program has changed since are left unchanged and \
reported. `manycore undo` does the same for everything that manycore has changed.")]
pub struct QosClear {
    /// Names of the groups
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,
    /// All groups
    #[arg(long)]
    pub all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
