//! The verb `spawn`, and the hidden verb that runs the built-in light processes.

use super::{Results, falseshare::size, measure::time};
use clap::{Args, ValueEnum};
use manycore_experiment::spawning::Runtime;
use std::{path::PathBuf, time::Duration};

/// Value of `--runtime` that selects every runtime.
pub const ALL: &str = "all";

/// Largest accepted count; no machine has enough memory for more.
const MOST: u64 = 1_000_000_000_000;

/// Error text that describes the syntax of a count.
const COUNT: &str = "expected a whole number of light processes such as 1e5, 100000, 100_000, 100k or 1M";

/// Start light processes by the hundred thousand and measure start time, memory and how many would fit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore spawn --runtime beam --counts 1e5,1e6          processes of Erlang/OTP
  manycore spawn --runtime beam,go,tokio --counts 1e6     three runtimes side by side
  manycore spawn                                          every installed runtime, 10,000 and 100,000 each
  manycore spawn --runtime beam --ceiling=512M            how many fit into 512 MiB, predicted and observed
  manycore spawn --runtime go --work spin --for 10s       do they load all CPUs evenly?
  manycore spawn --runtime beam --work io --counts 1000   files opened, written, read and closed

Runtimes: beam (Debian package erlang-base), go (golang-go) and jvm (default-jdk-headless); tokio, threads and
processes are built in. Each count is started in a fresh runtime. A count that would not fit into 90 % of the
available memory is refused before it starts. As root, the runtime runs in a control group with that limit.
Ctrl-C saves the runs that have ended.")]
pub struct Spawn {
    /// Runtimes to measure: beam, go, jvm, tokio, threads, processes, or all that are installed
    #[arg(long, value_name = "RUNTIME", value_delimiter = ',', default_value = ALL, value_parser = names())]
    pub runtime: Vec<String>,
    /// Numbers of light processes to start, each in a fresh runtime: 1e5, 100000, 100k or 1M [default:
    /// 1e4,1e5 as far as they fit]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = count, allow_hyphen_values = true)]
    pub counts: Vec<u64>,
    /// What each light process does
    #[arg(long, value_enum, default_value_t = WorkChoice::Idle)]
    pub work: WorkChoice,
    /// How long the light processes work, with --work spin and io
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = time)]
    pub length: Duration,
    /// Directory in which --work io creates a directory for its files [default: the one for temporary files]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Also start more and more in a control group with this memory limit, until it is reached [default:
    /// 512M]
    #[arg(long, value_name = "MEMORY", num_args = 0..=1, require_equals = true, default_missing_value = "512M",
        value_parser = memory)]
    pub ceiling: Option<u64>,
    /// Also start counts that do not fit; the limit of a control group stops them
    #[arg(long)]
    pub beyond_memory: bool,
    #[command(flatten)]
    pub results: Results,
}

/// Work of each light process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkChoice {
    /// Sleeps until it is ended.
    Idle,
    /// Computes.
    Spin,
    /// Opens, writes, reads and closes a file of its own in a loop.
    Io,
}

/// Arguments of the hidden verb that runs built-in light processes. Only this program starts it.
#[derive(Debug, Args)]
pub struct Light {
    pub kind: String,
}

fn names() -> clap::builder::PossibleValuesParser {
    let names: Vec<&str> = [ALL].into_iter().chain(Runtime::ALL.map(Runtime::name)).collect();
    names.into()
}

/// Parses a memory size such as `512M`. Refuses sizes in which a runtime cannot start.
fn memory(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 64 << 20;
    size(text).and_then(|bytes| {
        if bytes < LEAST {
            Err("less than 64M: runtimes need at least 64M to start".to_owned())
        } else {
            Ok(bytes)
        }
    })
}

/// Parses `1e5`, `100000`, `100_000`, `100k`, `1M` or `1.5e6`: digits, a decimal point and a power of ten
/// that make a whole number. Uses integer arithmetic, so that no count is rounded.
fn count(text: &str) -> Result<u64, String> {
    let wrong = || COUNT.to_owned();
    let plain = text.replace('_', "");
    let (number, power) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 3),
        Some((at, 'm' | 'M')) => (&plain[..at], 6),
        _ => match plain.split_once(['e', 'E']) {
            Some((number, power)) => (number, power.parse::<u32>().map_err(|_| wrong())?),
            None => (plain.as_str(), 0),
        },
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if whole.is_empty() || digits.len() > 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let power = power.checked_sub(part.trim_end_matches('0').len() as u32).ok_or_else(wrong)?;
    let digits = &digits[..digits.len() - (part.len() - part.trim_end_matches('0').len())];
    let number = digits.parse::<u128>().map_err(|_| wrong())?;
    let count = 10u128.checked_pow(power).and_then(|scale| number.checked_mul(scale)).unwrap_or(u128::MAX);
    match u64::try_from(count) {
        Ok(0) => Err("0 leaves nothing to measure: give 1 or more".to_owned()),
        Ok(count) if count <= MOST => Ok(count),
        _ => Err(format!("{MOST} is the most that this accepts: no machine has memory for more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_exactly() {
        for (text, value) in [
            ("1e5", 100_000),
            ("1E5", 100_000),
            ("100000", 100_000),
            ("100_000", 100_000),
            ("100k", 100_000),
            ("1M", 1_000_000),
            ("1.5M", 1_500_000),
            ("1.5e6", 1_500_000),
            ("2.50e1", 25),
            ("1.0", 1),
            ("7", 7),
            ("1e12", MOST),
        ] {
            assert_eq!(count(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for text in [
            "", "-1", "-1e5", "1.5", "1.25e1", "NaN", "nan", "inf", "1e", "e5", ".5e1", "k", "1e-1", "0x10",
            "1 000", "1e5e5",
        ] {
            assert_eq!(count(text), Err(COUNT.to_owned()), "{text}");
        }
        assert!(count("0").is_err_and(|why| why.contains("nothing")));
        assert!(count("0e5").is_err_and(|why| why.contains("nothing")));
        for text in ["1e13", "1e400", "1000000000001", "99999999999999999999"] {
            assert!(count(text).is_err_and(|why| why.contains("is the most")), "{text}");
        }
    }
}
