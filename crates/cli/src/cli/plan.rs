//! Arguments of `manycore plan`.

use super::{Format, Source};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use manycore_placement::{ExportFormat, MemoryPlacement, Policy, Reserve};
use std::path::PathBuf;

/// Show which CPUs each worker would get
///
/// Shows which CPUs and memory each worker gets, draws the plan, and writes it in the syntax of other programs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore plan --workers 8 --place spread                   the CPUs of each worker on this machine, and why
  manycore plan --workers 8 --svg plan.svg --format json     a picture with the workers, and the plan as JSON
  manycore plan --machine host7.machine --reserve 2 --exclusive      a plan for another machine
  manycore plan --workers 8 --as openmp > place.sh           OMP_PLACES and related variables, for sourcing
  docker run $(manycore plan --workers 8 --as docker --together) IMAGE
  manycore plan --workers 4 --as taskset | while read -r words; do $words ./worker & done

Placements: free, close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE, near=nodeN; \
each optionally with +nosmt; close, spread and near also with +isolated. For programs that place one \
process, --as writes one line per worker, or a single line if all workers have the same CPUs. What the other program \
cannot express is written as a comment.")]
pub struct PlanArgs {
    #[command(flatten)]
    pub source: Source,
    /// Number of workers [default: one per CPU of the placement]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Placement of the workers
    #[arg(long, value_name = "PLACE", default_value = "close")]
    pub place: Policy,
    /// CPUs that no worker gets: a number or a list, such as 2 or cpus=0-1
    #[arg(long, value_name = "RESERVE", default_value = "0")]
    pub reserve: Reserve,
    /// Fail if workers would have to share a CPU
    #[arg(long)]
    pub exclusive: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// In text output, print one line per worker, however many there are
    #[arg(long)]
    pub all: bool,
    /// Print the plan in the syntax of this program instead
    #[arg(long = "as", value_name = "PROGRAM", value_parser = export_format_parser(), conflicts_with_all = ["format", "all"])]
    pub export: Option<ExportFormat>,
    /// Memory policy, for --as: default, local, interleave, bind, interleave=LIST, bind=LIST
    #[arg(long, value_name = "MEMORY", default_value = "default", requires = "export")]
    pub memory: MemoryPlacement,
    /// With --as: one set of CPUs for all workers, for example for one container, instead of one per worker
    #[arg(long, requires = "export")]
    pub together: bool,
    /// Also draw the machine with its workers to this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn export_format_parser() -> impl TypedValueParser<Value = ExportFormat> {
    let value = |format: ExportFormat| PossibleValue::new(format.name()).help(export_help(format));
    let named = |name: String| ExportFormat::ALL.into_iter().find(|format| format.name() == name);
    PossibleValuesParser::new(ExportFormat::ALL.map(value))
        .try_map(move |name| named(name).ok_or("not a program that --as supports"))
}

/// Describes the output of `--as` for the help text.
const fn export_help(format: ExportFormat) -> &'static str {
    match format {
        ExportFormat::Taskset => "a command prefix: CPUs",
        ExportFormat::Numactl => "a command prefix: CPUs and memory",
        ExportFormat::Systemd => "a drop-in for a service",
        ExportFormat::Docker => "options of docker run",
        ExportFormat::Podman => "options of podman run",
        ExportFormat::Kubernetes => "the kubelet's configuration and a pod, as close to the plan as possible",
        ExportFormat::Slurm => "a command prefix: one task per worker",
        ExportFormat::OpenMp => "environment variables of a program whose threads are the workers",
    }
}
