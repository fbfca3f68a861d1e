//! One file per subcommand. Each reads from top to bottom.

mod audit;
mod bench;
mod cleanup;
mod compare;
mod complete;
mod completions;
mod config;
mod density;
mod doctor;
mod eval;
mod falseshare;
mod fleet;
mod guard;
mod irq;
mod load_worker;
mod man;
mod pin;
mod plan;
mod probe;
mod qos;
mod report;
mod run;
mod scale;
mod sched;
mod schema;
mod spawn;
mod top;
mod topo;
mod trace;
mod tune;
mod undo;
mod vm;
mod worker;

use crate::{
    cli::{Cli, Subcommand},
    failure::Outcome,
    terminal,
};

/// Runs the subcommand of the command line.
///
/// # Errors
/// The failure of the subcommand, which has its exit code.
pub fn run(cli: Cli) -> Outcome {
    let terminal = terminal::of_stdout(cli.color);
    if cli.subcommand.is_live() {
        return top::around::run(terminal);
    }
    match cli.subcommand {
        Subcommand::Topo(args) => topo::run(&args, terminal),
        Subcommand::Top(args) => top::run(&args, terminal),
        Subcommand::Trace(args) => trace::run(&args),
        Subcommand::Plan(args) => plan::run(&args, terminal),
        Subcommand::Eval(args) => eval::run(&args, terminal),
        Subcommand::Bench(args) => bench::run(&args, terminal),
        Subcommand::Compare(args) => compare::run(&args, terminal),
        Subcommand::Density(args) => density::run(&args, terminal),
        Subcommand::Config(args) => config::run(&args),
        Subcommand::Complete(args) => {
            complete::run(&args);
            Ok(())
        }
        Subcommand::Completions(args) => completions::run(&args),
        Subcommand::Man(args) => man::run(&args),
        Subcommand::Worker(args) => worker::run(&args),
        Subcommand::LoadWorker => load_worker::run(),
        Subcommand::Cleanup => {
            cleanup::run();
            Ok(())
        }
        Subcommand::Cookie(args) => guard::cookie(&args),
        Subcommand::Irq(args) => irq::run(&args, terminal),
        Subcommand::Sched(args) => sched::run(&args, terminal),
        Subcommand::Qos(args) => qos::run(&args, terminal),
        Subcommand::Report(args) => report::run(&args, terminal),
        Subcommand::Schema(args) => schema::run(&args, terminal),
        Subcommand::Tune(args) => tune::run(&args, terminal),
        Subcommand::Scale(args) => scale::run(&args, terminal),
        Subcommand::Run(args) => run::run(&args),
        Subcommand::Pin(args) => pin::run(&args),
        Subcommand::Undo(args) => undo::run(&args, terminal),
        Subcommand::Probe(args) => probe::run(&args),
        Subcommand::Spawn(args) => spawn::run(&args, terminal),
        Subcommand::Light(args) => spawn::run_light(&args),
        Subcommand::Falseshare(args) => falseshare::run(&args, terminal),
        Subcommand::Fleet(args) => fleet::run(&args, terminal),
        Subcommand::Audit(args) => audit::run(&args, terminal),
        Subcommand::Doctor(args) => doctor::run(&args, terminal),
        Subcommand::Vm(args) => vm::run(&args, terminal),
        Subcommand::Guard(args) => guard::run(&args.guard),
    }
}
