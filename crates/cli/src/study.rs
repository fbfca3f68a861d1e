//! From the options of `compare`, `scale` and `tune` to those of a study.

use crate::{
    cli::Measuring,
    failure::{Failure, Outcome},
};
use manycore_linux::clock;
use manycore_study::{Options, service::Readiness, split_command};

/// The options that the command line gives.
///
/// # Errors
/// [`Failure::Input`] for a service's command that cannot be split, and for `--precision` with another subcommand than
/// `compare`.
pub fn options(subcommand: &str, args: &Measuring) -> Outcome<Options> {
    if args.precision.is_some() && subcommand != "compare" {
        return Err(Failure::input(format!(
            "--precision applies to compare: {subcommand} measures for its --budget, or as many rounds as --pairs"
        )));
    }
    let ready = match (&args.ready, args.ready_port) {
        (Some(command), _) => Readiness::Command(split_command(command)?),
        (None, Some(port)) => Readiness::Port(port),
        (None, None) => Readiness::Started,
    };
    let service = args.service.as_ref().map(|command| Ok::<_, Failure>((split_command(command)?, ready)));
    Ok(Options {
        budget: args.budget,
        margin: args.equivalent,
        rounds: args.pairs.map(|pairs| pairs as usize),
        warmups: args.warmup as usize,
        readers: args.metric.clone(),
        primary: args.primary.clone(),
        service: service.transpose()?,
        load_cpus: args.load_cpus.clone(),
        timeout: args.timeout,
        ignore_failure: args.ignore_failure,
        seed: args.seed.unwrap_or_else(clock::now_ns),
    })
}
