//! The verb `qos`.

use super::{Format, Results, audit::interval, measure::share as measured_share};
use clap::{ArgAction, Args, Subcommand, builder::NonEmptyStringValueParser};
use manycore_analysis::limits::LimitCheck;
use manycore_linux::targets::Target;
use manycore_qos::wish::{Bandwidth, CacheWish, On, Wish, share};
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// Hold noisy neighbours within limits of memory bandwidth and cache, and show what is in force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos show                                        what can be set, whose groups there are, their limits
  sudo manycore qos set --pid 812 --bandwidth 20%          a process and all below it
  sudo manycore qos set --domain web1 --cache l3=25%       a virtual machine
  manycore qos watch                                       who moves how much to and from memory, each second
  sudo manycore qos clear --all                            all as before

What can be set depends on the hardware and the kernel: percent on Intel and Arm, MB/s on AMD (and on Intel where
resctrl is mounted with mba_MBps); least bandwidth, hard limits and priorities on openEuler for Arm.")]
pub struct Qos {
    #[command(subcommand)]
    pub verb: QosVerb,
}

/// What to do with limits.
#[derive(Debug, Subcommand)]
pub enum QosVerb {
    Show(QosShow),
    Set(Box<QosSet>),
    Watch(QosWatch),
    Prove(QosProve),
    Clear(QosClear),
}

/// Which file system is meant.
#[derive(Clone, Debug, Args)]
pub struct Resctrl {
    /// The mounted resctrl file system [default: where it is mounted, usually /sys/fs/resctrl]
    #[arg(long, value_name = "DIR")]
    pub resctrl: Option<PathBuf>,
}

/// Show what can be set, which groups there are, whose they are, their limits and what they use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos show
  manycore qos show --group qemu-3-web1          one group, with its tasks
  manycore qos show --format json | jq '.groups[] | {name, owner, schemata}'

Bytes are counted since resctrl was mounted; openEuler's kernels tell the rate of the moment instead. A monitor that
is \"unavailable\" has no figure, which is not the same as 0.")]
pub struct QosShow {
    /// Only this group ('/' is the default one)
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub group: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub resctrl: Resctrl,
}

/// Limit a target, in a group of its own, until `manycore qos clear` or `undo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos set --pid 812 --bandwidth 20%                   a process, its threads and all that it starts
  manycore qos set --cgroup /batch.slice --bandwidth 2000MB/s --follow
  manycore qos set --container 4f2a --cache l3=4ways --on cache=0
  manycore qos set --unit nginx --min-bandwidth 30% --priority 7
  manycore qos set --domain web1 --bandwidth 50% --hardlimit on --on node=0-1
  manycore qos set --cpus 4-7 --cache l3code=0xff0             all that runs on these CPUs and is in no group
  manycore qos set --group qemu-3-web1 --bandwidth 40%         a group that is there, whoever made it
  manycore qos set --pid 812 --bandwidth 55% --dry-run         what would be written

What cannot be had here is said before anything is written. Afterwards the value in force is read back, and what the
kernel has rounded, raised or not done is told. Threads and children that are born later inherit the group; --follow
stays and also moves what enters a control group from elsewhere, and takes all back when it ends. Where libvirt has
made a group for a domain, the limits of that one are changed; where it has made several, --group names one.

Exit codes: 1 where the kernel took a limit without a word and changed nothing; 2 where a value is out of range or
there is no such target; 3 where the machine has no such control.")]
pub struct QosSet {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub wish: WishArgs,
    /// Name of the new group [default: manycore-PID]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Stay, and move what enters the control group from elsewhere, until Ctrl-C or its end
    #[arg(long, conflicts_with_all = ["pid", "cpus", "group", "dry_run"])]
    pub follow: bool,
    /// Mount resctrl where it is not mounted
    #[arg(long, conflicts_with = "resctrl")]
    pub mount: bool,
    /// Only say what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// How to print what was done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub resctrl: Resctrl,
}

/// Who is limited.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// Processes, with all below them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: Vec<u32>,
    /// A control group and all below it: its path, as /proc/PID/cgroup shows it ('/' is all that runs), or its folder
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// A container, by its id or the first digits of it
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,
    /// A running libvirt domain, by its name, id or UUID
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// A systemd unit; a service where the name has no ending
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Whatever runs on these CPUs and is in no group itself
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// A group that is there already ('/' is the default one)
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub group: Option<String>,
}

impl TargetArgs {
    /// Whose tasks are meant; absent for CPUs and groups.
    pub fn target(&self) -> Option<Target> {
        let named = |name: &Option<String>, of: fn(String) -> Target| name.clone().map(of);
        (!self.pid.is_empty())
            .then(|| Target::Pids(self.pid.clone()))
            .or_else(|| named(&self.cgroup, Target::Cgroup))
            .or_else(|| named(&self.container, Target::Container))
            .or_else(|| named(&self.domain, Target::Domain))
            .or_else(|| named(&self.unit, Target::Unit))
    }

    /// As on the command line.
    pub fn words(&self) -> String {
        match (self.target(), &self.cpus, &self.group) {
            (Some(target), ..) => target.words(),
            (None, Some(cpus), _) => format!("--cpus {cpus}"),
            (None, None, group) => format!("--group {}", group.as_deref().unwrap_or("/")),
        }
    }
}

/// The limits.
#[derive(Debug, Args)]
pub struct WishArgs {
    /// Most memory bandwidth: 50%, or 2000MB/s where the kernel speaks it; 100% takes a limit away
    #[arg(long, value_name = "MOST")]
    pub bandwidth: Option<Bandwidth>,
    /// Memory bandwidth that it gets also where others want it (openEuler)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_bandwidth: Option<u64>,
    /// Whether --bandwidth holds also while memory is idle (openEuler)
    #[arg(long, value_name = "on|off", action = ArgAction::Set, value_parser = super::on_or_off)]
    pub hardlimit: Option<bool>,
    /// Who is served first where memory is short: 0 to 7, 3 by default (openEuler)
    #[arg(long, value_name = "0..7")]
    pub priority: Option<u64>,
    /// Portion of a cache: l3=50%, l3=4ways, l3=0xff0, l2=..., and l3code=..., l3data=... where mounted with cdp
    #[arg(long, value_name = "CACHE=PORTION", action = ArgAction::Append, value_delimiter = ',')]
    pub cache: Vec<CacheWish>,
    /// Only on these nodes or caches: node=0-1, cache=0
    #[arg(long, value_name = "WHERE")]
    pub on: Option<On>,
}

impl WishArgs {
    /// As the model takes it.
    pub fn wish(&self) -> Wish {
        Wish {
            bandwidth: self.bandwidth,
            min_bandwidth: self.min_bandwidth,
            hard_limit: self.hardlimit,
            priority: self.priority,
            caches: self.cache.clone(),
            on: self.on.clone(),
        }
    }
}

/// Watch what groups move to and from memory, and what they keep in caches, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos watch                                      all groups, each second, drawn anew on a terminal
  manycore qos watch --group qemu-3-web1 --group /        two of them; '/' is the default one
  manycore qos watch --interval 5s --count 12 >minute     lines for a pipe or a file, twelve times
  manycore qos watch --history yesterday.jsonl            also keeps each look as a line of JSON
  manycore qos watch --format json | jq '.groups[] | {name, memory}'

Figures are bytes over the time between two looks, summed over nodes (caches); a sum with a part missing is not shown.
A group that is new, or was made anew under its name, has a rate from its second look on. \"unavailable\" is what the
kernel says where the hardware has no figure; it is not 0. Groups that only monitor are parts of the ones that they
are in. In JSON, rates are bytes a second and null where there is none.")]
pub struct QosWatch {
    /// Only this group; may be given several times, and may come later
    #[arg(long = "group", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub groups: Vec<String>,
    /// Time between looks, 100ms or more
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// End after so many looks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Add each look to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// How to print it; json is one object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub resctrl: Resctrl,
}

/// Show with a load of memory whether limits limit, on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos prove                              all that can be set here: a limit, a least, a priority
  manycore qos prove bandwidth --bandwidth 30%
  manycore qos prove min priority --node 1 --seconds 60

Processes of ours read and write memory on the CPUs of one node, in groups that are made for it and taken back
afterwards. bandwidth: with the limit against without, on the same CPUs. min and priority: half of the CPUs with the
preference against the same without, while the other half wants as much memory as it can get; whether that takes
anything from them is measured too. Pairs are interleaved and judged as 'compare' does; the record is saved.

Exit codes: 1 where a limit makes no difference or the wrong one; 3 where nothing could be shown on this machine.")]
pub struct QosProve {
    /// What to show [default: all that can be set here]
    #[arg(value_name = "CHECK", value_parser = check)]
    pub checks: Vec<LimitCheck>,
    /// The limit of the check bandwidth: 30%, 2000MB/s [default: 10%, or a tenth of what was measured without]
    #[arg(long, value_name = "MOST")]
    pub bandwidth: Option<Bandwidth>,
    /// The least of the check min
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "90%")]
    pub min_bandwidth: u64,
    /// The priority of the check priority, beside others of 3
    #[arg(long, value_name = "0..7", default_value_t = 7, value_parser = clap::value_parser!(u64).range(0..=7))]
    pub priority: u64,
    /// Seconds for each check
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    pub seconds: f64,
    /// The node whose CPUs and memory are used [default: the first that has both]
    #[arg(long, value_name = "NODE")]
    pub node: Option<u32>,
    /// Differences within this share do not matter: what lies within is equivalent. Fixed before anything is measured
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = measured_share)]
    pub equivalent: f64,
    /// Seed of all random orders; from the clock where it is not given
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

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (1.0..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("expected 1 to 86400".to_owned()) }
}

/// Take back limits that `qos set` has put into force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore qos clear manycore-812      what was done to this group: ours goes, limits of another are as before
  manycore qos clear --all             all groups that we made, and all limits that we changed

Tasks go back to the groups that they were in. What somebody else has changed since is left alone and told. `manycore
undo` does the same for everything that manycore has changed.")]
pub struct QosClear {
    /// Groups
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// How to print what was done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
