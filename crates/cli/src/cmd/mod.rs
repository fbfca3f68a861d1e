//! One file per verb. Each reads from top to bottom.

mod audit;
mod bench;
mod cleanup;
mod compare;
mod completions;
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
    cli::{Cli, Verb},
    failure::Outcome,
};

/// Runs the verb of the command line.
///
/// # Errors
/// The failure of the verb, which has its exit code.
pub fn run(cli: Cli) -> Outcome {
    match cli.verb {
        Verb::Topo(args) => topo::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Eval(args) => eval::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Man(args) => man::run(&args),
        Verb::Worker(args) => worker::run(&args),
        Verb::Cleanup => {
            cleanup::run();
            Ok(())
        }
        Verb::Cookie(args) => guard::cookie(&args),
        Verb::Irq(args) => irq::run(&args),
        Verb::Qos(args) => qos::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Schema(args) => schema::run(&args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Scale(args) => scale::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Pin(args) => pin::run(&args),
        Verb::Undo(args) => undo::run(&args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Spawn(args) => spawn::run(&args),
        Verb::Light(args) => spawn::run_light(&args),
        Verb::Falseshare(args) => falseshare::run(&args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Vm(args) => vm::run(&args),
        Verb::Guard(args) => guard::run(&args),
    }
}
