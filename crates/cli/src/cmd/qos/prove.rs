//! `manycore qos prove`.

use crate::{
    cli::{Format, QosProve},
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

/// Measures each check and prints the results.
///
/// # Errors
/// [`Failure::Check`] if a limit is not enforced, [`Failure::Missing`] if nothing could be shown,
/// [`Failure::Input`] for an invalid node, [`Failure::Interrupted`] after a signal.
pub fn run(args: &QosProve) -> Outcome {
    let options = options(args);
    let prover = Prover::new(&options, source::live()?)?;
    let seconds = options.seconds * options.checks.len() as f64;
    let mut run = Run::begin("qos prove", &args.results, seconds)?;
    let (record, result) = prover.run(&mut run);
    let (report, ending) = match result {
        Ok(report) => (Some(report), Ok(())),
        Err(error) => (None, Err(Failure::from(error))),
    };
    let saved = run.keep(record, ending);
    let Some(report) = report else { return saved };
    output::print(&match args.results.format {
        Format::Text => text::enforcement(&report),
        Format::Json => output::json(&report)?,
    })?;
    saved.and(verdict(&report))
}

fn options(args: &QosProve) -> Options {
    Options {
        checks: if args.checks.is_empty() { LimitCheck::ALL.to_vec() } else { args.checks.clone() },
        bandwidth: args.bandwidth,
        min_bandwidth: args.min_bandwidth,
        priority: args.priority,
        seconds: args.seconds,
        node: args.node,
        margin: args.equivalent,
        seed: args.seed.unwrap_or_else(clock::now_ns),
        resctrl: args.resctrl.resctrl.clone(),
    }
}

fn verdict(report: &EnforcementReport) -> Outcome {
    match report.failed().as_slice() {
        [] if report.any_holds() => Ok(()),
        [] => Err(Failure::missing("nothing could be shown here, for the reasons above")),
        failed => Err(Failure::Check(format!("{}: not enforced", failed.join(" and ")))),
    }
}
