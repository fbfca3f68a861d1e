//! The command line. Help, completions and man pages are generated from it.
#![allow(
    missing_docs,
    reason = "a doc comment on a flattened field or a subcommand would replace the one on its type"
)]

mod audit;
mod bench;
mod falseshare;
mod irq;
mod measure;
mod place;
mod plan;
mod qos;
mod show;
mod spawn;
mod value;
mod vm;

pub use audit::Audit;
pub use bench::Bench;
pub use falseshare::{EngineChoice, Falseshare};
pub use irq::{Irq, IrqPlace, IrqShow, IrqSubcommand};
pub use measure::{Command, Compare, Eval, EvalBudget, Measuring, Results, Scale, Tune};
pub use place::{Enforcement, PinArgs, PlacementArgs, ProbeArgs, RunArgs, Undo};
pub use plan::PlanArgs;
pub use qos::{Qos, QosClear, QosProve, QosSet, QosShow, QosSubcommand, QosWatch, Resctrl, TargetArgs};
pub use show::{Completions, Man, Report, Schema, Topo, Worker};
pub use spawn::{ALL as ALL_RUNTIMES, Light, Spawn, WorkChoice};
pub use vm::{Vm, VmCheck, VmDialect, VmList, VmOrder, VmPlan, VmSubcommand, VmTop};

use clap::{Args, Parser, ValueEnum};
use manycore_guard_daemon::{Cookie, Guard};
use std::path::PathBuf;

/// Show the topology of a Linux machine, measure how programs scale on it, and place their threads
#[derive(Debug, Parser)]
#[command(
    name = "manycore",
    version,
    arg_required_else_help = true,
    max_term_width = 120,
    after_help = EXIT_CODES
)]
pub struct Cli {
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  the requested check failed
    2  the command line or an input file is wrong
    3  a required permission, file system or program is missing, or an output cannot be written
    4  a measured command or worker failed
  130  interrupted; the results so far are saved";

/// The subcommand to run.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    Topo(Topo),
    Plan(PlanArgs),
    Eval(Eval),
    Bench(Bench),
    Compare(Compare),
    Scale(Scale),
    Tune(Tune),
    Run(RunArgs),
    Pin(PinArgs),
    Audit(Audit),
    Irq(Irq),
    Qos(Qos),
    Falseshare(Falseshare),
    Spawn(Spawn),
    Vm(Vm),
    Guard(Guard),
    Undo(Undo),
    Report(Report),
    Schema(Schema),
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    #[command(hide = true)]
    Worker(Worker),
    #[command(hide = true)]
    Probe(ProbeArgs),
    #[command(hide = true)]
    Light(Light),
    #[command(hide = true)]
    Cookie(Cookie),
    /// Clean up after another manycore process; manycore starts this itself.
    #[command(hide = true)]
    Cleanup,
}

/// Which machine to describe.
#[derive(Debug, Args)]
pub struct Source {
    /// Read the machine from the sysfs and procfs trees below DIR, or from a file written by `topo --save`
    #[arg(long, value_name = "DIR", default_value = "/", conflicts_with = "machine")]
    pub root: PathBuf,
    /// Read the machine from FILE, written by `topo --save` or `topo --format json`
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
}

impl Source {
    /// Returns whether this is the machine on which the program runs.
    pub fn is_this(&self) -> bool {
        self.machine.is_none() && self.root == std::path::Path::new("/")
    }
}

/// The output format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for reading.
    Text,
    /// JSON for other programs.
    Json,
}
