//! The command line of `bench`.

use super::{EvalBudget, Results, value::size};
use clap::Args;
use manycore_topology::CpuSet;
use manycore_workload::stream::Kernel;
use std::path::PathBuf;

/// Measure one load, such as memory or a lock
///
/// The loads are memory bandwidth, contention on a counter, a lock, a queue, a semaphore or a pipe, and every section
/// of `eval`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore bench                             lists the loads
  manycore bench counter                     a shared counter against one per worker
  manycore bench lock --workers 1,2,4,8 --standard
  manycore bench sem-sysv --out sem          alternating with stress-ng, if that is installed
  manycore bench pipe --unixbench            ten passes of 10 s, and UnixBench's index
  manycore bench matrix --cpus 0-3           one section of `eval`
  manycore bench stream                      memory, by kernel, workers and node
  manycore bench stream --kernel triad --workers 1,4,16 --nodes 0 --array 1G
  manycore report sem                        prints the same report again

Treatments alternate in slices of 50 ms in random order. Root is not needed, and nothing is left behind on the \
machine. Ctrl-C saves the results so far.")]
pub struct Bench {
    /// Load to measure, or `list`
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// CPUs to measure on [default: all usable CPUs]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// Numbers of workers [default: 1, 2, 4, ... all CPUs and twice as many; for stream, up to the CPUs of a
    /// node]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Vec<u32>,
    #[command(flatten)]
    pub budget: EvalBudget,
    /// With pipe: measure one unpinned pair in ten passes of 10 s, as UnixBench does; included in --full
    #[arg(long)]
    pub unixbench: bool,
    /// With pipe: directory of a built UnixBench, whose context1 is measured alternating with the
    /// built-in load [default: found through PATH]
    #[arg(long, value_name = "DIR")]
    pub unixbench_dir: Option<PathBuf>,
    /// With stream: kernels to measure with every number of workers, of copy, scale, add, triad and read
    /// [default: triad and read; the others are measured with the largest number of workers only]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = kernel)]
    pub kernel: Vec<Kernel>,
    /// With stream: size of each of the three arrays on a node [default: four times the last-level caches of
    /// a node, limited to a quarter of the available memory]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = size)]
    pub array: Option<u64>,
    /// With stream: nodes whose CPUs and memory are used [default: all]
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<CpuSet>,
    /// Seed of all random orders [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// Parses the name of a `stream` kernel.
fn kernel(text: &str) -> Result<Kernel, String> {
    let known = || Kernel::BANDWIDTH.into_iter();
    let names: Vec<&str> = known().map(Kernel::name).collect();
    known()
        .find(|kernel| kernel.name() == text)
        .ok_or_else(|| format!("unknown kernel; expected one of {}", names.join(", ")))
}
