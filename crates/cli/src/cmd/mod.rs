//! One file per subcommand. Each reads from top to bottom.

mod audit;
mod bench;
mod cleanup;
mod compare;
mod complete;
mod completions;
mod config;
mod eval;
mod falseshare;
mod guard;
mod irq;
mod man;
mod pin;
mod plan;
mod probe;
mod qos;
mod report;
mod run;
mod scale;
mod schema;
mod spawn;
mod topo;
mod tune;
mod undo;
mod vm;
mod worker;

use crate::{
    cli::{Cli, Subcommand},
    failure::Outcome,
};

/// Runs the subcommand of the command line.
///
/// # Errors
/// The failure of the subcommand, which has its exit code.
pub fn run(cli: Cli) -> Outcome {
    match cli.subcommand {
        Subcommand::Topo(args) => topo::run(&args),
        Subcommand::Plan(args) => plan::run(&args),
        Subcommand::Eval(args) => eval::run(&args),
        Subcommand::Bench(args) => bench::run(&args),
        Subcommand::Compare(args) => compare::run(&args),
        Subcommand::Config(args) => config::run(&args),
        Subcommand::Complete(args) => {
            complete::run(&args);
            Ok(())
        }
        Subcommand::Completions(args) => completions::run(&args),
        Subcommand::Man(args) => man::run(&args),
        Subcommand::Worker(args) => worker::run(&args),
        Subcommand::Cleanup => {
            cleanup::run();
            Ok(())
        }
        Subcommand::Cookie(args) => guard::cookie(&args),
        Subcommand::Irq(args) => irq::run(&args),
        Subcommand::Qos(args) => qos::run(&args),
        Subcommand::Report(args) => report::run(&args),
        Subcommand::Schema(args) => schema::run(&args),
        Subcommand::Tune(args) => tune::run(&args),
        Subcommand::Scale(args) => scale::run(&args),
        Subcommand::Run(args) => run::run(&args),
        Subcommand::Pin(args) => pin::run(&args),
        Subcommand::Undo(args) => undo::run(&args),
        Subcommand::Probe(args) => probe::run(&args),
        Subcommand::Spawn(args) => spawn::run(&args),
        Subcommand::Light(args) => spawn::run_light(&args),
        Subcommand::Falseshare(args) => falseshare::run(&args),
        Subcommand::Audit(args) => audit::run(&args),
        Subcommand::Vm(args) => vm::run(&args),
        Subcommand::Guard(args) => guard::run(&args),
    }
}
