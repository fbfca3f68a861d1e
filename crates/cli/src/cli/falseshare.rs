//! The `falseshare` subcommand, which finds false sharing.

use super::{
    ExtentArgs, Format,
    value::{duration, size},
};
use clap::{Args, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Find false sharing in a program
///
/// Finds cache lines that several threads of a program share although they use different bytes.
///
/// For each such line, the report gives the number of cache-line transfers, the threads and the lines of code
/// that accessed each byte, the variable or the allocation that contains the bytes, and how to fix the
/// problem. Lines on which threads use the same bytes (true sharing), which padding does not help, are listed
/// separately. The program need not be rebuilt. With debug information, code is reported by file and line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore falseshare -- ./server --threads 4          until it exits, or until Ctrl-C
  manycore falseshare --budget 20s -- ./server         the first twenty seconds
  manycore falseshare --latent -- ./solver             also sharing on lines of 128 bytes
  manycore falseshare --save seen.json -- ./solver     save the observation, with names
  manycore falseshare --from seen.json --threshold 10  evaluate it again
  manycore falseshare --format json -- ./solver | jq '.false_sharing[] | {false_transfers, data}'

Engines:
  emulation  runs the program in qemu-user and follows every memory access of every \
thread, and of all processes that it starts. The buffers of system calls \
that move data (read, recv, write, send and similar) count as accesses of \
the calling thread; data that other system calls write is not observed. It \
needs no privileges and no hardware support, and is about ten to a hundred \
times slower. \
Which lines, bytes and code are shared is exact. The number of transfers \
of a line depends on the scheduling of the threads, whose relative speed \
differs from a native run; code that depends on time may take other \
paths. The cost of a transfer is not measured. The program runs in a \
process of qemu-x86_64 (or of your architecture) under the program's own \
name, and sees LD_PRELOAD and MANYCORE_EMULATOR in its environment. With \
--format json, the program's standard output goes to standard error. Programs \
that run as another user, set-user-ID, in another root directory or PID \
namespace, or for another architecture run without observation, and a \
note reports them. A server has to stay in the foreground: the run ends \
when its first process exits.
  sampling   lets the CPU record the addresses of some loads and stores (Intel PEBS, \
AMD IBS), at nearly full speed. It needs that hardware, and \
kernel.perf_event_paranoid at 1 or less, or root. It was tested on \
synthetic records only. Arm CPUs are not supported.
  auto       uses emulation, which misses nothing and needs no privileges, and sampling \
only where there is no qemu-user with plugins. Where both are possible, a \
note says so.

The emulator is the first qemu-x86_64 (or of your architecture) in PATH. It needs plugins, which no \
static build has. The package qemu-user has them on Debian up to 12 and Ubuntu up to 24.10, and \
not on Debian 13, Ubuntu 25.04 and later. There, build QEMU (./configure \
--target-list=x86_64-linux-user --enable-plugins) and put its directory first in PATH.

Code that is generated at run time (by the compilers of Java, JavaScript, .NET) gets its \
names from the map /tmp/perf-PID.map or the dump jit-PID.dump that the runtime writes \
for profilers: java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node \
--perf-basic-prof, DOTNET_PerfMapEnabled=1.

Exit codes: 1 if false sharing was found, even if the run was cut short. Otherwise: 3 if the memory for following accesses was used up, if a program ran unobserved, or if \
the code concerned was generated at run time and has no name; 4 if the program failed; \
130 after Ctrl-C; 0 in all other cases. Latent sharing, sharing in libraries and true \
sharing are reported and do not change the exit code; with --latent, latent findings do.")]
pub struct Falseshare {
    /// How accesses are observed; auto uses emulation, or sampling if there is no qemu-user with plugins
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
    /// Least number of false-sharing transfers of a line that is reported [default: 50, with sampling 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub threshold: Option<u64>,
    /// Size of a cache line in bytes [default: that of this machine]
    #[arg(long, value_name = "N", value_parser = line_bytes)]
    pub line_bytes: Option<u32>,
    /// Also report sharing that would occur on lines of twice the size, or if the data started elsewhere in a line
    #[arg(long)]
    pub latent: bool,
    /// Stop the program after this time and report what was observed until then
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub budget: Option<Duration>,
    /// Memory that emulation may use for its bookkeeping, such as 512M or 2G, at least 16M: half of it for
    /// shared lines of all processes, and up to the other half in each process
    #[arg(long, value_name = "SIZE", default_value = "1G", allow_hyphen_values = true, value_parser = memory)]
    pub memory_limit: u64,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub extent: ExtentArgs,
    /// Also save the observation, for --from
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Evaluate an observation that --save saved, and run nothing; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "budget", "engine", "line_bytes", "memory_limit", "save"])]
    pub from: Option<PathBuf>,
    /// Print no progress and no notes on standard error; the result is still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments; it is not run through a shell
    #[arg(last = true, required_unless_present = "from", value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The engine that observes memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Emulation, or sampling where there is no emulator with plugins.
    Auto,
    /// Every access, in an emulator.
    Emulation,
    /// Some accesses, recorded by the hardware.
    Sampling,
}

impl From<EngineChoice> for manycore_falseshare::EngineChoice {
    fn from(choice: EngineChoice) -> Self {
        match choice {
            EngineChoice::Auto => Self::Auto,
            EngineChoice::Emulation => Self::Emulation,
            EngineChoice::Sampling => Self::Sampling,
        }
    }
}

fn line_bytes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes @ (32 | 64 | 128)) => Ok(bytes),
        _ => Err("expected a line size of 32, 64 or 128 bytes".to_owned()),
    }
}

/// Minimum memory for bookkeeping in bytes; with less, hardly any access can be followed.
const MIN_MEMORY: u64 = 16 << 20;

/// Parses a [`size`] of at least [`MIN_MEMORY`].
fn memory(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| {
        if bytes < MIN_MEMORY {
            Err("too little to follow accesses; expected at least 16M".to_owned())
        } else {
            Ok(bytes)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_lines_have_limits() {
        assert_eq!(memory("16M"), Ok(16 << 20));
        assert!(memory("16383K").is_err_and(|why| why.contains("16M")));
        assert_eq!((line_bytes("64"), line_bytes("128")), (Ok(64), Ok(128)));
        assert!(["0", "8", "48", "256", "x"].iter().all(|wrong| line_bytes(wrong).is_err()));
    }
}
