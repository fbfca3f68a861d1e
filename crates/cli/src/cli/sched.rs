//! The subcommand `sched`.

use super::{
    Format,
    value::{interval, process_id},
};
use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use manycore_sched::run::{Engine, Policy, Target, TargetPolicy};
use manycore_topology::Level;
use std::{path::PathBuf, time::Duration};

/// Show the scheduler, spread or pack tasks
///
/// Shows the scheduler that the kernel uses and the groups of CPUs between which it moves threads; spreads the threads of
/// named work over clusters, or packs them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore sched show                                 the scheduler, its domains, and what follows for threads
  sudo manycore sched show                            also what only root can read: features and tunables
  manycore sched show --root host7                    from copied files of another machine
  manycore sched run --with affinity -- ./solver      keep its busy threads in different clusters")]
pub struct Sched {
    #[command(subcommand)]
    pub subcommand: SchedSubcommand,
}

/// What to do with the scheduler.
#[derive(Debug, clap::Subcommand)]
pub enum SchedSubcommand {
    Show(SchedShow),
    Run(SchedRun),
}

/// Show the scheduler in force and its domains
///
/// Shows the kernel's own scheduler with its features and tunables, or the sched_ext scheduler that is loaded; the
/// scheduling domains; and what follows from them for the threads of one process.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo manycore sched show                   all of it
  manycore sched show --root host7           from copied files of another machine
  manycore sched show --format json | jq .clusters.are_domain

Features, tunables and cache-aware balancing are files of debugfs, which only root can read. What cannot be read is \
listed with the reason and with what makes it readable.")]
pub struct SchedShow {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Read the sysfs, debugfs and procfs trees below DIR
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Spread threads over clusters, or pack them
///
/// Keeps the busy threads of the named work in different clusters, or together in few, until it has ended or Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo manycore sched run                                       spread all tasks, until Ctrl-C
  sudo manycore sched run --cgroup /batch.slice=pack            the same, but pack those of a control group
  sudo manycore sched run --policy pack -- ./solver             only a command, to its end
  sudo manycore sched run --policy auto --progress './served'   spread or pack, as measured
  manycore sched run --with affinity --pid 812                  without sched_ext and without root

By default, a scheduler is loaded into the kernel (sched_ext, Linux 6.12 or newer, root). It schedules all tasks, or, if \
processes or a command are named, only these. When a task wakes, `spread` chooses an idle core in an idle cluster, nearest \
first; then the cluster with the most idle CPUs; then an SMT sibling. `pack` prefers one cluster for each process; tasks that \
do not fit there run in others. Affinities, cpusets, isolated CPUs, nice values and weights of control groups hold as before; \
CPU quotas (cpu.max) are not enforced. If this program ends in any way, the kernel's own scheduler takes over at once; if the \
scheduler stalls, after 20 s.

`auto` compares spread and pack in pairs of slices of 2 s by what --progress prints, and keeps pack only if it is shown to \
be better. When the progress per second changes by a factor of 1.5 for 50 s, it compares again.

With --with affinity, threads of the named processes are moved by their affinities once per interval: a busy thread (it \
ran or waited for a CPU in 25 % of the interval or more) that another cluster suited better in two consecutive intervals is moved \
there, at most 8 threads in one interval, and a moved thread stays for 5 intervals. A thread whose affinity another \
program changes, or it itself, is left alone. Affinities are restored at the end, on signals, and after SIGKILL.

A COMMAND keeps its exit status (128 + N after signal N), and gets the signals. Exit codes: 0 after Ctrl-C without a \
command; 2 if the machine has only one cluster, cache and node, so that there is nothing to spread over, or if something that \
is named does not exist; 3 if the kernel has no \
sched_ext, another scheduler is loaded, or a permission is missing; 4 if the kernel removes the scheduler.")]
pub struct SchedRun {
    /// Policy of all tasks, or of the named ones; a --cgroup may have another
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = SchedPolicy::Spread)]
    pub policy: SchedPolicy,
    /// What places the threads
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = SchedEngine::SchedExt)]
    pub with: SchedEngine,
    /// Processes by id, and their descendants
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = process_id)]
    pub pid: Vec<u32>,
    /// Processes of a name, now and later, as `pgrep -x` finds them, and their descendants
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Vec<String>,
    /// A control group and those below it, with a policy; with sched_ext, all other tasks are scheduled as well
    #[arg(long, value_name = "PATH[=POLICY]", value_parser = cgroup_policy)]
    pub cgroup: Vec<CgroupPolicy>,
    /// With --with affinity: units over which threads are spread [default: cluster if clusters hold several cores, otherwise llc]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub level: Option<SchedLevel>,
    /// Time between two reports and looks for new processes and groups, with affinity between two decisions; at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// For the policy auto: a command that prints a number that grows with the work done
    #[arg(long, value_name = "COMMAND")]
    pub progress: Option<String>,
    /// Print a line for each interval and each change on standard error
    #[arg(long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print only errors on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// A command to start, and its arguments; started directly, without a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A policy of `sched run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchedPolicy {
    /// Busy threads in different clusters, while there are idle ones.
    Spread,
    /// Busy threads together: each process prefers one cluster; with affinity, each target uses as few as have CPUs for it.
    Pack,
    /// Spread or pack, as measured (not with affinities).
    Auto,
}

/// What places the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchedEngine {
    /// A scheduler in the kernel, for all processes or the named ones.
    #[value(name = "sched_ext")]
    SchedExt,
    /// Affinities, set from user space once per interval.
    Affinity,
}

/// What a unit is over which threads are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchedLevel {
    /// CPUs that share a mid-level resource, such as an L2.
    Cluster,
    /// CPUs that share a last-level cache.
    Llc,
    /// A core with its SMT siblings.
    Core,
}

/// A control group, and its policy if it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPolicy {
    path: String,
    policy: Option<Policy>,
}

/// Parses `PATH=POLICY`, or a path alone.
fn cgroup_policy(text: &str) -> Result<CgroupPolicy, String> {
    let parsed = |path: &str, policy| match path {
        "" => Err("the path of the control group is missing: write PATH=POLICY".to_owned()),
        path => Ok(CgroupPolicy { path: path.to_owned(), policy }),
    };
    match text.rsplit_once('=') {
        Some((path, word)) => parsed(path, Some(word.parse()?)),
        None => parsed(text, None),
    }
}

impl SchedRun {
    /// Returns the work that is named, the more specific first, with its policies.
    pub fn targets(&self) -> Vec<TargetPolicy> {
        let own = Policy::from(self.policy);
        let cgroups = self.cgroup.iter().map(|group| TargetPolicy {
            target: Target::Cgroup(group.path.clone()),
            policy: group.policy.unwrap_or(own),
        });
        let pids = self.pid.iter().map(|pid| Target::Process(*pid));
        let names = self.name.iter().map(|name| Target::Name(name.clone()));
        let command = (!self.command.is_empty()).then(|| Target::Command(self.command.clone()));
        cgroups
            .chain(pids.chain(names).chain(command).map(|target| TargetPolicy { target, policy: own }))
            .collect()
    }
}

impl From<SchedPolicy> for Policy {
    fn from(policy: SchedPolicy) -> Self {
        match policy {
            SchedPolicy::Spread => Self::Spread,
            SchedPolicy::Pack => Self::Pack,
            SchedPolicy::Auto => Self::Auto,
        }
    }
}

impl From<SchedEngine> for Engine {
    fn from(engine: SchedEngine) -> Self {
        match engine {
            SchedEngine::SchedExt => Self::SchedExt,
            SchedEngine::Affinity => Self::Affinity,
        }
    }
}

impl From<SchedLevel> for Level {
    fn from(level: SchedLevel) -> Self {
        match level {
            SchedLevel::Cluster => Self::Cluster,
            SchedLevel::Llc => Self::Llc,
            SchedLevel::Core => Self::Core,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_may_have_a_policy_and_an_equals_sign() {
        let group = |path: &str, policy| Ok(CgroupPolicy { path: path.to_owned(), policy });
        assert_eq!(cgroup_policy("/a=pack"), group("/a", Some(Policy::Pack)));
        assert_eq!(cgroup_policy("/a=b=spread"), group("/a=b", Some(Policy::Spread)));
        assert_eq!(cgroup_policy("/a"), group("/a", None));
        assert_eq!(cgroup_policy("/a=x").unwrap_err(), "'x' is not a policy; write spread, pack or auto");
        assert!(cgroup_policy("=pack").unwrap_err().contains("PATH=POLICY"));
    }
}
