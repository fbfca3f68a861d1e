//! The verb `guard`.

use super::Format;
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use std::path::PathBuf;

/// Keep a machine, a control group or some processes from dying of memory.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  sudo manycore guard --dry-run                      says what it would do, and does nothing
  sudo manycore guard                                the machine, by the rules of /etc/manycore/guard.toml if they exist
  sudo manycore guard --cgroup /batch.slice          a control group within its own limit
  sudo manycore guard --beam                         asks an Erlang node for its heaviest process before it is ended
  manycore guard check guard.toml                    are these rules right?
  sudo manycore guard why 812                        what would happen to this process now, and why?

It reads how much memory is left, how fast it goes and how long tasks stall for it; warns; asks the process whose
growth took it to end (SIGTERM), and ends it (SIGKILL) where that is too late. A process is the cause only by memory
that is shown to be its own: its pages, and shared memory, files in memory, pipes and sockets that it alone holds. Where
no process is shown to be the cause and the end is near, the last resort acts. Process 1, the guard, kernel threads, what has an oom_score_adj of -1000
and what the rules protect are never ended. SIGHUP reads the rules again.

Rules (all of it may be left out):
  [machine]                  watch the machine (the default where nothing else is named)
  warn_before = \"60s\"        warn where memory will be gone in this time (while less than half is left)
  term_below = \"10%\"         ask to end where less is available [10%, 4 GiB at most]
  term_before = \"1s\"         or it will be gone in this time (while less than 1.5 times term_below is left)
  kill_below = \"5%\"          end where less is available [5%, 2 GiB at most]
  kill_before = \"200ms\"      or it will be gone in this time (while less than 1.5 times term_below is left)
  stalled = \"40%\"            or all tasks wait for memory so long, and less than twice term_below is left
  grace = \"5s\"               between asking and ending
  end = \"process\"            or \"cgroup\": all of its control group
  last_resort = \"oom_score\"  no process is shown to be the cause, and memory is nearly gone: end the one that the
                             kernel would, of those that may be ended; or \"none\"
  slow = \"no\"                or \"freeze\", \"high\": its control group, when it is warned of

  [[cgroup]]                 watch a control group within its limit; settings as above
  path = \"/system.slice/rabbitmq.service\"

  [[processes]]              watch processes of this name together within a limit; settings as above
  name = \"beam.smp\"
  limit = \"4G\"

  [protect]                  never ended
  names = [\"postgres*\"]      what ps -o comm shows, which any process can choose; so it can ask for more:
  names = [{ name = \"postgres*\", user = \"postgres\" }]   also unit = \"...\" and exe = \"/usr/...\" (/proc/PID/exe)
                             sshd*, systemd* and others of root or in their own unit too, unless defaults = false
  units = [\"ssh.service\"]
  cgroups = [\"/db.slice\"]    with all below them
  users = [\"postgres\", 1000]

Users are those of this machine, not of containers; units those of the system, not of a user's service manager.
A control group of the rules that is not there yet is watched when it comes; one of --cgroup has to be there.
The file of rules, and each folder above it, must belong to root or the guard's user and be writable by no others.
Exit codes: 0 ended by a signal; 2 wrong rules; 3 a guard runs already, or something is missing."
)]
pub struct Guard {
    #[command(subcommand)]
    pub verb: Option<GuardVerb>,
    /// Rules to go by [default: /etc/manycore/guard.toml where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Watch this control group, too, instead of the machine unless the rules name that (may be given several times)
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub cgroup: Vec<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Ask Erlang nodes for their heaviest process, before they are ended
    #[arg(long)]
    pub beam: bool,
    /// Add each decision to FILE as a line of JSON: a regular file of this user, opened again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Serve figures for Prometheus at ADDRESS:PORT/metrics, or keep them in a FILE (for the textfile collector)
    #[arg(long, value_name = "ADDRESS|FILE", value_parser = NonEmptyStringValueParser::new())]
    pub metrics: Option<String>,
    /// How to print decisions
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What else there is to do.
#[derive(Debug, Subcommand)]
pub enum GuardVerb {
    Check(GuardCheck),
    Why(GuardWhy),
}

/// Check rules, and say what they mean on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore guard check                       those of /etc/manycore/guard.toml
  manycore guard check new.toml && sudo cp new.toml /etc/manycore/guard.toml && sudo systemctl reload manycore-guard

Exit codes: 0 the rules are right; 2 they are not: the line and what is wrong with it are told; 3 the file cannot be
read.")]
pub struct GuardCheck {
    /// Rules to check [default: /etc/manycore/guard.toml where it exists, otherwise the default rules]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Tell what would happen to a process now, and why.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo manycore guard why 812
  sudo manycore guard why $(pgrep -o beam.smp) --beam      and which of its processes is the heaviest

The guard that runs is asked, because it knows which processes have grown: root's before one of your own, then a dry run.
Any user may ask. Where none runs, two looks two seconds apart are judged by the rules here.

Exit codes: 2 there is no such process; 3 a guard cannot be asked.")]
pub struct GuardWhy {
    /// Its id
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Ask the Erlang node of this process for its heaviest process
    #[arg(long)]
    pub beam: bool,
    /// Rules to go by where no guard runs [default: /etc/manycore/guard.toml where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Look at this control group, too, where no guard runs
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub cgroup: Vec<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Check the cookie of an Erlang node's user; run as that user, by the guard.
#[derive(Debug, Args)]
pub struct Cookie {
    /// The user's home
    #[arg(value_name = "FOLDER")]
    pub home: PathBuf,
}
