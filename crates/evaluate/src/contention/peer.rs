//! The same loads by other programs, interleaved with ours on the same machine.

use crate::contention::{Contended, PASS, PASSES, beside, open, trial};
use crate::error::{Error, Result};
use crate::{Stage, beside::Both, optional, parameters, treatment};
use manycore_experiment::pace::settle;
use manycore_experiment::record::{Method, id};
use manycore_experiment::{
    command,
    crew::Crew,
    engine::{Budget, Design},
    live::Live,
    metric::{Output, Reader},
    pace::Pace,
};
use std::{
    ffi::OsString,
    path::PathBuf,
    process::Command,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Largest number of processes that stress-ng starts on a semaphore.
const STRESS_NG_MOST: usize = 64;

/// Another program that does the same as one of our loads.
#[derive(Clone)]
pub(super) enum Peer {
    StressNg { version: String, counts: Vec<usize> },
    UnixBench { program: PathBuf },
}

/// Finds the program for `load`. A program that is not installed is noted.
pub(super) fn of(stage: &mut Stage, load: &Contended, counts: &[usize]) -> Result<Option<Peer>> {
    match load.section.name {
        "sem" | "sem-sysv" | "msg" => stress_ng(stage, load, counts),
        "pipe" => unixbench(stage),
        _ => Ok(None),
    }
}

fn stress_ng(stage: &mut Stage, load: &Contended, counts: &[usize]) -> Result<Option<Peer>> {
    let version = match command::run(Command::new("stress-ng").arg("--version")) {
        Ok(output) => output.text.split(" (").next().unwrap_or_default().replace(", version", ""),
        Err(manycore_experiment::Error::Interrupted) => return Err(Error::Interrupted),
        Err(_) => {
            let cure = "stress-ng is not installed (Debian: apt install stress-ng; openEuler: dnf install stress-ng)";
            stage.session.miss(&format!("comparison of {} with stress-ng", load.section.name), cure);
            return Ok(None);
        }
    };
    let cpus = stage.session.record.machine.usable().len();
    // Its semaphores need at least two processes. More processes than CPUs are not a useful comparison.
    let least = if load.pairs { 1 } else { 2 };
    let fits = |count: &&usize| (least..=cpus.max(least).min(STRESS_NG_MOST)).contains(*count);
    let fitting: Vec<usize> = counts.iter().filter(fits).copied().collect();
    let mut ends: Vec<usize> = fitting.first().into_iter().chain(fitting.last()).copied().collect();
    ends.dedup();
    Ok((!ends.is_empty()).then_some(Peer::StressNg { version: version.trim().to_owned(), counts: ends }))
}

fn unixbench(stage: &mut Stage) -> Result<Option<Peer>> {
    let asked = stage.wish.unixbench_dir.clone();
    let places: Vec<PathBuf> = match &asked {
        // UnixBench builds its programs into pgms/.
        Some(folder) => vec![folder.join("pgms"), folder.clone()],
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
    };
    let found = places.into_iter().map(|place| place.join("context1")).find(|program| program.is_file());
    match (found, asked) {
        (Some(program), _) => Ok(Some(Peer::UnixBench { program })),
        (None, Some(folder)) => Err(Error::invalid(format!(
            "--unixbench-dir {}: found no context1 there or in its pgms/ (build it with make)",
            folder.display()
        ))),
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
        stage: &mut Stage,
        load: &Contended,
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
        let cpus = stage.session.record.machine.usable();
        let trials =
            sides.iter().map(|&(workers, _)| trial(&*object, 0, workers, &|_| cpus.clone())).collect();
        let sample = if stage.wish.unixbench { PASS } else { beside() };
        let pace = Pace::Slices { slice: sample, settle: settle(&stage.session.record.machine) };
        let crew = Crew::sharing(Arc::clone(&object))?;
        let ours = Live::new(crew, Rc::clone(&stage.session.observer), pace, trials, stage.session.origin_ns);
        let name = load.section.name;
        let mut subject = Both {
            ours,
            sides: sides.clone(),
            theirs: Box::new(move |workers| self.run(name, workers, sample)),
            observer: Rc::clone(&stage.session.observer),
            origin_ns: stage.session.origin_ns,
        };
        let passes = if stage.wish.unixbench { PASSES } else { 2 };
        let treatments = sides.iter().map(|&(workers, program)| {
            treatment(format!("{program} {workers}"), workers, ("program", program.to_owned()))
        });
        let design = Design {
            id: format!("{}{name}", id::CONTENTION_PEER),
            method: Method::Whole,
            unit: load.unit.to_owned(),
            metrics: Vec::new(),
            parameters: parameters([("version", version), ("counted", load.counted().to_owned())]),
            treatments: treatments.collect(),
            budget: Budget { least_blocks: passes, ..Budget::seconds(seconds) },
        };
        stage.experiment(design, &mut subject, part).map_err(optional)
    }

    /// Runs the program. Returns its operations, and the seconds in which they were done.
    fn run(&self, load: &str, workers: usize, time: Duration) -> Result<(f64, f64)> {
        let seconds = time.as_secs_f64();
        let rate = match self {
            Self::StressNg { .. } => stress_ng_rate(load, workers, time)?,
            Self::UnixBench { program } => {
                let run = command::run(Command::new(program).arg(time.as_secs().to_string()))?;
                count(&run.complaints).or_else(|| count(&run.text)).map(|count| count / seconds).ok_or_else(
                    || Error::Failed("UnixBench's context1 printed no line with COUNT".to_owned()),
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
    let reader: Reader = "stress-ng".parse().map_err(Error::Failed)?;
    let output = Output { stdout: &run.text, stderr: &run.complaints, since };
    let figures = reader.read(&output).map_err(Error::Failed)?;
    // A run without any operation has rate 0 and counts as well.
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
