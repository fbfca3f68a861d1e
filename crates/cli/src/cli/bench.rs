//! The verb `bench`.

use super::{EvalBudget, Results};
use clap::Args;
use manycore_topology::CpuSet;
use manycore_workload::stream::Kernel;
use std::{path::PathBuf, time::Duration};

/// Measure one load: memory bandwidth, or what sharing a counter, a lock, a queue, a semaphore or a pipe costs here.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore bench                             the loads, one line each
  manycore bench counter                     one counter for all against one for each
  manycore bench lock --workers 1,2,4,8 --standard
  manycore bench sem-sysv --out sem          beside stress-ng, where that is installed
  manycore bench pipe --unixbench            ten passes of 10 s, and the index that UnixBench would give
  manycore bench matrix --cpus 0-3           a section of `eval` alone
  manycore bench stream                      memory: by kernel, by workers, from node to node
  manycore bench stream --kernel triad --workers 1,4,16 --nodes 0 --array 1G
  manycore report sem/record.json            the same report again, any time later

Treatments alternate in slices of 50 ms and random order. Without root, and nothing stays behind. Ctrl-C saves what
was measured.")]
pub struct Bench {
    /// The load, or `list`
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// CPUs on which to measure [default: all that may be used]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// Numbers of workers [default: 1, 2, 4, ... all CPUs and twice as many; with stream, up to the CPUs of a node]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Vec<u32>,
    /// Time to spend, such as 30s [default: 15 s, or the profile's]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub seconds: Option<Duration>,
    #[command(flatten)]
    pub budget: EvalBudget,
    /// With pipe: passes as long and as many as UnixBench's, of one free pair alone; also in --full
    #[arg(long)]
    pub unixbench: bool,
    /// With pipe: where UnixBench was built, to measure its context1 in turns with ours [default: the PATH]
    #[arg(long, value_name = "DIR")]
    pub unixbench_dir: Option<PathBuf>,
    /// With stream: of copy, scale, add, triad and read, those to measure with every number of workers [default: triad and
    /// read so, the others with the most]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = kernel)]
    pub kernel: Vec<Kernel>,
    /// With stream: bytes of each of the three arrays on a node [default: four times the last-level caches of a node, as
    /// far as a quarter of the available memory allows]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = super::falseshare::size)]
    pub array: Option<u64>,
    /// With stream: nodes whose CPUs and memory have a part [default: all]
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<CpuSet>,
    /// Seed of all random orders; from the clock where it is not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// A kernel of `stream`.
fn kernel(text: &str) -> Result<Kernel, String> {
    let known = || Kernel::BANDWIDTH.into_iter();
    let names: Vec<&str> = known().map(Kernel::name).collect();
    known()
        .find(|kernel| kernel.name() == text)
        .ok_or_else(|| format!("the kernels are {}", names.join(", ")))
}

/// `30s` as everywhere, and a bare number of seconds.
fn time(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(_) => super::measure::time(&format!("{text}s")).or_else(|_| fraction(text)),
        Err(_) => super::measure::time(text),
    }
}

/// Seconds with a fraction.
fn fraction(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a time such as 30s".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && seconds < 1e7 => Ok(time),
        _ => Err("expected a time such as 30s".to_owned()),
    }
}
