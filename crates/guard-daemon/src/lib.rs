//! The command line of the guard: `manycore guard`, and the program `manycore-guard`, which holds nothing but
//! the guard. Parses options, catches signals and prints; the guard itself is [`manycore_guard`].
#![forbid(unsafe_code)]

mod args;
mod failure;
mod output;
mod signals;

pub use args::{Cookie, Guard, GuardCheck, GuardSubcommand, GuardWhy, OutputFormat};
pub use failure::Failure;

use manycore_erlang::{Node, check_cookie};
use manycore_guard::{
    check,
    outlook::{self, Answer, Observation, WhyReport},
    run::{self, Options},
    text,
};
use signals::Signals;

/// Runs the guard or one of its subcommands.
///
/// # Errors
/// [`Failure::Guard`] for invalid rules, missing privileges or files; [`Failure::Output`] if the output cannot
/// be written.
pub fn run(args: &Guard) -> Result<(), Failure> {
    match &args.subcommand {
        None => guard(args),
        Some(GuardSubcommand::Check(args)) => output::print(&check::check(args.file.as_deref())?.text()),
        Some(GuardSubcommand::Why(args)) => why(args),
        Some(GuardSubcommand::Cookie(args)) => cookie(args),
    }
}

/// Runs the guard until a signal ends it.
fn guard(args: &Guard) -> Result<(), Failure> {
    let options = Options {
        rules: args.rules.clone(),
        cgroups: args.cgroup.clone(),
        is_dry: args.dry_run,
        queries_erlang: args.beam,
        event_log: args.events.clone(),
        metrics: args.metrics.clone(),
        prints_json: args.format == OutputFormat::Json,
    };
    let signals = Signals::catch().map_err(Failure::Signals)?;
    Ok(run::run(&options, Box::new(signals), output::Streams)?)
}

/// Prints what would happen to a process.
fn why(args: &GuardWhy) -> Result<(), Failure> {
    let answer = match outlook::query(args.pid)? {
        Some(answer) => answer,
        None => {
            output::note("manycore: no guard runs here, so growth is observed for 2 s");
            let signals = Signals::catch().map_err(Failure::Signals)?;
            let observation =
                Observation { pid: args.pid, rules: args.rules.clone(), cgroups: args.cgroup.clone() };
            observation.run(|time| signals.wait(time))?
        }
    };
    if answer.is_dry {
        output::note("manycore: the guard that answers is a dry run: it ends no process");
    }
    match args.format {
        OutputFormat::Text => print_why(args, &answer),
        OutputFormat::Json => print_why_json(args, &answer),
    }
}

fn print_why(args: &GuardWhy, answer: &Answer) -> Result<(), Failure> {
    output::print(&answer.outlooks.iter().map(text::outlook).collect::<Vec<_>>().join("\n"))?;
    if !args.beam {
        return Ok(());
    }
    let node = Node::of(args.pid)?;
    output::print(&format!("{}\n", text::node(node.name(), &node.largest_process()?)))
}

/// Prints one JSON object, also if the Erlang node cannot be queried.
fn print_why_json(args: &GuardWhy, answer: &Answer) -> Result<(), Failure> {
    let largest = args.beam.then(|| Node::of(args.pid)?.largest_process()).transpose();
    let report = WhyReport::new(answer, largest.as_ref().ok().and_then(Option::as_ref));
    output::print(&output::json(&report)?)?;
    Ok(largest.map(drop)?)
}

/// Checks the cookie file of an Erlang node. The guard runs this as the user of the node.
///
/// # Errors
/// There is no cookie that belongs to this user.
pub fn cookie(args: &Cookie) -> Result<(), Failure> {
    Ok(check_cookie(&args.home)?)
}
