//! From the options of `compare`, `scale` and `tune` to those of a study.

use crate::{
    cli::{Life, Measuring},
    failure::{Failure, Outcome},
    quoted_command, shell,
};
use manycore_linux::clock;
use manycore_stats::Estimator;
use manycore_study::{
    Options,
    life::Hooks,
    service::{Readiness, ServiceSource},
};
use std::time::Duration;

/// The budget without `--budget` and without a user's default.
const DEFAULT_BUDGET: Duration = Duration::from_mins(1);

/// The command that loads the cluster-aware scheduler: this program. The policy follows.
const CLUSTER_LOADER: [&str; 5] = ["/proc/self/exe", "sched", "run", "--quiet", "--policy"];

/// The options that the command line gives.
///
/// # Errors
/// [`Failure::Input`] for a service's command that cannot be split or needs a shell, and for `--precision` with another subcommand than
/// `compare`.
pub fn options(subcommand: &str, args: &Measuring) -> Outcome<Options> {
    if args.precision.is_some() && subcommand != "compare" {
        return Err(Failure::input(format!(
            "--precision applies to compare: {subcommand} measures for its --budget, or as many rounds as --pairs"
        )));
    }
    let ready = match (&args.ready, args.ready_port) {
        (Some(command), _) => Readiness::Command(quoted_command::split(command)?),
        (None, Some(port)) => Readiness::Port(port),
        (None, None) => Readiness::Started,
    };
    let service = match &args.service {
        Some(command) => Some(ServiceSource::Command(quoted_command::split(command)?, ready)),
        None if args.service_pid.is_empty() => None,
        None => Some(ServiceSource::Running(args.service_pid.clone())),
    };
    Ok(Options {
        budget: args.budget.filter(|_| !args.is_default_budget),
        default_budget: args.budget.unwrap_or(DEFAULT_BUDGET),
        margin: args.equivalent,
        by: Estimator::Median,
        rounds: args.pairs.map(|pairs| pairs as usize),
        warmups: args.warmup as usize,
        readers: args.metric.clone(),
        primary: args.primary.clone(),
        sharing: args.sharing,
        service,
        load_cpus: args.load_cpus.clone(),
        timeout: args.timeout,
        ignored_failures: args.life.ignore_failure.clone().unwrap_or_default(),
        input: args.life.input.clone(),
        drop_caches: args.life.drop_caches,
        cluster_loader: CLUSTER_LOADER.map(str::to_owned).to_vec(),
        shell: args.life.shell.words().map(<[String]>::to_vec),
        seed: args.seed.unwrap_or_else(clock::now_ns),
    })
}

/// Returns the commands around the runs of each of `variants` variants.
///
/// # Errors
/// [`Failure::Input`] for an option that is given neither once nor for each variant, and for a command that cannot be
/// split.
pub fn hooks(life: &Life, variants: usize) -> Outcome<Vec<Hooks>> {
    let of = |option: &str, lines: &[String]| shell::for_each_variant(option, lines, variants, &life.shell);
    let (setup, prepare) = (of("--setup", &life.setup)?, of("--prepare", &life.prepare)?);
    let (conclude, cleanup) = (of("--conclude", &life.conclude)?, of("--cleanup", &life.cleanup)?);
    let each = setup.into_iter().zip(prepare).zip(conclude).zip(cleanup);
    Ok(each
        .map(|(((setup, prepare), conclude), cleanup)| Hooks { setup, prepare, conclude, cleanup })
        .collect())
}

/// Returns the seconds that a run is planned to take; unknown with a number of pairs, as long as none has been timed.
pub fn planned_seconds(options: &Options) -> Option<f64> {
    options.rounds.is_none().then(|| options.time().as_secs_f64())
}
