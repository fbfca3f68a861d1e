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
    env,
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

/// A check that would find only a deficit above this share says nothing of a node that it does not find slow.
const BLIND: f64 = 0.5;

/// What is said of a node that was judged and is not slow. The health check for Slurm looks for it.
const NOT_SLOW: &str = "not found to be slow";

/// How long the measurement may take to end once it is asked to, before it is asked more firmly: by SIGINT, SIGTERM and SIGKILL.
/// With the time before, this is less than the health check for Slurm allows.
const TO_END: Duration = Duration::from_secs(3);

/// Measures this node and prints one line about it.
///
/// # Errors
/// [`Failure::Check`]: it is slow. [`Failure::Input`]: the baseline cannot be used. [`Failure::Measured`]: the measurement failed.
pub fn run(args: &FleetCheck) -> Outcome {
    let baseline = baseline(&args.baseline)?;
    signals::catch_interrupts()?;
    let folder = tempfile::tempdir().map_err(Failure::missing)?;
    let record = load::record(&measured(args, folder.path())?)?;
    // Slurm's name of a node need not be that of its host.
    let node = env::var("SLURMD_NODENAME").ok();
    let host = node.as_deref().or(record.machine.system.hostname.as_deref());
    let host = host.map_or_else(|| "this node".to_owned(), printable);
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
        Verdict::Typical | Verdict::Fast
            if evaluation.detectable().is_none_or(|(least, _)| least > BLIND) =>
        {
            format!("{host}: not judged: the figures scatter so much that hardly any deficit would be found")
        }
        Verdict::Typical | Verdict::Fast => {
            let from = render::answer(&evaluation).into_iter().nth(1).unwrap_or_default();
            format!("{host}: {NOT_SLOW}. {from}").trim_end().to_owned()
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
    let program = env::current_exe().map_err(Failure::missing)?;
    let (out, messages) = (folder.join("out"), folder.join("messages"));
    let mut command = Command::new(program);
    command.args(["eval", "--quiet", "--out"]).arg(&out);
    command
        .arg(format!("--only={}", args.only.join(",")))
        .arg(format!("--budget={}s", args.budget.as_secs_f64()));
    let file = File::create(&messages).map_err(Failure::missing)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let most = args.budget * MOST_BUDGETS;
    let ending = ended(&mut child::spawn_terminated(&mut command).map_err(Failure::missing)?, most, TO_END)?;
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
        Ending::Killed => Err(Failure::Measured(format!(
            "the measurement did not end after {} s, and was killed: this node was not judged",
            most.as_secs()
        ))),
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
    /// It took too long, and did not end when it was interrupted.
    Killed,
}

/// Waits for the measurement. It is interrupted after `most`, and killed if it does not end then, or if this process is
/// interrupted. `to_end` is how long it may take after each signal.
fn ended(measurement: &mut Child, most: Duration, to_end: Duration) -> Outcome<Ending> {
    const STEP: Duration = Duration::from_millis(100);
    let mut end = Instant::now() + most;
    let mut signals = [Signal::INT, Signal::TERM].into_iter();
    let mut is_late = false;
    loop {
        let ended = child::wait_until(measurement, Instant::now() + STEP).map_err(Failure::missing)?;
        if let Some(status) = ended {
            return Ok(if is_late { Ending::Late } else { Ending::ByItself(status) });
        }
        let is_time = Instant::now() >= end;
        let signal = if is_time { signals.next() } else { None };
        if interrupt::requested() || is_time && signal.is_none() {
            child::kill(measurement);
            return Ok(Ending::Killed);
        }
        if let Some(signal) = signal {
            is_late = true;
            end = Instant::now() + to_end;
            kill_process(Pid::from_child(measurement), signal).map_err(Failure::missing)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn the_health_check_knows_the_words_for_a_node_that_is_not_slow() {
        let script = include_str!("../../../../../packaging/slurm/manycore-health-check");
        assert!(script.contains(&format!("*\": {NOT_SLOW}\"*)")), "{script}");
    }

    #[test]
    fn a_measurement_that_takes_too_long_is_interrupted() {
        let start = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdout(Stdio::piped());
            let mut started = child::spawn_terminated(&mut shell).unwrap();
            // Once it prints, its traps are set.
            BufReader::new(started.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            started
        };
        let (soon, long) = (Duration::from_millis(100), Duration::from_mins(1));
        let mut late = start("trap 'exit 130' INT; echo; while :; do sleep 0.01; done");
        assert_eq!(ended(&mut late, soon, long).unwrap(), Ending::Late);
        let mut deaf = start("trap '' INT; trap 'exit 143' TERM; echo; while :; do sleep 0.01; done");
        assert_eq!(ended(&mut deaf, soon, soon * 50).unwrap(), Ending::Late);
        let mut stubborn = start("trap '' INT TERM; echo; while :; do sleep 0.01; done");
        assert_eq!(ended(&mut stubborn, soon, soon).unwrap(), Ending::Killed);
        let mut failed = start("echo; exit 3");
        let ending = ended(&mut failed, long, long).unwrap();
        assert!(matches!(ending, Ending::ByItself(status) if status.code() == Some(3)), "{ending:?}");
    }
}
