//! Memory: bandwidth of kernels by number of workers, read bandwidth from each node's CPUs to each node's
//! memory, and the latency of a load from there, idle and under load.

mod ground;
mod size;

use crate::error::{Error, Result};
use crate::{Stage, parameters, scaling::worker_counts};
use ground::{Crowd, Ground};
use manycore_experiment::pace::slices;
use manycore_experiment::record::{Better, Metric, Sample, Treatment, id, id::TIMES_CACHES};
use manycore_experiment::{
    crew::Crew,
    engine::{Budget, Design, Subject},
    interrupt,
    live::{Live, Order, Trial},
    pace::Pace,
};
use manycore_linux::{clock::now_ns, memory};
use manycore_text::units::bytes;
use manycore_topology::SysTree;
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::stream::{Kernel, Streams, Work};
use size::Room;
use std::{collections::BTreeMap, path::Path, rc::Rc};

/// Number of samples to which the minimum number of blocks is limited.
const MOST_AT_LEAST: usize = 120;

/// Smallest number of blocks from which an interval can be computed.
const BLOCKS: usize = 6;

/// Kernels that are measured with every number of workers by default.
const LADDER: [Kernel; 2] = [Kernel::Triad, Kernel::Read];

/// The options of `bench stream`.
#[derive(Clone, Debug, Default)]
pub struct StreamWish {
    /// Kernels; all of them if empty.
    pub kernels: Vec<Kernel>,
    /// Bytes of an array; by default chosen from the caches and the memory.
    pub array: Option<u64>,
    /// Nodes that take part; all of them by default.
    pub nodes: Option<CpuSet>,
}

/// The arrays on each node, and the CPUs that work on them.
struct Field {
    ground: Ground,
    streams: Streams,
    /// Parameters of every experiment on them.
    sizes: BTreeMap<String, String>,
}

pub(super) fn measure(stage: &mut Stage) -> Result {
    let total = (stage.section.seconds)(&stage.profile);
    let began = now_ns();
    let field = lay_out(stage)?;
    let left = (total - (now_ns() - began) as f64 / 1e9).max(total / 4.0);
    kernels(stage, &field, left * 0.5, (0.0, 0.5))?;
    reading(stage, &field, left * 0.2, (0.5, 0.7))?;
    loads(stage, &field, left * 0.3, (0.7, 1.0))
}

/// Allocates the arrays. Nodes whose memory cannot be allocated are noted and left out.
fn lay_out(stage: &mut Stage) -> Result<Field> {
    let machine = &stage.session.record.machine;
    let wish = &stage.wish.stream;
    let mut ground = Ground::of(machine, wish.nodes.as_ref())?;
    let caches = ground::caches(machine, &ground.crowds);
    let tree = SysTree::open(Path::new("/")).ok();
    let node = |&node: &u32| (node, tree.as_ref().and_then(|tree| memory::available(tree, node)));
    let room = Room {
        nodes: ground.memories.iter().map(node).collect(),
        total: stage.session.record.conditions.memory_available_bytes.unwrap_or(u64::MAX),
        caches,
        workers: ground.most(),
    };
    let array = room.array(wish.array)?;
    let asked = wish.array.is_some();
    if let Some(why) = room.shortfall(array).filter(|_| !asked) {
        let wanted = bytes(caches.unwrap_or(0) * TIMES_CACHES);
        stage.session.miss(&format!("arrays of {wanted}, {TIMES_CACHES} times the last-level caches"), &why);
    }
    let hands = stage.session.record.machine.usable().len();
    let mut streams = Streams::new();
    let mut refused = None;
    for node in std::mem::take(&mut ground.memories) {
        interrupt::check()?;
        match streams.add(array, Some(node).filter(|_| ground.bound), hands) {
            Ok(_) => ground.memories.push(node),
            Err(error) => {
                let why = format!("cannot bind {} to it: {error}{}", bytes(array), cure(&error));
                stage.session.miss(&format!("memory of node {node}"), &why);
                refused = Some(Error::unavailable(format!("memory of node {node}: {why}")));
            }
        }
    }
    if ground.memories.is_empty() {
        return Err(refused.unwrap_or_else(|| Error::unavailable("no node has memory")));
    }
    tell_small_pages(stage, tree.as_ref(), 4 * array * ground.memories.len() as u64);
    let sizes = parameters([("array_bytes", array.to_string())])
        .into_iter()
        .chain(caches.map(|caches| ("caches_bytes".to_owned(), caches.to_string())));
    Ok(Field { ground, streams, sizes: sizes.collect() })
}

fn cure(error: &std::io::Error) -> &'static str {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::PERM) => "; a container may need the capability SYS_NICE for it",
        Some(rustix::io::Errno::INVAL) => "; the cpuset of this process may leave the node out (cpuset.mems)",
        _ => "",
    }
}

/// Notes if the kernel provided small pages. Loads from random addresses then mostly measure page-table
/// walks.
fn tell_small_pages(stage: &mut Stage, tree: Option<&SysTree>, wanted: u64) {
    if let Some(huge) = tree.and_then(memory::in_huge_pages).filter(|&huge| huge < wanted / 2) {
        let why = format!(
            "the kernel provided {} of {} (see /sys/kernel/mm/transparent_hugepage/enabled); latencies include address \
             translation",
            bytes(huge),
            bytes(wanted)
        );
        stage.session.miss("memory in huge pages", &why);
    }
}

impl Field {
    /// Returns the index of a node's memory among the nodes with memory.
    fn place(&self, node: u32) -> usize {
        self.ground.memories.iter().position(|&known| known == node).unwrap_or(0)
    }

    /// Returns all routes: from the CPUs of every node to the memory of every node.
    fn routes(&self) -> impl Iterator<Item = (&Crowd, u32)> {
        let to = &self.ground.memories;
        self.ground.crowds.iter().flat_map(move |crowd| to.iter().map(move |&node| (crowd, node)))
    }

    /// Returns orders for the workers from number `first` on, one on each of `cpus`, for `work` on the memory
    /// of `node`.
    fn orders(&self, first: usize, cpus: &[CpuId], work: Work, node: u32) -> Vec<Order> {
        let parameter = Streams::parameter(self.place(node), work);
        let order = |(index, &cpu): (usize, &CpuId)| Order {
            worker: first + index,
            cpus: CpuSet::single(cpu),
            parameter,
            ticks: 0,
            watch: None,
        };
        cpus.iter().enumerate().map(order).collect()
    }

    fn design(&self, id: &str, unit: &str, pace: Pace, treatments: Vec<Treatment>, seconds: f64) -> Design {
        let least_blocks = (MOST_AT_LEAST / treatments.len().max(1)).clamp(2, BLOCKS);
        Design {
            id: id.to_owned(),
            method: pace.method(),
            unit: unit.to_owned(),
            parameters: self.sizes.clone(),
            metrics: Vec::new(),
            treatments,
            budget: Budget { least_blocks, ..Budget::seconds(seconds) },
        }
    }

    fn live(&self, stage: &Stage, pace: Pace, trials: Vec<Trial>) -> Result<Live> {
        let crew = Crew::of(self.streams.members(self.ground.most()))?;
        Ok(Live::new(crew, Rc::clone(&stage.session.observer), pace, trials, stage.session.origin_ns))
    }
}

/// Measures the kernels on the home node, by number of workers.
fn kernels(stage: &mut Stage, field: &Field, seconds: f64, part: (f64, f64)) -> Result {
    let (crowd, memory) = field.ground.home();
    let counts = counts(&stage.wish.workers, crowd)?;
    let most = counts.iter().copied().max().unwrap_or(1);
    let asked = &stage.wish.stream.kernels;
    let chosen = if asked.is_empty() { &Kernel::BANDWIDTH[..] } else { asked };
    let ladder = |kernel: Kernel| !asked.is_empty() || LADDER.contains(&kernel);
    let mut arms = Vec::new();
    for &kernel in chosen {
        for &stores in kernel.stores() {
            let work = Work { kernel, stores };
            for &count in counts.iter().filter(|&&count| ladder(kernel) || count == most) {
                let orders = field.orders(0, &crowd.cpus[..count], work, memory);
                let unit_per_tick = work.per_tick() as f64;
                arms.push((of_kernel(work, count), Trial { orders, servers: Vec::new(), unit_per_tick }));
            }
        }
    }
    let pace = slices(&stage.session.record.machine);
    let (treatments, trials) = arms.into_iter().unzip();
    let mut design = field.design(id::STREAM, "bytes", pace, treatments, seconds);
    design.parameters.extend(parameters([("from", crowd.node.to_string()), ("to", memory.to_string())]));
    let mut live = field.live(stage, pace, trials)?;
    stage.experiment(design, &mut live, part)
}

/// Returns the numbers of workers: the requested ones, or 1, 2, 4, ... and all CPUs of the node.
fn counts(asked: &[usize], crowd: &Crowd) -> Result<Vec<usize>> {
    let cpus = crowd.cpus.len();
    let mut counts = asked.to_vec();
    if counts.is_empty() {
        counts = worker_counts(cpus);
        counts.retain(|&count| count <= cpus);
    }
    counts.sort_unstable();
    counts.dedup();
    match counts.last() {
        Some(&most) if most > cpus => Err(Error::invalid(format!(
            "--workers {most} is too large: each worker gets its own CPU, and {cpus} of node {} may be used",
            crowd.node
        ))),
        _ => Ok(counts),
    }
}

fn of_kernel(work: Work, workers: usize) -> Treatment {
    let name = work.kernel.name();
    let stores = (work.kernel.stores().len() > 1).then(|| work.stores.name());
    let mut factors = parameters([("kernel", name.to_owned())]);
    factors.extend(stores.map(|stores| ("stores".to_owned(), stores.to_owned())));
    let stores = stores.map(|stores| format!(", {stores}")).unwrap_or_default();
    Treatment { name: format!("{name}{stores}, {workers}"), workers, factors, latency: None }
}

fn of_route(crowd: &Crowd, node: u32, workers: usize, loaded: Option<bool>) -> Treatment {
    let mut factors = parameters([("from", crowd.node.to_string()), ("to", node.to_string())]);
    let mut name = format!("node {} to {node}", crowd.node);
    if let Some(loaded) = loaded {
        factors.insert("loaded".to_owned(), if loaded { "yes" } else { "no" }.to_owned());
        name.push_str(if loaded { ", loaded" } else { ", idle" });
    }
    Treatment { name, workers, factors, latency: None }
}

/// Measures what all CPUs of each node read from each node.
fn reading(stage: &mut Stage, field: &Field, seconds: f64, part: (f64, f64)) -> Result {
    let work = Work::READ;
    let arm = |(crowd, node): (&Crowd, u32)| {
        let orders = field.orders(0, &crowd.cpus, work, node);
        let trial = Trial { orders, servers: Vec::new(), unit_per_tick: work.per_tick() as f64 };
        (of_route(crowd, node, crowd.cpus.len(), None), trial)
    };
    let (treatments, trials) = field.routes().map(arm).unzip();
    let pace = slices(&stage.session.record.machine);
    let design = field.design(id::STREAM_NODES, "bytes", pace, treatments, seconds);
    let mut live = field.live(stage, pace, trials)?;
    stage.experiment(design, &mut live, part)
}

/// Measures the latency of a load from each node to each, with no other work and while the node's other CPUs
/// read.
fn loads(stage: &mut Stage, field: &Field, seconds: f64, part: (f64, f64)) -> Result {
    let mut arms = Vec::new();
    for (crowd, node) in field.routes() {
        let (own, others) = crowd.cpus.split_at(1);
        let chaser = field.orders(0, own, Work::CHASE, node);
        let trial = |orders| Trial { orders, servers: Vec::new(), unit_per_tick: 1.0 };
        arms.push((of_route(crowd, node, 1, Some(false)), trial(chaser.clone())));
        if !others.is_empty() {
            let all = chaser.into_iter().chain(field.orders(1, others, Work::READ, node)).collect();
            arms.push((of_route(crowd, node, crowd.cpus.len(), Some(true)), trial(all)));
        }
    }
    let (treatments, trials) = arms.into_iter().unzip();
    let pace = slices(&stage.session.record.machine);
    let metric =
        |name: &str, unit: &str, better| Metric { name: name.to_owned(), unit: unit.to_owned(), better };
    let design = Design {
        metrics: vec![metric("latency", "ns", Better::Lower), metric("load", "B/s", Better::Higher)],
        ..field.design(id::STREAM_LATENCY, "loads", pace, treatments, seconds)
    };
    let mut live = Loads(field.live(stage, pace, trials)?);
    stage.experiment(design, &mut live, part)
}

/// Workers of which the first follows a chain while the others, if any, read.
struct Loads(Live);

impl Subject for Loads {
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
        let crowd = Crowd { node: 3, cpus: (0..6).collect() };
        assert_eq!(counts(&[], &crowd).unwrap(), [1, 2, 3, 4, 6]);
        assert_eq!(counts(&[4, 1, 4], &crowd).unwrap(), [1, 4]);
        let refused = counts(&[9], &crowd).unwrap_err();
        assert!(
            matches!(&refused, Error::Invalid(what) if what.contains("6 of node 3 may be used")),
            "{refused:?}"
        );
    }
}
