//! The command line. Help, completions and man pages are generated from it.
#![allow(
    missing_docs,
    reason = "a doc comment on a flattened field or a subcommand would replace the one on its type"
)]

mod audit;
mod bench;
mod config;
mod density;
mod estimator;
mod falseshare;
mod fleet;
mod gate;
mod guard;
pub mod help;
mod irq;
mod life;
mod measure;
mod option_file;
mod place;
mod plan;
mod qos;
mod sched;
mod show;
pub mod slip;
mod spawn;
mod top;
mod trace;
mod value;
mod variants;
mod vm;

pub use audit::Audit;
pub use bench::Bench;
pub use config::Config;
pub use density::{ContainerProgram, DensityArgs, GeneratorArgs, KindArgs, LoadHostArgs};
pub use estimator::EstimatorArgs;
pub use falseshare::{EngineChoice, Falseshare};
pub use fleet::{
    Fleet, FleetAudit, FleetCheck, FleetEval, FleetFormat, FleetHosts, FleetJudging, FleetReport,
    FleetRunArgs, FleetSubcommand, FleetTopo,
};
pub use gate::{ExportArgs, GateArgs, InconclusiveChoice};
pub use guard::GuardArgs;
pub use irq::{Irq, IrqPlace, IrqShow, IrqSubcommand};
pub use life::Life;
pub use measure::{Command, Eval, EvalBudget, Measuring, Results, ResultsBase, Scale, Tune};
pub use place::{Enforcement, PinArgs, PlacementArgs, ProbeArgs, RunArgs, Undo};
pub use plan::PlanArgs;
pub use qos::{Qos, QosClear, QosProve, QosSet, QosShow, QosSubcommand, QosWatch, Resctrl, TargetArgs};
pub use sched::{Sched, SchedRun, SchedShow, SchedSubcommand};
pub use show::{Complete, Completions, Doctor, Man, Report, Schema, Topo, Worker};
pub use spawn::{ALL as ALL_RUNTIMES, Light, Spawn, WorkChoice};
pub use top::{Top, TopOrder, TopWork};
pub use trace::Trace;
pub use variants::{Compare, VariantArgs};
pub use vm::{Vm, VmCheck, VmDialect, VmList, VmOrder, VmPlan, VmSubcommand, VmTop};

use crate::{
    failure::Failure,
    output,
    settings::{self, Settings},
    terminal,
};
use clap::{
    Args, CommandFactory, FromArgMatches, Parser, ValueEnum,
    builder::styling::{Style, Styles},
};
use manycore_guard_daemon::Cookie;
use manycore_render::{document::Extent, terminal::Mark};
use std::{cell::LazyCell, ffi::OsString, path::PathBuf};

/// measure how programs scale on this machine, and place them
#[derive(Debug, Parser)]
#[command(
    name = "manycore",
    version,
    arg_required_else_help = true,
    styles = HELP_STYLES,
    after_help = EXIT_CODES
)]
pub struct Cli {
    #[command(subcommand)]
    pub subcommand: Subcommand,
    /// When to color the output
    #[arg(long, value_enum, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

/// When the output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set or TERM is dumb.
    Auto,
    /// Also in files and pipes.
    Always,
    /// Never.
    Never,
}

impl From<ColorChoice> for clap::ColorChoice {
    fn from(choice: ColorChoice) -> Self {
        match choice {
            ColorChoice::Auto => Self::Auto,
            ColorChoice::Always => Self::Always,
            ColorChoice::Never => Self::Never,
        }
    }
}

/// The styles of help texts, as those of results.
const HELP_STYLES: Styles = Styles::styled()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(Style::new().bold())
    .placeholder(Style::new())
    .error(Mark::Bad.style())
    .invalid(Mark::Warning.style())
    .valid(Mark::Good.style());

impl Cli {
    /// Parses a command line, with the user's settings as defaults; the first word is the name of the program. Prints
    /// help if the line asks for it.
    ///
    /// # Errors
    /// [`Failure::Input`] with the line that was probably meant, if there is one, or with the setting that is wrong.
    /// Other errors are printed by clap, which ends the program.
    pub fn from_words(words: &[OsString]) -> Result<Self, Failure> {
        let (mut parsed, subcommand) = Self::parse_by(Self::command, words)?;
        if let Self { subcommand: Subcommand::Density(args), .. } = &parsed {
            let program = Self::command();
            let known = program.find_subcommand(&subcommand).unwrap_or(&program);
            let expanded = match (&args.spec, &args.preset) {
                (Some(path), _) => Some(option_file::expand(words, known, path)?),
                (None, Some(name)) => Some(option_file::expand_preset(words, known, name)?),
                (None, None) => None,
            };
            if let Some(words) = expanded {
                return Self::from_words(&words);
            }
        }
        if !settings::are_used_by(&subcommand) {
            return Ok(parsed);
        }
        let settings = Settings::load(&LazyCell::new(Self::command))?;
        if let Some(note) = settings.note() {
            output::note(&note);
        }
        if settings.all.is_empty() {
            return Ok(parsed);
        }
        let is_named = parsed.subcommand.measuring().is_some_and(|measuring| measuring.budget.is_some());
        let (mut parsed, _) = Self::parse_by(|| settings.apply(Self::command()), words)?;
        if let Some(measuring) = parsed.subcommand.measuring() {
            measuring.is_default_budget = !is_named;
        }
        Ok(parsed)
    }

    /// Parses a command line by a definition; also returns the name of the subcommand.
    fn parse_by(
        definition: impl Fn() -> clap::Command,
        words: &[OsString],
    ) -> Result<(Self, String), Failure> {
        let parse = |program: clap::Command| {
            let matches = program.try_get_matches_from(words)?;
            let subcommand = matches.subcommand_name().unwrap_or_default().to_owned();
            Ok((Self::from_arg_matches(&matches)?, subcommand))
        };
        // The layout of all help texts takes longer than parsing: only lines that print help or an error need it.
        parse(definition())
            .or_else(|_: clap::Error| {
                let color = terminal::color_of_arguments(words.iter().cloned());
                parse(help::arrange(definition(), help::width()).color(color.into()))
            })
            .map_err(|error| match slip::message(words, &error) {
                Some(message) => Failure::Input(message),
                None => error.exit(),
            })
    }
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  the requested check failed
    2  the command line or an input file is wrong
    3  a required permission, file system or program is missing, or an output cannot be written
    4  a measured command, worker or scheduler failed
  130  interrupted; the results so far are saved";

/// The subcommand to run.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    Topo(Topo),
    Plan(PlanArgs),
    Eval(Eval),
    Bench(Bench),
    Compare(Box<Compare>),
    Scale(Scale),
    Tune(Tune),
    Run(RunArgs),
    Pin(PinArgs),
    Top(Top),
    Trace(Trace),
    Audit(Audit),
    Irq(Irq),
    Sched(Sched),
    Qos(Qos),
    Falseshare(Falseshare),
    Spawn(Spawn),
    Density(Box<DensityArgs>),
    Vm(Vm),
    Guard(GuardArgs),
    Fleet(Box<Fleet>),
    Undo(Undo),
    Report(Report),
    Doctor(Doctor),
    Config(Config),
    Schema(Schema),
    Completions(Completions),
    #[command(hide = true)]
    Complete(Complete),
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
    /// Generate loads for manycore on another host, which starts this itself.
    #[command(hide = true)]
    LoadWorker,
    /// Clean up after another manycore process; manycore starts this itself.
    #[command(hide = true)]
    Cleanup,
}

impl Subcommand {
    /// Returns whether the view of `top` is wanted meanwhile.
    pub fn is_live(&self) -> bool {
        match self {
            Self::Eval(args) => args.results.live,
            Self::Bench(args) => args.results.live,
            Self::Compare(args) => args.measuring.results.live,
            Self::Scale(args) => args.measuring.results.live,
            Self::Tune(args) => args.measuring.results.live,
            Self::Spawn(args) => args.results.live,
            Self::Density(args) => args.results.live,
            Self::Run(args) => args.live,
            Self::Guard(args) => args.live,
            _ => false,
        }
    }

    /// Returns how commands are measured, if they are.
    fn measuring(&mut self) -> Option<&mut Measuring> {
        match self {
            Self::Compare(args) => Some(&mut args.measuring),
            Self::Scale(args) => Some(&mut args.measuring),
            Self::Tune(args) => Some(&mut args.measuring),
            _ => None,
        }
    }
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

/// How many of the findings are shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct ExtentArgs {
    /// Show all findings instead of the five most important ones, and the tables of details
    #[arg(long)]
    pub verbose: bool,
}

impl ExtentArgs {
    /// Returns how much of a result is shown.
    pub fn extent(self) -> Extent<'static> {
        if self.verbose { Extent::Full } else { Extent::Brief { hint: "--verbose" } }
    }
}

/// The output format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for reading.
    Text,
    /// JSON for other programs.
    Json,
    /// The tables, as CSV.
    Csv,
    /// Text with tables, for a page or a ticket.
    Markdown,
}
