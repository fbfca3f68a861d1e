//! `manycore qos prove`.

use crate::{
    cli::QosProve,
    failure::{Failure, Outcome},
    measuring::Run,
    output, source,
};
use manycore_analysis::limits::LimitCheck;
use manycore_linux::clock;
use manycore_qos::{
    enforcement::EnforcementReport,
    prove::{Options, Prover},
    text,
};
use manycore_render::terminal::Terminal;
use std::time::Duration;

/// Seconds for each check where no budget is given.
const DEFAULT_SECONDS: f64 = 15.0;

/// The least seconds for a check.
const MIN_SECONDS: f64 = 1.0;

/// Measures each check and prints the results.
///
/// # Errors
/// [`Failure::Check`] if a limit is not enforced, [`Failure::Missing`] if nothing could be shown,
/// [`Failure::Input`] for an invalid node, [`Failure::Interrupted`] after a signal.
pub fn run(args: &QosProve, terminal: Terminal) -> Outcome {
    let options = options(args)?;
    let prover = Prover::new(&options, source::live()?)?;
    let seconds = options.seconds * options.checks.len() as f64;
    let mut run = Run::begin("qos prove", &args.results, terminal, Some(seconds))?;
    let (record, result) = prover.run(&mut run);
    let (report, ending) = match result {
        Ok(report) => (Some(report), Ok(())),
        Err(error) => (None, Err(Failure::from(error))),
    };
    let saved = run.keep(record, ending);
    let Some(report) = report else { return saved };
    output::result(args.results.format, terminal, &report, || text::enforcement(&report))?;
    saved.and(verdict(&report))
}

fn options(args: &QosProve) -> Outcome<Options> {
    let checks = if args.checks.is_empty() { LimitCheck::ALL.to_vec() } else { args.checks.clone() };
    Ok(Options {
        seconds: seconds_each(args.budget, checks.len())?,
        checks,
        bandwidth: args.bandwidth,
        min_bandwidth: args.min_bandwidth,
        priority: args.priority,
        node: args.node,
        margin: args.equivalent,
        seed: args.seed.unwrap_or_else(clock::now_ns),
        resctrl: args.resctrl.resctrl.clone(),
    })
}

/// Returns the seconds for each of `checks` checks.
fn seconds_each(budget: Option<Duration>, checks: usize) -> Outcome<f64> {
    let Some(budget) = budget else { return Ok(DEFAULT_SECONDS) };
    let each = budget.as_secs_f64() / checks as f64;
    if each < MIN_SECONDS {
        return Err(Failure::input(format!(
            "--budget: {checks} checks need at least {checks}s, 1s each: give more, or name fewer checks"
        )));
    }
    Ok(each)
}

fn verdict(report: &EnforcementReport) -> Outcome {
    match report.failed().as_slice() {
        [] if report.any_holds() => Ok(()),
        [] => Err(Failure::missing("nothing could be shown here, for the reasons above")),
        failed => Err(Failure::Check(format!("{}: not enforced", failed.join(" and ")))),
    }
}
