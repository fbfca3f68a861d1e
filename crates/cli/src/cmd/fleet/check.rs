//! `manycore fleet check`: this node against an earlier result over its fleet.

use super::report::{baseline, end};
use crate::{
    cli::FleetCheck,
    failure::{Failure, Outcome},
    load, output, signals,
};
use manycore_experiment::interrupt;
use manycore_fleet::{NodeRecord, Options, evaluation::Verdict, judge_against, render};
use manycore_linux::child;
use manycore_text::names::printable;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// CPU time of other processes above which this node is not idle, as a number of CPUs.
const BUSY: f64 = 0.2;

/// The probability with which a healthy node may be called slow, or fast. A check is repeated often.
const LEVEL: f64 = 0.001;

/// How many times its budget the measurement may take. It is then interrupted, and this node is judged by the figures that it
/// has: where the node is as slow as that, they are few, but far from those of the others.
const MOST_BUDGETS: u32 = 2;

/// Measures this node and prints one line about it.
///
/// # Errors
/// [`Failure::Check`]: it is slow. [`Failure::Input`]: the baseline cannot be used. [`Failure::Measured`]: the measurement failed.
pub fn run(args: &FleetCheck) -> Outcome {
    let baseline = baseline(&args.baseline)?;
    signals::catch_interrupts()?;
    let folder = tempfile::tempdir().map_err(Failure::missing)?;
    let record = load::record(&measured(args, folder.path())?)?;
    let host = record.machine.system.hostname.as_deref().map_or_else(|| "this node".to_owned(), printable);
    let others: f64 = record.busiest_others.iter().map(|process| process.cpus).sum();
    if others > BUSY {
        return output::print(&format!(
            "{host}: not idle, so it is not judged: other processes used {others:.1} CPUs\n"
        ));
    }
    let options = Options { least_deficit: args.slow, false_discovery_level: LEVEL, ..Options::default() };
    let mut node = NodeRecord::from_record(&host, &record);
    // The first sample of a figure alone does not show how exact it is.
    node.figures.retain(|figure| !record.interrupted || figure.within.is_some());
    let evaluation = judge_against(&baseline, node, &options);
    let verdict = evaluation.nodes.first().map_or(Verdict::NotJudged, |node| node.verdict);
    let line = match verdict {
        Verdict::Slow => render::answer(&evaluation).join(" "),
        Verdict::Inconclusive => format!("{host}: inconclusive: its figures scatter too much"),
        Verdict::Typical | Verdict::Fast => {
            let from = render::answer(&evaluation).into_iter().nth(1).unwrap_or_default();
            format!("{host}: not found to be slow. {from}").trim_end().to_owned()
        }
        Verdict::NotJudged => {
            format!(
                "{host}: not judged: {} has no nodes of its kind with these figures",
                args.baseline.display()
            )
        }
    };
    output::print(&format!("{line}\n"))?;
    end(&evaluation)
}

/// Measures this node with files in `folder`, and returns the record.
fn measured(args: &FleetCheck, folder: &Path) -> Outcome<PathBuf> {
    let program = std::env::current_exe().map_err(Failure::missing)?;
    let (out, messages) = (folder.join("out"), folder.join("messages"));
    let mut command = Command::new(program);
    command.args(["eval", "--quiet", "--out"]).arg(&out);
    command
        .arg(format!("--only={}", args.only.join(",")))
        .arg(format!("--budget={}s", args.budget.as_secs_f64()));
    let file = File::create(&messages).map_err(Failure::missing)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let most = args.budget * MOST_BUDGETS;
    let ending = ended(&mut child::spawn_terminated(&mut command).map_err(Failure::missing)?, most)?;
    if interrupt::requested() {
        return Err(Failure::Interrupted("interrupted: this node was not judged".to_owned()));
    }
    let record = out.join(crate::folder::RECORD);
    match ending {
        Ending::ByItself(status) if !status.success() => {
            let said = fs::read_to_string(&messages).unwrap_or_default();
            let last = printable(said.lines().last().unwrap_or_default());
            Err(Failure::Measured(format!("the measurement failed ({status}): {last}")))
        }
        Ending::Late if !record.exists() => {
            Err(Failure::Measured(format!("no figure was measured in {} s", most.as_secs())))
        }
        Ending::ByItself(_) | Ending::Late => Ok(record),
    }
}

/// How the measurement ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    ByItself(ExitStatus),
    /// It was interrupted because it took too long.
    Late,
}

/// Waits for the measurement. It is interrupted after `most`, and killed if this process is interrupted.
fn ended(measurement: &mut Child, most: Duration) -> Outcome<Ending> {
    const STEP: Duration = Duration::from_millis(100);
    let end = Instant::now() + most;
    let mut is_late = false;
    loop {
        let ended = child::wait_until(measurement, Instant::now() + STEP).map_err(Failure::missing)?;
        if let Some(status) = ended {
            return Ok(if is_late { Ending::Late } else { Ending::ByItself(status) });
        }
        if interrupt::requested() {
            child::kill(measurement);
            return measurement.wait().map(Ending::ByItself).map_err(Failure::missing);
        }
        if !is_late && Instant::now() >= end {
            is_late = true;
            kill_process(Pid::from_child(measurement), Signal::INT).map_err(Failure::missing)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_that_takes_too_long_is_interrupted() {
        let start = |script: &str| {
            child::spawn_terminated(Command::new("sh").args(["-c", script]).stdout(Stdio::null())).unwrap()
        };
        let mut late = start("trap 'exit 130' INT; while :; do sleep 0.01; done");
        assert_eq!(ended(&mut late, Duration::from_millis(300)).unwrap(), Ending::Late);
        let mut failed = start("exit 3");
        let ending = ended(&mut failed, Duration::from_mins(1)).unwrap();
        assert!(matches!(ending, Ending::ByItself(status) if status.code() == Some(3)), "{ending:?}");
    }
}
