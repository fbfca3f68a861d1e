//! The subcommand `sched`.

use super::Format;
use clap::Args;
use std::path::PathBuf;

/// Show the scheduler in force and its domains
///
/// Shows the scheduler that the kernel uses, and the groups of CPUs between which it moves threads.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore sched show                                 the scheduler, its domains, and what follows for threads
  sudo manycore sched show                            also what only root can read: features and tunables
  manycore sched show --root host7                    from copied files of another machine")]
pub struct Sched {
    #[command(subcommand)]
    pub subcommand: SchedSubcommand,
}

/// What to do with the scheduler.
#[derive(Debug, clap::Subcommand)]
pub enum SchedSubcommand {
    Show(SchedShow),
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
