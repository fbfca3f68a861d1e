//! The verb that looks for wrong pins.

use super::{Format, measure::time};
use clap::Args;
use std::time::Duration;

/// Look at how everything on this machine is pinned, and say what is wrong. Nothing is changed.
///
/// It finds claims of several tenants on the same CPU, processes outside of their control group's CPUs, pins to
/// offline or isolated CPUs, memory on the wrong node, control groups that are stopped by their quota, runtimes with
/// more workers than CPUs, and devices that interrupt CPUs on which pinned threads work. Each finding comes with what it was seen by and with its cure.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore audit                                   everything on this machine
  sudo manycore audit                              also the environment and the memory of other users' processes
  manycore audit --pid $(pgrep -o qemu)            one process and what it started
  manycore audit --for 10s                         count interrupts and CPU time for longer
  manycore audit --format json | jq '.findings[] | {kind, cure}'

Exit codes: 0 where nothing is wrong, 1 where something was found.")]
pub struct Audit {
    /// How to print the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Look only at this process and at what it started
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// How long interrupts and CPU time are counted, 100ms or more
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
}

/// Long enough that ticks of 10 ms, in which CPU time is counted, and single interrupts make no rate.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time < Duration::from_millis(100) {
        return Err("CPU time comes in ticks of 10 ms: 100ms is the shortest that tells something".to_owned());
    }
    Ok(time)
}
