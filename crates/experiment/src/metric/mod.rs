//! Figures read from the output of a measured command.
//!
//! | form | value |
//! |---|---|
//! | `NAME=REGEX` | the first group of the expression, which must match once; `^` and `$` match at line ends |
//! | `NAME=json:PATH` | the number at `a.b.0.c` in the output, or in its last line that is a JSON object |
//! | `READER` | all figures that a built-in reader finds, the primary metric first: see [`READERS`] |
//! | `READER.FIELD` | one of those: `wrk.p99` |
//! | `spec=PATTERN` | scores in the newest result file that matches and was written by the run |
//!
//! A name may have a unit and a direction: `p99[ms]:lower=...`. Without a direction, higher is better.
//!
//! Output means standard output. The right side may begin with another source: `stderr:` for standard error, or
//! `file:PATH:` for a file that each run writes, as in `p99=stderr:json:p99`, `rate=file:out.log:rate (.*)`,
//! `wrk=file:wrk.log:`. Without a source, only the reader `stress-ng` also reads standard error, to which that program
//! prints.

mod custom;
mod figures;
mod hdr;
mod load;
mod memtier;
mod number;
mod redis;
mod requests;
mod scheduler;
mod source;
mod spec;
mod stress_ng;
mod summary;
mod sysbench;
#[cfg(test)]
mod tests;
mod unixbench;
mod wrk;

use crate::{
    error::{Error, Result},
    record::Metric,
};
pub use load::{LoadModel, load_model};
pub use requests::requests;

use custom::CustomMetric;
use figures::{Figures, list, quote};
use source::TextSource;
use std::{collections::BTreeSet, fmt, path::Path, str::FromStr, time::SystemTime};

/// Names of the metrics that every run has. A user's metric has another name.
pub const MEASURED: [&str; 3] = ["wall", "cpu", "memory"];

/// What gates and other programs call the memory of a run. A user's metric has another name.
pub const MEMORY_ALIAS: &str = "rss";

/// Name of the metric that every run of the load on a service has.
pub const MEASURED_OF_SERVICE: &str = "service_cpu";

/// Names of the built-in readers, for help and completion.
pub const READERS: [&str; 14] = [
    "sysbench",
    "wrk",
    "wrk2",
    "hey",
    "oha",
    "ghz",
    "hdr",
    "redis-benchmark",
    "memtier",
    "stress-ng",
    "unixbench",
    "hackbench",
    "perf-bench",
    "spec",
];

/// A request for figures. Displayed ([`fmt::Display`]) as it was given.
#[derive(Clone, Debug)]
pub struct MetricReader {
    given: String,
    from: TextSource,
    source: ReaderSource,
}

#[derive(Clone, Debug)]
enum ReaderSource {
    Custom(CustomMetric),
    Builtin { reader: &'static str, pattern: Option<String>, field: Option<String> },
}

/// The output of one run of the measured command.
#[derive(Clone, Copy, Debug)]
pub struct RunOutput<'a> {
    /// Everything that it wrote to standard output.
    pub stdout: &'a str,
    /// Everything that it wrote to standard error; empty if that was not captured.
    pub stderr: &'a str,
    /// Start of the run. A result file that is older belongs to another run.
    pub since: SystemTime,
}

impl FromStr for MetricReader {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let (from, source) = ReaderSource::parse(given).map_err(Error::InvalidMetric)?;
        Ok(Self { given: given.to_owned(), from, source })
    }
}

impl ReaderSource {
    fn parse(given: &str) -> Result<(TextSource, Self), String> {
        let (head, rest) = match given.split_once('=') {
            Some((head, rest)) => (head, Some(rest)),
            None => (given, None),
        };
        let (start, field) = match head.split_once('.') {
            Some((start, field)) => (start, Some(field.to_owned())),
            None => (head, None),
        };
        let reader = READERS.into_iter().find(|reader| *reader == start);
        let builtin = |reader, pattern| ReaderSource::Builtin { reader, pattern, field: field.clone() };
        if let (Some(reader @ "spec"), Some(pattern)) = (reader, rest) {
            return Ok((TextSource::Stdout, builtin(reader, Some(pattern.to_owned()))));
        }
        let (from, rest) = match rest.map(TextSource::split).transpose()? {
            Some((from, rest)) => (from, Some(rest)),
            None => (TextSource::Stdout, None),
        };
        let source = match (reader, rest) {
            (Some(reader), None) => builtin(reader, None),
            (Some(reader), Some("")) if from != TextSource::Stdout => builtin(reader, None),
            (Some(reader), Some(_)) => {
                return Err(format!("{reader} is a built-in reader: choose another name for your metric"));
            }
            (None, Some(place)) => ReaderSource::Custom(CustomMetric::parse(head, place)?),
            (None, None) => {
                return Err(format!(
                    "{} is neither NAME=REGEX nor NAME=json:PATH nor a reader ({})",
                    quote(given),
                    READERS.join(", ")
                ));
            }
        };
        Ok((from, source))
    }
}

impl fmt::Display for MetricReader {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.given)
    }
}

impl MetricReader {
    /// Returns the figures in the output of one run: at least one, the primary one first. Values are finite,
    /// names are unique, and the first value is above zero. The metrics of a built-in reader depend on the
    /// command only, so they are the same for each of its runs.
    ///
    /// # Errors
    /// [`Error::UnreadableOutput`] with what was expected and what was found.
    pub fn read(&self, output: &RunOutput) -> Result<Vec<(Metric, f64)>> {
        let figures = self.figures(output).and_then(check_primary);
        figures.map_err(Error::UnreadableOutput)
    }

    /// Returns whether the figures are in standard error.
    pub fn reads_stderr(&self) -> bool {
        self.from == TextSource::Stderr
    }

    /// Returns the file from which the figures are read, if they are in one.
    pub fn file(&self) -> Option<&Path> {
        if let TextSource::File(path) = &self.from { Some(path) } else { None }
    }

    /// Returns the metric of the user, whose unit may still come from the output. `None` for a built-in reader, whose
    /// metrics depend on the command.
    pub fn metric(&self) -> Option<&Metric> {
        if let ReaderSource::Custom(named) = &self.source { Some(named.metric()) } else { None }
    }

    /// Prepares for a run: waits, for 20 ms at most, until the file that the run will write can be told from the one
    /// that is there.
    pub fn before_run(&self) {
        if let Some(path) = self.file() {
            source::wait_until_old(path);
        }
    }

    fn figures(&self, output: &RunOutput) -> Result<Figures, String> {
        let text = self.from.text(output)?;
        match &self.source {
            ReaderSource::Custom(named) => Ok(vec![named.read(&text, &self.from.name())?]),
            ReaderSource::Builtin { reader, pattern, field } => {
                let output = RunOutput { stdout: &text, ..*output };
                let figures = read_builtin(reader, pattern.as_deref(), &output)?;
                check_unique_finite(reader, &figures)?;
                field.as_ref().map_or(Ok(figures.clone()), |field| pick(reader, figures, field))
            }
        }
    }
}

/// Returns the figures of several readers, in their order. As with [`MetricReader::read`], the first value must be
/// above zero and names must be unique.
///
/// # Errors
/// [`Error::UnreadableOutput`] with what was expected and what was found.
pub fn read_all(readers: &[MetricReader], output: &RunOutput) -> Result<Vec<(Metric, f64)>> {
    let figures = figures_of_all(readers, output).and_then(check_primary);
    figures.map_err(Error::UnreadableOutput)
}

fn figures_of_all(readers: &[MetricReader], output: &RunOutput) -> Result<Figures, String> {
    let mut figures = Figures::new();
    for reader in readers {
        figures.extend(reader.figures(output)?);
    }
    let mut names = BTreeSet::new();
    if let Some((metric, _)) = figures.iter().find(|(metric, _)| !names.insert(&metric.name)) {
        return Err(format!("metric {} is requested twice: give one of them another name", metric.name));
    }
    Ok(figures)
}

fn read_builtin(reader: &str, pattern: Option<&str>, output: &RunOutput) -> Result<Figures, String> {
    let text = output.stdout;
    match reader {
        "sysbench" => sysbench::read(text),
        "wrk" => wrk::read(text),
        "wrk2" => wrk::read_wrk2(text),
        "hey" => summary::read(summary::HEY, text),
        "oha" => summary::read(summary::OHA, text),
        "ghz" => summary::read(summary::GHZ, text),
        "hdr" => hdr::read(text),
        "redis-benchmark" => redis::read(text),
        "memtier" => memtier::read(text),
        "stress-ng" => stress_ng::read(text, output.stderr),
        "unixbench" => unixbench::read(text),
        "hackbench" => scheduler::hackbench(text),
        "perf-bench" => scheduler::perf_bench(text),
        _ => spec::read(pattern, output),
    }
}

/// Picks one metric of a reader.
fn pick(reader: &str, figures: Figures, field: &str) -> Result<Figures, String> {
    let names = list(figures.iter().map(|(metric, _)| metric.name.as_str()));
    let picked: Figures = figures.into_iter().filter(|(metric, _)| metric.name == field).collect();
    if picked.is_empty() {
        return Err(format!("{reader} found no metric {} here; it found {names}", quote(field)));
    }
    Ok(picked)
}

/// Rejects figures that were printed several times, such as by a script that runs a program twice.
fn check_unique_finite(reader: &str, figures: &Figures) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (metric, value) in figures {
        if !value.is_finite() {
            return Err(format!("{reader}: {} is {value}, not a finite number", metric.name));
        }
        if !names.insert(&metric.name) {
            return Err(format!(
                "{reader}: {} is printed more than once; measure one run of the program at a time",
                metric.name
            ));
        }
    }
    Ok(())
}

/// Rejects a primary figure from which no ratio can be computed.
fn check_primary(figures: Figures) -> Result<Figures, String> {
    match figures.first() {
        Some((metric, value)) if *value <= 0.0 => Err(format!(
            "metric {} is {}: the primary metric must be above zero to be compared",
            metric.name,
            format!("{value} {}", metric.unit).trim_end()
        )),
        _ => Ok(figures),
    }
}
