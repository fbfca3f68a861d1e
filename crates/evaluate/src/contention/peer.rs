//! The same loads of other programs, interleaved with ours on the same machine.

use crate::{
    Suite, as_optional,
    contention::{ContendedLoad, PASS, PASSES, open, peer_sample_length, trial},
    error::{Error, LoadOption, Result},
    parameters,
    peer_subject::PeerSubject,
    treatment,
};
use manycore_experiment::{
    command,
    engine::{Budget, ExperimentSpec},
    metric::{MetricReader, RunOutput},
    record::{Method, factor, id},
    sampling::{SamplingMode, settling_time},
    worker_pool::WorkerPool,
};
use std::{
    ffi::OsString,
    path::PathBuf,
    process::Command,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Maximum number of processes that stress-ng starts on a semaphore.
const STRESS_NG_MAX: usize = 64;

/// Another program that does the same as one of our loads.
#[derive(Clone)]
pub(super) enum Peer {
    StressNg { version: String, counts: Vec<usize> },
    UnixBench { program: PathBuf },
}

/// Finds the program for `load`. A program that is not installed is noted.
pub(super) fn find(suite: &mut Suite, load: &ContendedLoad, counts: &[usize]) -> Result<Option<Peer>> {
    match load.section.name {
        "sem" | "sem-sysv" | "msg" => stress_ng(suite, load, counts),
        "pipe" => unixbench(suite),
        _ => Ok(None),
    }
}

/// Returns the version that the installed stress-ng prints.
///
/// # Errors
/// [`Error::Unavailable`] if it is not installed or cannot be run.
pub fn stress_ng_version() -> Result<String> {
    match command::run(Command::new("stress-ng").arg("--version")) {
        Ok(output) => {
            let version = output.stdout.split(" (").next().unwrap_or_default().replace(", version", "");
            Ok(version.trim().to_owned())
        }
        Err(manycore_experiment::Error::Interrupted) => Err(Error::Interrupted),
        Err(_) => Err(Error::unavailable(
            "stress-ng is not installed (Debian: apt install stress-ng; openEuler: dnf install stress-ng)",
        )),
    }
}

fn stress_ng(suite: &mut Suite, load: &ContendedLoad, counts: &[usize]) -> Result<Option<Peer>> {
    let version = match stress_ng_version() {
        Ok(version) => version,
        Err(Error::Unavailable(hint)) => {
            suite
                .session
                .record_missing(&format!("comparison of {} with stress-ng", load.section.name), &hint);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let cpus = suite.machine().usable().len();
    // Its semaphores need at least two processes. More processes than CPUs are not a useful comparison.
    let least = if load.pairs { 1 } else { 2 };
    let fits = |count: &&usize| (least..=cpus.max(least).min(STRESS_NG_MAX)).contains(*count);
    let fitting: Vec<usize> = counts.iter().filter(fits).copied().collect();
    let mut ends: Vec<usize> = fitting.first().into_iter().chain(fitting.last()).copied().collect();
    ends.dedup();
    Ok((!ends.is_empty()).then_some(Peer::StressNg { version, counts: ends }))
}

fn unixbench(suite: &mut Suite) -> Result<Option<Peer>> {
    let asked = suite.loads.unixbench_dir.clone();
    let places: Vec<PathBuf> = match &asked {
        // UnixBench builds its programs into pgms/.
        Some(folder) => vec![folder.join("pgms"), folder.clone()],
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
    };
    let found = places.into_iter().map(|place| place.join("context1")).find(|program| program.is_file());
    match (found, asked) {
        (Some(program), _) => Ok(Some(Peer::UnixBench { program })),
        (None, Some(folder)) => {
            let folder = folder.display();
            let reason = format!("{folder}: found no context1 there or in its pgms/ (build it with make)");
            Err(Error::invalid(LoadOption::UnixbenchFolder, reason))
        }
        (None, None) => Ok(None),
    }
}

impl Peer {
    fn name(&self) -> &'static str {
        match self {
            Self::StressNg { .. } => "stress-ng",
            Self::UnixBench { .. } => "context1",
        }
    }

    /// Measures our load and the other program in interleaved samples.
    pub(super) fn measure(
        self,
        suite: &mut Suite,
        load: &ContendedLoad,
        seconds: f64,
        part: (f64, f64),
    ) -> Result {
        let (version, counts) = match &self {
            Self::StressNg { version, counts } => (version.clone(), counts.clone()),
            Self::UnixBench { .. } => ("UnixBench's context1".to_owned(), vec![1]),
        };
        let (_cleanup, object) = open(load, counts.iter().copied().max().unwrap_or(1))?;
        let sides: Vec<(usize, &str)> = counts
            .iter()
            .flat_map(|&workers| ["manycore", self.name()].map(|program| (workers, program)))
            .collect();
        let cpus = suite.machine().usable();
        let trials =
            sides.iter().map(|&(workers, _)| trial(&*object, 0, workers, &|_| cpus.clone())).collect();
        let sample = if suite.loads.unixbench { PASS } else { peer_sample_length() };
        let mode = SamplingMode::Slices { slice: sample, settling_time: settling_time(suite.machine()) };
        let pool = WorkerPool::with_shared_object(Arc::clone(&object))?;
        let ours = suite.pool_subject(pool, mode, trials);
        let name = load.section.name;
        let mut subject = PeerSubject {
            ours,
            sides: sides.clone(),
            run_peer: Box::new(move |workers| self.run(name, workers, sample)),
            counter_reader: Rc::clone(&suite.session.counter_reader),
            origin_ns: suite.session.origin_ns,
        };
        let passes = if suite.loads.unixbench { PASSES } else { 2 };
        let treatments = sides.iter().map(|&(workers, program)| {
            treatment(format!("{program} {workers}"), workers, (factor::PROGRAM, program.to_owned()))
        });
        let spec = ExperimentSpec {
            parameters: parameters([("version", version), ("counted", load.worker_noun().to_owned())]),
            treatments: treatments.collect(),
            budget: Budget { min_blocks: passes, ..Budget::seconds(seconds) },
            ..ExperimentSpec::new(format!("{}{name}", id::CONTENTION_PEER), Method::WholeRun, load.unit)
        };
        suite.experiment(spec, &mut subject, part).map_err(as_optional)
    }

    /// Runs the program. Returns its operations, and the seconds in which they were done.
    fn run(&self, load: &str, workers: usize, time: Duration) -> Result<(f64, f64)> {
        let seconds = time.as_secs_f64();
        let rate = match self {
            Self::StressNg { .. } => stress_ng_rate(load, workers, time)?,
            Self::UnixBench { program } => {
                let run = command::run(Command::new(program).arg(time.as_secs().to_string()))?;
                count(&run.stderr).or_else(|| count(&run.stdout)).map(|count| count / seconds).ok_or_else(
                    || {
                        Error::Failed(
                            "context1 of UnixBench was expected to print a COUNT, but did not".to_owned(),
                        )
                    },
                )?
            }
        };
        Ok((rate * seconds, seconds))
    }
}

fn stress_ng_rate(load: &str, workers: usize, time: Duration) -> Result<f64> {
    let since = SystemTime::now();
    let option = |name: &str, value: usize| [OsString::from(format!("--{name}")), value.to_string().into()];
    let mut command = Command::new("stress-ng");
    match load {
        "msg" => command.args(option(load, workers)),
        _ => command.args(option(load, 1)).args(option(&format!("{load}-procs"), workers)),
    };
    command.args(["--metrics-brief", "--stdout", "--timeout", &time.as_secs().to_string()]);
    let run = command::run(&mut command)?;
    let reader: MetricReader = "stress-ng".parse()?;
    let output = RunOutput { stdout: &run.stdout, stderr: &run.stderr, since };
    let figures = reader.read(&output)?;
    // A run without any operation has the rate 0, and counts.
    let rate = figures.first().map(|(_, rate)| *rate).filter(|rate| *rate >= 0.0);
    rate.ok_or_else(|| Error::Failed("stress-ng printed no rate".to_owned()))
}

/// Reads the number from `COUNT|118226|1|lps`, as UnixBench's programs print it.
fn count(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("COUNT|"))?;
    line.split('|').next()?.parse().ok().filter(|&count: &f64| count >= 0.0 && count.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_unixbench_are_read() {
        assert_eq!(count("COUNT|118226|1|lps\n"), Some(118_226.0));
        assert_eq!(count("COUNT|0|1|lps"), Some(0.0));
        for bad in ["", "COUNT", "COUNT|", "COUNT|-1|1|lps", "COUNT|x|1|lps", "COUNT|inf|1|lps"] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }
}
