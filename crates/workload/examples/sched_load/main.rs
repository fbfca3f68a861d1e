//! Loads that measure a CPU scheduler, for `lab/schedulers`. Each prints one line of JSON.
//!
//! ```text
//! sched_load wake [--messengers N] [--workers N] [--work N] [--seconds S]   latency of wake-ups
//! sched_load spin [--tasks N] [--seconds S]                                 CPU time and waiting of spinning tasks
//! ```

mod spin;
mod wake;

use std::{fmt, process::ExitCode, str::FromStr, time::Duration};

const USAGE: &str = "usage: sched_load wake [--messengers N] [--workers N] [--work N] [--seconds S]
       sched_load spin [--tasks N] [--seconds S]";

/// The options behind the name of a load: names, each with its value.
struct Options(Vec<(String, String)>);

impl Options {
    /// Takes pairs of `--NAME VALUE`. Names that are not in `known`, and a last one without a value, are errors.
    fn new(words: &[String], known: &[&str]) -> Result<Options, String> {
        let mut options = Vec::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            if !known.contains(&name.as_str()) {
                return Err(format!("there is no option {name}: use {}", known.join(", ")));
            }
            options.push((name.clone(), value.clone()));
        }
        Ok(Options(options))
    }

    /// The value of an option, or `default` without it. Must be in `range`.
    fn value<T>(&self, name: &str, default: T, range: std::ops::RangeInclusive<T>) -> Result<T, String>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let Some((_, text)) = self.0.iter().rev().find(|(known, _)| known == name) else {
            return Ok(default);
        };
        text.parse().ok().filter(|value| range.contains(value)).ok_or_else(|| {
            format!("{name} is '{text}', but has to be from {} to {}", range.start(), range.end())
        })
    }

    fn seconds(&self) -> Result<Duration, String> {
        Ok(Duration::from_secs_f64(self.value("--seconds", 5.0, 0.01..=86_400.0)?))
    }
}

/// Runs the load that the arguments name, and returns its line of JSON.
fn load(arguments: &[String]) -> Result<String, String> {
    match arguments.split_first() {
        Some((name, rest)) if name == "wake" => {
            let options = Options::new(rest, &["--messengers", "--workers", "--work", "--seconds"])?;
            wake::run(&wake::Load {
                messengers: options.value("--messengers", 2, 1..=1000)?,
                workers: options.value("--workers", 8, 1..=10_000)?,
                work: options.value("--work", 20_000, 0..=1_000_000_000)?,
                time: options.seconds()?,
            })
        }
        Some((name, rest)) if name == "spin" => {
            let options = Options::new(rest, &["--tasks", "--seconds"])?;
            spin::run(options.value("--tasks", 16, 1..=100_000)?, options.seconds()?)
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// The smallest of sorted values that at least this share of all values does not exceed; 0 without values.
fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match load(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("sched_load: {message}");
            ExitCode::from(2)
        }
    }
}
