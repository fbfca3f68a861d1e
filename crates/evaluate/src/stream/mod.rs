//! Memory: bandwidth of kernels by number of workers, read bandwidth from each node's CPUs to each node's
//! memory, and the latency of a load from there, idle and under load.

mod nodes;
mod size;

use crate::{
    Suite,
    error::{Error, LoadOption, Result},
    parameters,
    scaling::worker_counts,
};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec, Subject},
    interrupt,
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::{
        Direction, Metric, Sample, Treatment, factor,
        id::{self, TIMES_CACHES},
    },
    sampling::{SamplingMode, slices},
    worker_pool::WorkerPool,
};
use manycore_linux::{clock::now_ns, memory};
use manycore_text::units::bytes;
use manycore_topology::{CpuId, CpuSet, SysTree};
use manycore_workload::stream::{Kernel, Streams, Work};
use nodes::{NodeCpus, StreamNodes};
use size::MemoryBudget;
use std::{collections::BTreeMap, path::Path};

/// Number of samples to which the minimum number of blocks is limited.
const MIN_BLOCK_SAMPLES: usize = 120;

/// Minimum number of blocks from which an interval can be computed.
const MIN_BLOCKS: usize = 6;

/// Kernels that are measured with every number of workers by default.
const DEFAULT_KERNELS: [Kernel; 2] = [Kernel::Triad, Kernel::Read];

/// The options of `bench stream`.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Kernels; all of them if empty.
    pub kernels: Vec<Kernel>,
    /// Bytes of an array; by default chosen from the caches and the memory.
    pub array: Option<u64>,
    /// Nodes that take part; all of them by default.
    pub nodes: Option<CpuSet>,
}

/// The arrays on each node, and the CPUs that work on them.
struct StreamSetup {
    nodes: StreamNodes,
    streams: Streams,
    /// Parameters of every experiment on them.
    sizes: BTreeMap<String, String>,
}

pub(super) fn measure(suite: &mut Suite) -> Result {
    let total = (suite.section.seconds)(&suite.profile);
    let began = now_ns();
    let setup = allocate_arrays(suite)?;
    suite.report_plan();
    let left = (total - (now_ns() - began) as f64 / 1e9).max(total / 4.0);
    kernels(suite, &setup, left * 0.5, (0.0, 0.5))?;
    reading(suite, &setup, left * 0.2, (0.5, 0.7))?;
    loads(suite, &setup, left * 0.3, (0.7, 1.0))
}

/// Allocates the arrays. Nodes whose memory cannot be allocated are noted and left out.
fn allocate_arrays(suite: &mut Suite) -> Result<StreamSetup> {
    let machine = suite.machine();
    let loads = &suite.loads.stream;
    let mut nodes = StreamNodes::select(machine, loads.nodes.as_ref())?;
    let caches = nodes::caches(machine, &nodes.cpu_nodes);
    let tree = SysTree::open(Path::new("/")).ok();
    let node = |&node: &u32| (node, tree.as_ref().and_then(|tree| memory::available(tree, node)));
    let memory = MemoryBudget {
        nodes: nodes.memory_nodes.iter().map(node).collect(),
        total: suite.session.record.conditions.memory_available_bytes.unwrap_or(u64::MAX),
        caches,
        workers: nodes.most(),
    };
    let array = memory.array(loads.array)?;
    let requested = loads.array.is_some();
    if let Some(why) = memory.shortfall(array).filter(|_| !requested) {
        let wanted = bytes(caches.unwrap_or(0) * TIMES_CACHES);
        suite
            .session
            .record_missing(&format!("arrays of {wanted}, {TIMES_CACHES} times the last-level caches"), &why);
    }
    let threads = suite.machine().usable().len();
    let mut streams = Streams::new();
    let mut refused = None;
    for node in std::mem::take(&mut nodes.memory_nodes) {
        interrupt::check()?;
        match streams.add(array, Some(node).filter(|_| nodes.bind_memory), threads) {
            Ok(_) => nodes.memory_nodes.push(node),
            Err(error) => {
                let why = format!("cannot bind {} to it: {error}{}", bytes(array), hint(&error));
                suite.session.record_missing(&format!("memory of node {node}"), &why);
                refused = Some(Error::unavailable(format!("memory of node {node}: {why}")));
            }
        }
    }
    if nodes.memory_nodes.is_empty() {
        return Err(refused.unwrap_or_else(|| Error::unavailable("no node has memory")));
    }
    note_small_pages(suite, tree.as_ref(), 4 * array * nodes.memory_nodes.len() as u64);
    let sizes = parameters([("array_bytes", array.to_string())])
        .into_iter()
        .chain(caches.map(|caches| ("caches_bytes".to_owned(), caches.to_string())));
    Ok(StreamSetup { nodes, streams, sizes: sizes.collect() })
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::PERM) => "; a container may need the capability SYS_NICE for it",
        Some(rustix::io::Errno::INVAL) => "; the cpuset of this process may leave the node out (cpuset.mems)",
        _ => "",
    }
}

/// Notes if the kernel provided small pages. Loads from random addresses then mostly measure page-table
/// walks.
fn note_small_pages(suite: &mut Suite, tree: Option<&SysTree>, wanted: u64) {
    if let Some(huge) = tree.and_then(memory::in_huge_pages).filter(|&huge| huge < wanted / 2) {
        let why = format!(
            "the kernel provided {} of {} (see /sys/kernel/mm/transparent_hugepage/enabled); latencies include address \
             translation",
            bytes(huge),
            bytes(wanted)
        );
        suite.session.record_missing("memory in huge pages", &why);
    }
}

impl StreamSetup {
    /// Returns the index of a node's memory among the nodes with memory.
    fn place(&self, node: u32) -> usize {
        self.nodes.memory_nodes.iter().position(|&known| known == node).unwrap_or(0)
    }

    /// Returns all routes: from the CPUs of every node to the memory of every node.
    fn routes(&self) -> impl Iterator<Item = (&NodeCpus, u32)> {
        let to = &self.nodes.memory_nodes;
        self.nodes.cpu_nodes.iter().flat_map(move |node_cpus| to.iter().map(move |&node| (node_cpus, node)))
    }

    /// Returns orders for the workers from number `first` on, one on each of `cpus`, for `work` on the memory
    /// of `node`.
    fn orders(&self, first: usize, cpus: &[CpuId], work: Work, node: u32) -> Vec<WorkerOrder> {
        let parameter = Streams::parameter(self.place(node), work);
        let order = |(index, &cpu): (usize, &CpuId)| WorkerOrder {
            worker: first + index,
            cpus: CpuSet::single(cpu),
            parameter,
            ticks: 0,
            expected_cpu: None,
        };
        cpus.iter().enumerate().map(order).collect()
    }

    fn spec(
        &self,
        id: &str,
        unit: &str,
        mode: SamplingMode,
        treatments: Vec<Treatment>,
        seconds: f64,
    ) -> ExperimentSpec {
        let min_blocks = (MIN_BLOCK_SAMPLES / treatments.len().max(1)).clamp(2, MIN_BLOCKS);
        ExperimentSpec {
            parameters: self.sizes.clone(),
            treatments,
            budget: Budget { min_blocks, ..Budget::seconds(seconds) },
            ..ExperimentSpec::new(id, mode.method(), unit)
        }
    }

    fn subject(&self, suite: &Suite, mode: SamplingMode, trials: Vec<Trial>) -> Result<PoolSubject> {
        let pool = WorkerPool::from_members(self.streams.members(self.nodes.most()))?;
        Ok(suite.pool_subject(pool, mode, trials))
    }
}

/// Measures the kernels on the home node, by number of workers.
fn kernels(suite: &mut Suite, setup: &StreamSetup, seconds: f64, part: (f64, f64)) -> Result {
    let (node_cpus, memory) = setup.nodes.home();
    let counts = counts(&suite.loads.workers, node_cpus)?;
    let most = counts.iter().copied().max().unwrap_or(1);
    let requested = &suite.loads.stream.kernels;
    let chosen = if requested.is_empty() { &Kernel::BANDWIDTH[..] } else { requested };
    let ladder = |kernel: Kernel| !requested.is_empty() || DEFAULT_KERNELS.contains(&kernel);
    let mut trials = Vec::new();
    for &kernel in chosen {
        for &stores in kernel.stores() {
            let work = Work { kernel, stores };
            for &count in counts.iter().filter(|&&count| ladder(kernel) || count == most) {
                let orders = setup.orders(0, &node_cpus.cpus[..count], work, memory);
                let unit_per_tick = work.per_tick() as f64;
                trials.push((of_kernel(work, count), Trial { orders, servers: Vec::new(), unit_per_tick }));
            }
        }
    }
    let mode = slices(suite.machine());
    let (treatments, trials) = trials.into_iter().unzip();
    let mut spec = setup.spec(id::STREAM, "bytes", mode, treatments, seconds);
    spec.parameters.extend(parameters([("from", node_cpus.node.to_string()), ("to", memory.to_string())]));
    let mut subject = setup.subject(suite, mode, trials)?;
    suite.experiment(spec, &mut subject, part)
}

/// Returns the numbers of workers: the requested ones, or 1, 2, 4, ... and all CPUs of the node.
fn counts(requested: &[usize], node_cpus: &NodeCpus) -> Result<Vec<usize>> {
    let cpus = node_cpus.cpus.len();
    let mut counts = requested.to_vec();
    if counts.is_empty() {
        counts = worker_counts(cpus);
        counts.retain(|&count| count <= cpus);
    }
    counts.sort_unstable();
    counts.dedup();
    match counts.last() {
        Some(&most) if most > cpus => Err(Error::invalid(
            LoadOption::Workers,
            format!(
                "{most} is too large: each worker gets its own CPU, and {cpus} of node {} may be used",
                node_cpus.node
            ),
        )),
        _ => Ok(counts),
    }
}

fn of_kernel(work: Work, workers: usize) -> Treatment {
    let name = work.kernel.name();
    let stores = (work.kernel.stores().len() > 1).then(|| work.stores.name());
    let mut factors = parameters([(factor::KERNEL, name.to_owned())]);
    factors.extend(stores.map(|stores| (factor::STORES.to_owned(), stores.to_owned())));
    let stores = stores.map(|stores| format!(", {stores}")).unwrap_or_default();
    Treatment { name: format!("{name}{stores}, {workers}"), workers, factors, latency: None }
}

fn of_route(node_cpus: &NodeCpus, node: u32, workers: usize, loaded: Option<bool>) -> Treatment {
    let mut factors =
        parameters([(factor::FROM_NODE, node_cpus.node.to_string()), (factor::TO_NODE, node.to_string())]);
    let mut name = format!("node {} to {node}", node_cpus.node);
    if let Some(loaded) = loaded {
        factors.insert(factor::LOADED.to_owned(), if loaded { "yes" } else { "no" }.to_owned());
        name.push_str(if loaded { ", loaded" } else { ", idle" });
    }
    Treatment { name, workers, factors, latency: None }
}

/// Measures what all CPUs of each node read from each node.
fn reading(suite: &mut Suite, setup: &StreamSetup, seconds: f64, part: (f64, f64)) -> Result {
    let work = Work::READ;
    let arm = |(node_cpus, node): (&NodeCpus, u32)| {
        let orders = setup.orders(0, &node_cpus.cpus, work, node);
        let trial = Trial { orders, servers: Vec::new(), unit_per_tick: work.per_tick() as f64 };
        (of_route(node_cpus, node, node_cpus.cpus.len(), None), trial)
    };
    let (treatments, trials) = setup.routes().map(arm).unzip();
    let mode = slices(suite.machine());
    let spec = setup.spec(id::STREAM_NODES, "bytes", mode, treatments, seconds);
    let mut subject = setup.subject(suite, mode, trials)?;
    suite.experiment(spec, &mut subject, part)
}

/// Measures the latency of a load from each node to each, with no other work and while the node's other CPUs
/// read.
fn loads(suite: &mut Suite, setup: &StreamSetup, seconds: f64, part: (f64, f64)) -> Result {
    let mut trials = Vec::new();
    for (node_cpus, node) in setup.routes() {
        let (own, others) = node_cpus.cpus.split_at(1);
        let chaser = setup.orders(0, own, Work::CHASE, node);
        let trial = |orders| Trial { orders, servers: Vec::new(), unit_per_tick: 1.0 };
        trials.push((of_route(node_cpus, node, 1, Some(false)), trial(chaser.clone())));
        if !others.is_empty() {
            let all = chaser.into_iter().chain(setup.orders(1, others, Work::READ, node)).collect();
            trials.push((of_route(node_cpus, node, node_cpus.cpus.len(), Some(true)), trial(all)));
        }
    }
    let (treatments, trials) = trials.into_iter().unzip();
    let mode = slices(suite.machine());
    let metric =
        |name: &str, unit: &str, better| Metric { name: name.to_owned(), unit: unit.to_owned(), better };
    let spec = ExperimentSpec {
        metrics: vec![metric("latency", "ns", Direction::Lower), metric("load", "B/s", Direction::Higher)],
        ..setup.spec(id::STREAM_LATENCY, "loads", mode, treatments, seconds)
    };
    let mut subject = LatencySubject(setup.subject(suite, mode, trials)?);
    suite.experiment(spec, &mut subject, part)
}

/// Workers of which the first follows a chain while the others, if any, read.
struct LatencySubject(PoolSubject);

impl Subject for LatencySubject {
    type Error = manycore_experiment::Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample, Self::Error> {
        self.0.measure(treatment).map(of_loads)
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// Converts a sample of ticks to one of loads, with the latency of a load and the bandwidth of the others.
fn of_loads(sample: Sample) -> Sample {
    let (chaser, others) = sample.per_worker.split_first().unwrap_or((&0.0, &[]));
    let done = chaser * Work::CHASE.per_tick() as f64;
    let read = others.iter().sum::<f64>() * Work::READ.per_tick() as f64;
    let wall_ns = sample.wall_ns as f64;
    // A worker that did not run in this slice has no latency; its work is 0.
    let latency = if done > 0.0 { wall_ns / done } else { 0.0 };
    Sample { work: done, per_worker: vec![done], values: vec![latency, read / wall_ns * 1e9], ..sample }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_ticks_is_one_of_loads() {
        let ticks = Sample {
            wall_ns: 50_000_000,
            work: 1e4 + 2.0,
            per_worker: vec![1e4, 1.0, 1.0],
            ..Sample::default()
        };
        let sample = of_loads(ticks.clone());
        assert_eq!(sample.work, 1e4 * Work::CHASE.per_tick() as f64);
        assert_eq!(sample.per_worker, [sample.work]);
        let read = Work::READ.per_tick() as f64 * 2.0 / 0.05;
        assert_eq!(sample.values, [5e7 / sample.work, read]);
        let still = of_loads(Sample { per_worker: vec![0.0], ..ticks });
        assert_eq!((still.work, still.values), (0.0, vec![0.0, 0.0]));
    }

    #[test]
    fn workers_have_a_cpu_each() {
        let node_cpus = NodeCpus { node: 3, cpus: (0..6).collect() };
        assert_eq!(counts(&[], &node_cpus).unwrap(), [1, 2, 3, 4, 6]);
        assert_eq!(counts(&[4, 1, 4], &node_cpus).unwrap(), [1, 4]);
        let refused = counts(&[9], &node_cpus).unwrap_err();
        assert!(
            matches!(&refused, Error::InvalidOption { reason, .. } if reason.contains("6 of node 3 may be used")),
            "{refused:?}"
        );
    }
}
