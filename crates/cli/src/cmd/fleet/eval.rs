//! `manycore fleet eval`: measures many hosts.

use super::{
    collecting::{Sends, collect, count},
    hosts::Targets,
    report,
};
use crate::{
    cli::{EvalBudget, FleetEval},
    failure::{Failure, Outcome},
    folder, output,
};
use manycore_fleet::{
    evaluation::{FleetEvaluation, Node, Verdict},
    folder::HostState,
};
use manycore_render::terminal::Terminal;
use manycore_text::units::counted;

/// Measures, keeps the records, and reports which nodes are slow.
///
/// # Errors
/// Those of [`collect`]; [`Failure::Check`] where a node is slow or sent no record.
pub fn run(args: &FleetEval, terminal: Terminal) -> Outcome {
    check_time(args)?;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => folder::new_in(&args.base.results, "fleet")?,
    };
    let quiet = args.hosts.quiet;
    let targets = &Targets::of(&args.hosts)?;
    let measure =
        |again: &[String]| collect(&args.hosts, targets, arguments(args), Sends::Record, &path, again);
    let mut collected = Ok(measure(&[])?);
    let mut evaluation = report::of_run(&path, &args.judging, quiet)?;
    let doubtful = doubtful(&evaluation);
    if args.confirm && !doubtful.is_empty() {
        if !quiet {
            output::note(&format!("{} to measure again.", counted(doubtful.len(), "node")));
        }
        // The folder has one writer.
        drop(collected);
        // If it is interrupted, the first measurement is reported.
        collected = measure(&doubtful);
        evaluation = report::of_run(&path, &args.judging, quiet)?;
    }
    report::write_page(&evaluation, &path, &report::page_of(&path), quiet)?;
    report::print_text(&evaluation, args.extent, terminal)?;
    let collected = collected?;
    report::end(&evaluation)?;
    let missing = collected.run().hosts.len() - count(&collected, HostState::Done);
    if missing == 0 {
        return Ok(());
    }
    Err(Failure::Check(format!("{} sent no record", counted(missing, "host"))))
}

/// Refuses a budget for which hosts get no time: their records would be lost.
fn check_time(args: &FleetEval) -> Outcome {
    match args.budget.duration() {
        Some(budget) if budget >= args.hosts.time => Err(Failure::input(format!(
            "--budget {} s is not within the {} s that a host may work: give a longer --time",
            budget.as_secs(),
            args.hosts.time.as_secs()
        ))),
        _ => Ok(()),
    }
}

/// Returns the nodes that a second measurement may decide.
fn doubtful(evaluation: &FleetEvaluation) -> Vec<String> {
    let is_doubtful = |node: &&Node| matches!(node.verdict, Verdict::Slow | Verdict::Inconclusive);
    evaluation.nodes.iter().filter(is_doubtful).map(|node| node.name.clone()).collect()
}

/// Returns the arguments of `eval` on each host.
fn arguments(args: &FleetEval) -> Vec<String> {
    let EvalBudget { standard, full, .. } = args.budget;
    let budget = match args.budget.duration() {
        Some(budget) => format!("--budget={}s", budget.as_secs_f64()),
        None if full => "--full".to_owned(),
        None if standard => "--standard".to_owned(),
        None => "--quick".to_owned(),
    };
    vec!["eval".to_owned(), budget, format!("--only={}", args.only.join(",")), "--quiet".to_owned()]
}
