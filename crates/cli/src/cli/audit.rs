//! The subcommand `audit`, which finds wrong pins.

use super::{
    ExtentArgs, Format,
    value::{interval, process_id},
};
use clap::Args;
use std::time::Duration;

/// Find wrong pinning on this machine
///
/// Examines how everything on this machine is pinned, and reports problems. Nothing is changed.
///
/// It finds overlapping pinning of several tenants, busy threads that share a CPU while others are idle,
/// processes outside of the CPUs of their control group, pins to offline or isolated CPUs, memory on the wrong
/// NUMA node, control groups that are throttled by their quota, runtimes with more workers than CPUs, and
/// devices that interrupt CPUs on which pinned threads work. Each finding is reported with its evidence and a
/// fix.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore audit                                   everything on this machine
  sudo manycore audit                              also the environment and the memory of other users' processes
  manycore audit --pid $(pgrep -o qemu)            what concerns one process and its descendants
  manycore audit --budget 10s                      count interrupts and CPU time for longer
  manycore audit --format json | jq '.findings[] | {kind, fix}'

Exit codes: 0 if nothing is wrong, 1 if there are findings.")]
pub struct Audit {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub extent: ExtentArgs,
    /// Report only what concerns these processes and their descendants
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = process_id)]
    pub pid: Vec<u32>,
    /// How long to count interrupts and CPU time, at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub budget: Duration,
}
