//! The subcommand `trace`.

use super::value::duration;
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Record which task runs on which CPU
///
/// Records each switch, wake-up and migration of the threads of a command, and what else runs on their CPUs, as a file that
/// <https://ui.perfetto.dev> opens.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore trace -- ./solver                    its first five seconds
  manycore trace --budget 1s --pid 812          one second of a running process
  manycore trace --out slow.json -- ./server    into another file
  manycore trace --all --budget 500ms           the whole machine

In the file, each cluster (or last-level cache, or node) has a track for each CPU, with what runs there, and each thread \
has a track of its states: running, waiting for a CPU, or sleeping, with the reason. The command continues after the \
recording. manycore waits for its end, and exits with its exit code.

Recording needs root (CAP_BPF and CAP_PERFMON), and a kernel from 5.18 with CONFIG_DEBUG_INFO_BTF. The \
command also runs as root. To record a program that must not, start it as its own user, and give its process ID to --pid. Recording stops when manycore ends, even if it \
is killed.")]
pub struct Trace {
    /// Record this process, and what it starts; can be repeated
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Record all processes
    #[arg(long, conflicts_with = "pid")]
    pub all: bool,
    /// End recording after this time
    #[arg(long, value_name = "DURATION", default_value = "5s", allow_hyphen_values = true, value_parser = duration)]
    pub budget: Duration,
    /// The file that is written
    #[arg(long, value_name = "FILE", default_value = "manycore-trace.json")]
    pub out: PathBuf,
    /// End recording after this many events; each takes 400 to 500 bytes of the file
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = most_events)]
    pub most_events: usize,
    /// Print no summary; the file is still written
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments; it is not run through a shell
    #[arg(last = true, required_unless_present_any = ["pid", "all"], value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Parses a number of events. One takes about 50 bytes of memory when the file is written.
fn most_events(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=20_000_000) => Ok(count),
        _ => Err("expected a number from 1 to 20000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_events_have_limits() {
        assert_eq!((most_events("1"), most_events("20000000")), (Ok(1), Ok(20_000_000)));
        assert!(["0", "20000001", "-1", "x", ""].iter().all(|wrong| most_events(wrong).is_err()));
    }
}
