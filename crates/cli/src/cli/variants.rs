//! The variants of `compare`: what differs between them.

use super::{EstimatorArgs, ExportArgs, GateArgs, Measuring};
use clap::Args;
use manycore_study::{
    compare::VariantSpec,
    variant::{Parameter, VariantText},
};
use std::path::PathBuf;

/// Which of several variants is better?
///
/// Compares commands, placements, environments or parameters in interleaved rounds. Reports whether they differ, by how
/// much, and in which order they are as far as that is proven.
#[derive(Debug, Args)]
#[command(
    override_usage = "manycore compare [OPTIONS] 'COMMAND A' 'COMMAND B'...\n       manycore compare [OPTIONS] -- COMMAND",
    after_help = "\
Examples:
  manycore compare 'gzip -9 -k -c big.log' 'gzip -1 -k -c big.log'    which one is faster
  manycore compare --a free --b close -- sysbench cpu --threads={workers} --events=2000 --time=0 run    two placements
  manycore compare --parameter level=1,3,6,9 -- xz -{level} -k -c big.log    one variant for each value
  manycore compare --b env:OMP_PROC_BIND=true --workers 4 -- ./solver    with and without a variable
  manycore compare --b thp=never,set:kernel.numa_balancing=0 -- ./solver    two settings of the machine (as root)
  manycore compare --variant sched=kernel --variant sched=cluster:spread -- hackbench -g 4    two schedulers (as root)
  manycore compare --variant base= --variant 'sched=scx_lavd --performance' -- ./solver    a sched_ext program, with options
  manycore compare --prepare 'rm -f big.log.gz' 'gzip -k big.log' 'gzip -1 -k big.log'    a command before each run
  manycore compare --drop-caches 'grep -r TODO src' 'rg TODO src'    cold starts (as root)
  manycore compare --shell sh 'sort a.txt | uniq' 'sort -u a.txt'    pipelines
  manycore compare --variant base= --variant place=close,nice=10 --variant 'cmd=./solver -O' -- ./solver
  manycore compare --parameter t=1..64*2 --reference t=64 -- ./solver -t {t}    a range, and what it is compared with
  manycore compare --by mean './start old' './start new'    the mean, in which rare slow runs count
  manycore compare --metric wrk --primary p99 './load old' './load new'    the tail of latencies decides
  manycore compare --service 'redis-server --port 7777 --save \"\"' --ready-port 7777 --metric redis-benchmark \\
      --a cpus=0 --b cpus=2 --load-cpus 1 -- redis-benchmark -p 7777 -q -t get -n 100000
  manycore compare --service-pid 812 --b cpus=0 --load-cpus 1 -- wrk -d 5s http://localhost/    a running service
  manycore compare -- ./program                                               A against A: the noise of this machine
  manycore compare old/record.json new/record.json                            stored records of two builds
  manycore compare --baseline old1 old2 old3 --fail-if 'slower > 3%' -- ./program    a gate against stored records
  manycore compare --export junit=compare.xml --export benchstat=compare.txt './old' './new'    results for other programs

A variant is a list of items, combined with commas: place=PLACE or PLACE alone, memory=MEMORY (default, local, \
interleave, bind, each of the last two also with =LIST), workers=N, nice=N, sched=SCHEDULER (kernel, cluster:spread, cluster:pack, or a program with its options), \
env:NAME=VALUE, cmd=COMMAND, and settings of the machine: thp, numa_balancing, governor, turbo, smt, \
aslr, llc_balancing or sched_features=VALUE, set:kernel.NAME=VALUE for a sysctl, set:FILE=VALUE for a file below /sys or /proc/sys. Settings \
are switched between runs and restored at the end. A comma begins a new item \
only where an item follows: cpus=0-3,8 is one. Write \\, for a comma that never does.

Placements: free, close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE, near=nodeN; \
each optionally with +nosmt; close, spread and near also with +isolated. Variants alternate in random \
order. An exact test of the pairs decides: better or worse, equivalent within --equivalent, a trade-off, or inconclusive."
)]
pub struct Compare {
    /// The commands A, B, C ..., each quoted as one word
    ///
    /// They are split as a shell does, and started without a shell. Or stored records to compare: the old one and the new
    /// one, or all new ones with --baseline.
    #[arg(value_name = "QUOTED COMMAND")]
    pub commands: Vec<String>,
    #[command(flatten)]
    pub variants: VariantArgs,
    /// Number of workers, for placements and in place of {workers} [default: the number of usable CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// Compare with these stored records: directories, record.json files, numbers of the list, or latest. New records
    /// come before this option, a command to measure comes after --
    #[arg(long, value_name = "RECORD", num_args = 1..)]
    pub baseline: Vec<PathBuf>,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub exports: ExportArgs,
    #[command(flatten)]
    pub estimator: EstimatorArgs,
    #[command(flatten)]
    pub measuring: Measuring,
    /// One command and its arguments, for several variants of it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What differs between the variants.
#[derive(Debug, Args)]
pub struct VariantArgs {
    /// What distinguishes A: place=PLACE, env:NAME=VALUE and others
    ///
    /// Items are combined with commas; they are listed below the options.
    #[arg(long, value_name = "VARIANT", value_parser = items)]
    pub a: Option<String>,
    /// What distinguishes B
    #[arg(long, value_name = "VARIANT", value_parser = items)]
    pub b: Option<String>,
    /// A further variant, or NAME=VARIANT; may be repeated
    ///
    /// Without --a and --b, these are all variants. "base=" is the command as it is, with the name "base".
    #[arg(long, value_name = "VARIANT", value_parser = named)]
    pub variant: Vec<VariantText>,
    /// Use this command as B, split into words as a shell does; the command after -- is A. The same as two quoted
    /// commands
    #[arg(long, value_name = "COMMAND")]
    pub vs: Option<String>,
    /// Replace {NAME} by each of NAME=1,2,4 or NAME=1..64*2
    ///
    /// 1..8 counts in steps of 1, 0..100+20 in steps of 20, 1..64*2 in factors of 2. In commands and variants; may be repeated. Each variant is
    /// measured with every combination of the parameters that it uses, at most 64 in total.
    #[arg(long, value_name = "VALUES")]
    pub parameter: Vec<Parameter>,
    /// The variant with which the others are compared: its name or letter [default: the first one]
    #[arg(long, value_name = "VARIANT")]
    pub reference: Option<String>,
}

impl VariantArgs {
    /// Whether options distinguish variants of one command.
    pub fn is_varied(&self) -> bool {
        self.a.is_some() || self.b.is_some() || !self.variant.is_empty()
    }
}

/// Checks items. Those with a parameter are checked when its values are filled in.
fn items(text: &str) -> Result<String, String> {
    check(&VariantText { items: text.to_owned(), ..VariantText::default() }).map(|text| text.items)
}

fn named(text: &str) -> Result<VariantText, String> {
    let text = VariantText::named(text, Vec::new()).map_err(|error| error.to_string())?;
    check(&text)
}

fn check(text: &VariantText) -> Result<VariantText, String> {
    if !text.items.contains('{') {
        text.parse(&VariantSpec::default()).map_err(|error| error.to_string())?;
    }
    Ok(text.clone())
}
