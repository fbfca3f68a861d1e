//! The verb that finds false sharing.

use super::{Format, measure::time};
use clap::{Args, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Find cache lines that threads of a program hand to each other although they use different bytes.
///
/// For each, it tells how often the line changed hands, which threads and which lines of code touched which bytes,
/// what holds the bytes (a global, an allocation and where it was made), and what to do about it. Sharing of the same
/// bytes, which no padding cures, is told apart. Nothing has to be built anew; with debug information code is named
/// by file and line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore falseshare -- ./server --threads 4          to its end, or to Ctrl-C
  manycore falseshare --timeout 20s -- ./server        the first twenty seconds
  manycore falseshare --latent -- ./solver             also what would be shared on lines of 128 bytes
  manycore falseshare --out seen.json -- ./solver      keep what was seen, with its names
  manycore falseshare --from seen.json --threshold 10  and judge it again
  manycore falseshare --json -- ./solver | jq '.false_sharing[] | {needless, holder}'

Engines:
  emulation  runs the program's instructions in qemu-user and follows each access
             of each thread, of each process that it starts by whatever call. What
             system calls read and write for a thread counts as its access where
             they move data (read, recv, write, send and their like); what other
             calls write is not seen. It needs no rights and no hardware, and takes
             some ten to a hundred times as long. Which
             lines, bytes and code are shared is exact. How often a line changes
             hands depends on who runs when, and threads do not keep their pace of
             before; code that depends on time may take other ways. What a
             hand-over costs is not told. The program runs under its name, in a
             process of qemu-x86_64 (or of your architecture), and sees LD_PRELOAD
             and MANYCORE_EMULATOR in its environment. With --json, what it writes
             to standard output goes to standard error. What is started as another
             user, set-user-ID, in another root or namespace of processes, or for
             another machine runs by itself, and a note says so. A server has to
             stay in the foreground: the run ends with the first process.
  sampling   has the CPU tell some of the loads and stores (Intel PEBS, AMD IBS),
             at nearly full speed. It needs that hardware, and
             kernel.perf_event_paranoid at 1 or less, or root. It was tested on
             synthetic records only, and there is none for Arm.
  auto       takes emulation, as it misses nothing and needs no rights, and sampling
             only where there is no qemu-user; where both can be had, a note says so.

Code that is generated at run time (by a compiler of Java, JavaScript, .NET) is named
by the map /tmp/perf-PID.map or the dump jit-PID.dump that its runtime writes for
profilers: java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node
--perf-basic-prof, DOTNET_PerfMapEnabled=1.

Exit codes: 1 where false sharing was found, also when the run was cut short; else
3 where memory for following accesses was used up, a program ran unobserved, or the
code that shares has no name as it was generated at run time, 4 where the program failed, 130 after Ctrl-C, and 0 otherwise. What is latent, in libraries, or true sharing is told
and never counts; --latent has latent findings count.")]
pub struct Falseshare {
    /// How accesses are observed; auto takes emulation, and sampling where there is no qemu-user
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
    /// Needless hand-overs from which on sharing is told [default: 50, with sampling 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub threshold: Option<u64>,
    /// Bytes of a cache line [default: those of this machine]
    #[arg(long, value_name = "N", value_parser = line_bytes)]
    pub line_bytes: Option<u32>,
    /// Also look for what would be shared on doubled lines, or were the data to start elsewhere in a line
    #[arg(long)]
    pub latent: bool,
    /// End the program after this time and tell what was seen until then
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub timeout: Option<Duration>,
    /// Memory that emulation may take for what it remembers, such as 512M or 2G, 16M at least: half of it for lines that
    /// are shared, of all processes, and up to the other half in each process
    #[arg(long, value_name = "SIZE", default_value = "1G", allow_hyphen_values = true, value_parser = memory)]
    pub memory: u64,
    /// How to print the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Also save what was seen, for --from
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Judge what --out saved, and run nothing; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "timeout", "engine", "line_bytes", "memory", "out"])]
    pub from: Option<PathBuf>,
    /// No progress and no notes on standard error; the result is printed all the same
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments; no shell is between
    #[arg(last = true, required_unless_present = "from", value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which engine observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Emulation, or sampling where there is no emulator.
    Auto,
    /// Every access, in an emulator.
    Emulation,
    /// Some accesses, told by the hardware.
    Sampling,
}

fn line_bytes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes @ (32 | 64 | 128)) => Ok(bytes),
        _ => Err("lines have 32, 64 or 128 bytes".to_owned()),
    }
}

/// Least memory for what is remembered: with less, next to nothing is followed.
const LEAST_MEMORY: u64 = 16 << 20;

/// A [`size`] with which something can be told.
fn memory(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| {
        if bytes < LEAST_MEMORY {
            Err("16M is the least with which accesses can be followed".to_owned())
        } else {
            Ok(bytes)
        }
    })
}

/// `512M`, `2G` or a number of bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("expected a size such as 512M or 2G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a size such as 512M or 2G".to_owned())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| "no such size".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lines_are_read() {
        for (text, bytes) in
            [("1", 1), ("4k", 4096), ("512M", 512 << 20), ("2GiB", 2 << 30), ("1GB", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "0", "M", "1X", "-1", "99999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(memory("16M"), Ok(16 << 20));
        assert!(memory("16383K").is_err_and(|why| why.contains("16M")));
        assert_eq!((line_bytes("64"), line_bytes("128")), (Ok(64), Ok(128)));
        assert!(["0", "8", "48", "256", "x"].iter().all(|wrong| line_bytes(wrong).is_err()));
    }
}
