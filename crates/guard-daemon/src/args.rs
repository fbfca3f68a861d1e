//! The options of `manycore guard` and of `manycore-guard`. Help and man pages are generated from them.
#![allow(
    missing_docs,
    reason = "a doc comment on a flattened field or a subcommand would replace the one on its type"
)]

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use std::path::PathBuf;

/// Protect a machine from running out of memory
///
/// Protects a machine, a control group or some processes.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  sudo manycore guard --dry-run                      report what would be done, without doing it
  sudo manycore guard                                watch the machine, with /etc/manycore/guard.toml if it exists
  sudo manycore guard --cgroup /batch.slice          watch a control group within its own limit
  sudo manycore guard --beam                         query an Erlang node for its largest process before ending it
  manycore guard check guard.toml                    check rules
  sudo manycore guard why 812                        show what would happen to a process now, and why

The guard measures how much memory is left, how fast it decreases and how long tasks stall for it. When memory is \
about to run out, it writes a warning. Then it sends SIGTERM to the process whose growth took the memory, and SIGKILL \
if SIGTERM comes too late. Only memory shown to belong to a process counts against it: its own pages, and shared \
memory, files in memory, pipes and sockets that it alone holds. If no process is shown to be the cause and memory is \
nearly exhausted, the last resort applies. Process 1, the guard, kernel threads, processes with an oom_score_adj of \
-1000, and processes that the rules protect are never ended. SIGHUP reloads the rules.

Rules (every entry is optional):
  [machine]                  watch the machine (the default if the rules name nothing else)
  warn_before = \"60s\"        warn if memory will be exhausted within this time (while less than half is left)
  term_below = \"10%\"         send SIGTERM if less is available [10%, at most 4 GiB]
  term_before = \"1s\"         or if exhausted within this time (while less than 1.5 times term_below is left)
  kill_below = \"5%\"          send SIGKILL if less is available [5%, at most 2 GiB]
  kill_before = \"200ms\"      or if exhausted within this time (while less than 1.5 times term_below is left)
  stalled = \"40%\"            or if all tasks stall for this share of time and less than twice term_below is left
  grace = \"5s\"               time between SIGTERM and SIGKILL
  end = \"process\"            or \"cgroup\": end the whole control group of the process
  last_resort = \"oom_score\"  if no process is shown to be the cause and memory is nearly exhausted, end the eligible \
process that the kernel would kill; or \"none\"
  slow = \"no\"                or \"freeze\", \"high\": slow down its control group when a warning is written

  [[cgroup]]                 watch a control group within its limit; settings as above
  path = \"/system.slice/rabbitmq.service\"

  [[processes]]              watch all processes of this name within a common limit; settings as above
  name = \"beam.smp\"
  limit = \"4G\"

  [protect]                  processes that are never ended
  names = [\"postgres*\"]      as shown by ps -o comm. Any process can choose its name, so a rule can require more:
  names = [{ name = \"postgres*\", user = \"postgres\" }]
                             also unit = \"...\" and exe = \"/usr/...\" (/proc/PID/exe)
                             sshd*, systemd* and others of root or in their own unit too, unless defaults = false
  units = [\"ssh.service\"]
  cgroups = [\"/db.slice\"]    including all control groups below
  users = [\"postgres\", 1000]

Users are those of this machine, not of containers. Units are those of the system, not of a user's service manager. \
A control group in the rules that does not exist yet is watched once it is created; one in --cgroup must exist. \
The rules file and every directory above it must belong to root or the guard's user, and other users \
must not be able to write to them.

Exit codes: 0 ended by a signal; 2 invalid rules; 3 another guard is running, or something is missing."
)]
pub struct Guard {
    #[command(subcommand)]
    pub subcommand: Option<GuardSubcommand>,
    /// Rules file [default: /etc/manycore/guard.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Also watch this control group; may be repeated. The machine is then watched only if the rules name it
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub cgroup: Vec<String>,
    /// Report what would be done, without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Query Erlang nodes for their largest process before ending them
    #[arg(long)]
    pub beam: bool,
    /// Append each decision to FILE as a line of JSON; must be a regular file of this user; reopened on
    /// SIGHUP
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Serve metrics for Prometheus at ADDRESS:PORT/metrics, or write them to FILE (for the textfile
    /// collector)
    #[arg(long, value_name = "ADDRESS|FILE", value_parser = NonEmptyStringValueParser::new())]
    pub metrics: Option<String>,
    /// Output format of decisions
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub format: OutputFormat,
}

/// Subcommands of `guard`.
#[derive(Debug, clap::Subcommand)]
pub enum GuardSubcommand {
    Check(GuardCheck),
    Why(GuardWhy),
    #[command(hide = true)]
    Cookie(Cookie),
}

/// The output format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for reading.
    Text,
    /// JSON for other programs.
    Json,
}

/// Check rules and show what they mean on this machine
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  manycore guard check                       check /etc/manycore/guard.toml
  manycore guard check new.toml && sudo cp new.toml /etc/manycore/guard.toml && sudo systemctl reload manycore-guard

Exit codes: 0 the rules are valid; 2 they are not (the line and the error are printed); 3 the file cannot be read.")]
pub struct GuardCheck {
    /// Rules file to check [default: /etc/manycore/guard.toml if it exists, otherwise the default rules]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Show what would happen to a process now, and why
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo manycore guard why 812
  sudo manycore guard why $(pgrep -o beam.smp) --beam      also show which of its Erlang processes is the largest

Queries the running guard, because it has observed which processes have grown: first root's, then your own, then a dry \
run. Any user may query it. If no guard runs, two scans two seconds apart are assessed by the rules here.

Exit codes: 2 no such process; 3 the guard cannot be queried.")]
pub struct GuardWhy {
    /// Process id
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Query the Erlang node of this process for its largest process
    #[arg(long)]
    pub beam: bool,
    /// Rules file to use if no guard runs [default: /etc/manycore/guard.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Also watch this control group, if no guard runs
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub cgroup: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub format: OutputFormat,
}

/// Check the cookie of an Erlang node's user; the guard runs this as that user
#[derive(Debug, Args)]
pub struct Cookie {
    /// Home directory of the user
    #[arg(value_name = "FOLDER")]
    pub home: PathBuf,
}
