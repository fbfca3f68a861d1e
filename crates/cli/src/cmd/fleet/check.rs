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
use std::{
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// CPU time of other processes above which this node is not idle, as a number of CPUs.
const BUSY: f64 = 0.2;

/// Measures this node and prints one line about it.
///
/// # Errors
/// [`Failure::Check`]: it is slow. [`Failure::Input`]: the baseline cannot be used. [`Failure::Measured`]: the measurement failed.
pub fn run(args: &FleetCheck) -> Outcome {
    let baseline = baseline(&args.baseline)?;
    signals::catch_interrupts()?;
    let folder = tempfile::tempdir().map_err(Failure::missing)?;
    let program = std::env::current_exe().map_err(Failure::missing)?;
    let mut command = Command::new(program);
    command.args(["eval", "--quiet", "--out"]).arg(folder.path());
    command
        .arg(format!("--only={}", args.only.join(",")))
        .arg(format!("--budget={}s", args.budget.as_secs_f64()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = ended(&mut child::spawn_terminated(&mut command).map_err(Failure::missing)?)?;
    if interrupt::requested() {
        return Err(Failure::Interrupted("interrupted: this node was not judged".to_owned()));
    }
    if !status.success() {
        return Err(Failure::Measured(format!("the measurement failed: {status}")));
    }
    let record = load::record(&folder.path().join(crate::folder::RECORD))?;
    let host = record.machine.system.hostname.as_deref().map_or_else(|| "this node".to_owned(), printable);
    let others: f64 = record.busiest_others.iter().map(|process| process.cpus).sum();
    if others > BUSY {
        return output::print(&format!(
            "{host}: not idle, so it is not judged: other processes used {others:.1} CPUs\n"
        ));
    }
    let options = Options { least_deficit: args.slow, ..Options::default() };
    let evaluation = judge_against(&baseline, NodeRecord::from_record(&host, &record), &options);
    let verdict = evaluation.nodes.first().map_or(Verdict::NotJudged, |node| node.verdict);
    let line = match verdict {
        Verdict::Slow => render::answer(&evaluation).join(" "),
        Verdict::Inconclusive => format!("{host}: inconclusive: its figures scatter too much"),
        Verdict::Typical | Verdict::Fast => format!("{host}: not slow"),
        Verdict::NotJudged => {
            format!("{host}: not judged: {} has no nodes of its kind", args.baseline.display())
        }
    };
    output::print(&format!("{line}\n"))?;
    end(&evaluation)
}

/// Waits for the measurement, which is ended if this process is interrupted.
fn ended(measurement: &mut Child) -> Outcome<ExitStatus> {
    const STEP: Duration = Duration::from_millis(100);
    loop {
        let ended = child::wait_until(measurement, Instant::now() + STEP).map_err(Failure::missing)?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if interrupt::requested() {
            child::kill(measurement);
            return measurement.wait().map_err(Failure::missing);
        }
    }
}
