//! Loads whose workers share an object, by the number of workers and by the distance between two of them.

mod loads;
mod peer;

use crate::{
    Suite,
    error::{Error, LoadOption, Result},
    parameters,
    scaling::worker_counts,
};
pub use loads::LOADS;
use loads::{COUNTER, ContendedLoad, LOCK, PIPE};
use manycore_control::cleanup::{Cleanup, Leftover, Program};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::{Treatment, factor, id},
    sampling::{SLICE, SamplingMode, settling_time, slices},
    worker_pool::WorkerPool,
};
use manycore_topology::{CpuSet, TopologyDistance};
use manycore_workload::contention::SharedObject;
pub use peer::stress_ng_version;
use std::{
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// Minimum number of blocks from which an interval can be computed.
const MIN_BLOCKS: usize = 6;

/// Number and length of UnixBench's passes.
const PASSES: usize = 10;
const PASS: Duration = Duration::from_secs(10);

/// Share of a load's time for another program, if one is available.
const PEER_SHARE: f64 = 0.4;

/// Maximum time for operations in progress to arrive where they are counted.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What is measured of a load.
struct Scope {
    /// Numbers of workers.
    counts: Vec<usize>,
    /// Whether two tasks are also measured pinned to CPUs at every distance.
    distances: bool,
    seconds: f64,
    /// Part of the section's time.
    part: (f64, f64),
    /// Whether there are as many passes, of the same length, as UnixBench has.
    unixbench: bool,
}

/// The section of `eval`: counters, pipes and locks, with one worker, with two, and with one on each CPU.
pub(super) fn section(suite: &mut Suite) -> Result {
    let cpus = suite.machine().usable().len();
    let mut few = vec![1, 2.min(cpus), cpus];
    few.dedup();
    let mut from = 0.0;
    for (load, share) in [(&COUNTER, 0.4), (&PIPE, 0.2), (&LOCK, 0.4)] {
        let scope = Scope {
            counts: if load.pairs { vec![1] } else { few.clone() },
            distances: load.pairs,
            seconds: suite.profile.contention * share,
            part: (from, from + share),
            unixbench: false,
        };
        from += share;
        measure(suite, load, &scope)?;
    }
    Ok(())
}

/// Measures one load for `bench`, and the same load of another program if that is available.
fn bench(suite: &mut Suite, load: &ContendedLoad) -> Result {
    let cpus = suite.machine().usable().len();
    let least = load.min_workers();
    let mut counts = worker_counts(cpus);
    if load.pairs {
        // With as many pairs as CPUs, there are twice as many processes as CPUs already.
        counts.pop();
    }
    if !suite.loads.workers.is_empty() {
        counts.clone_from(&suite.loads.workers);
        counts.sort_unstable();
        counts.dedup();
    }
    counts.retain(|&count| count >= least);
    if counts.is_empty() {
        let reason = format!("is too small: {} needs at least {least} workers", load.section.name);
        return Err(Error::invalid(LoadOption::Workers, reason));
    }
    let unixbench = suite.loads.unixbench;
    if unixbench {
        counts = vec![1];
    }
    let peer = peer::find(suite, load, &counts)?;
    let own = if peer.is_some() { 1.0 - PEER_SHARE } else { 1.0 };
    let total = (suite.section.seconds)(&suite.profile);
    let scope = Scope { counts, distances: !unixbench, seconds: total * own, part: (0.0, own), unixbench };
    measure(suite, load, &scope)?;
    peer.map_or(Ok(()), |peer| peer.measure(suite, load, total * PEER_SHARE, (own, 1.0)))
}

/// Creates the shared object for at most `workers` workers, and the process that removes it if this one is killed.
fn open(load: &ContendedLoad, workers: usize) -> Result<(Option<Cleanup>, Arc<dyn SharedObject>)> {
    let object = (load.open)(workers).map_err(|error| {
        let hint = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOSPC) => {
                "; the system's limit is reached (ipcs -l shows it, ipcs lists the objects, ipcrm removes them)"
            }
            Some(rustix::io::Errno::NOSYS) => "; this kernel is built without System V IPC (CONFIG_SYSVIPC)",
            Some(rustix::io::Errno::MFILE) => "; see ulimit -n",
            _ => "",
        };
        Error::unavailable(format!("{}: cannot create the object of {workers} workers: {error}{hint}", load.section.title))
    })?;
    let objects = object.kernel_objects();
    let mut cleanup = None;
    if !objects.is_empty() {
        let mut process = Cleanup::start(&Program::own())?;
        for name in objects {
            process.add(Leftover::SystemV(name.into()))?;
        }
        cleanup = Some(process);
    }
    Ok((cleanup, object))
}

fn measure(suite: &mut Suite, load: &ContendedLoad, scope: &Scope) -> Result {
    let most = scope.counts.iter().copied().max().unwrap_or(1).max(load.min_workers());
    let most = if scope.distances { most.max(load.workers_for_two_tasks()) } else { most };
    // Dropped in reverse order: the cleanup process outlives the object.
    let (_cleanup, object) = open(load, most)?;
    let machine = suite.machine();
    let trials = treatments(load, scope, &*object, machine);
    let (treatments, trials): (Vec<Treatment>, Vec<Trial>) = trials.into_iter().unzip();
    let mode = if scope.unixbench {
        SamplingMode::Slices { slice: PASS, settling_time: settling_time(machine) }
    } else {
        slices(machine)
    };
    let budget = if scope.unixbench {
        Budget { seconds: scope.seconds, min_blocks: PASSES, max_blocks: PASSES }
    } else {
        Budget { min_blocks: MIN_BLOCKS, ..Budget::seconds(scope.seconds) }
    };
    let spec = ExperimentSpec {
        parameters: parameters([("counted", load.worker_noun().to_owned())]),
        treatments,
        budget,
        ..ExperimentSpec::new(format!("{}{}", id::CONTENTION, load.section.name), mode.method(), load.unit)
    };
    let pool = WorkerPool::with_shared_object(Arc::clone(&object))?;
    let mut subject = PoolSubject::new(
        pool,
        Rc::clone(&suite.session.counter_reader),
        mode,
        trials,
        suite.session.origin_ns,
    );
    suite.experiment(spec, &mut subject, scope.part)?;
    check_counts(&mut subject, &*object)
}

/// Returns every variant with every number of workers, and with two tasks pinned to CPUs at every distance.
fn treatments(
    load: &ContendedLoad,
    scope: &Scope,
    object: &dyn SharedObject,
    machine: &manycore_topology::Machine,
) -> Vec<(Treatment, Trial)> {
    let cpus = machine.usable();
    let mut all = Vec::new();
    for (number, &variant) in load.variants.iter().enumerate() {
        for &workers in &scope.counts {
            let name = format!("{variant}, {workers} free");
            all.push((
                treatment(name, workers, &[(factor::VARIANT, variant)]),
                trial(object, number, workers, &|_| cpus.clone()),
            ));
        }
        if !scope.distances {
            continue;
        }
        let one = cpus.first().filter(|_| load.blocks).map(|cpu| ("same", [cpu, cpu]));
        let others =
            TopologyDistance::examples(machine, &cpus).into_iter().map(|(far, pair)| (far.name(), pair));
        for (distance, pair) in one.into_iter().chain(others) {
            let list: CpuSet = pair.into_iter().collect();
            let factors =
                [(factor::VARIANT, variant), (factor::DISTANCE, distance), (factor::CPUS, &list.to_string())];
            let name = format!("{variant}, on {list}");
            all.push((
                treatment(name, load.workers_for_two_tasks(), &factors),
                trial(object, number, load.workers_for_two_tasks(), &|task| CpuSet::single(pair[task % 2])),
            ));
        }
    }
    all
}

fn treatment(name: String, workers: usize, factors: &[(&str, &str)]) -> Treatment {
    let factors = factors.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Treatment { name, workers, factors: factors.collect::<BTreeMap<_, _>>(), latency: None }
}

/// Returns the trial of a team. Its tasks, workers before servers, run on the CPUs that `place` returns.
fn trial(
    object: &dyn SharedObject,
    variant: usize,
    workers: usize,
    place: &dyn Fn(usize) -> CpuSet,
) -> Trial {
    let team = object.team(variant, workers);
    let order = |(task, worker): (usize, &usize)| WorkerOrder {
        worker: *worker,
        cpus: place(task),
        parameter: team.parameter,
        ticks: 0,
        expected_cpu: None,
    };
    let first = team.workers.len();
    let servers = team.servers.iter().enumerate();
    Trial {
        orders: team.workers.iter().enumerate().map(order).collect(),
        servers: servers.map(|(task, server)| (*server, place(first + task))).collect(),
        unit_per_tick: object.per_tick() as f64,
    }
}

/// Checks that the workers' counts equal that of the object. A load that loses counts is not measured
/// correctly.
fn check_counts(subject: &mut PoolSubject, object: &dyn SharedObject) -> Result {
    subject.stop_all()?;
    let ours = subject.ticks_done() * object.per_tick();
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    // Messages that are still in a queue are counted when they are taken out.
    while object.object_count().is_some_and(|own| own < ours) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    match object.object_count().filter(|&own| own != ours) {
        None => Ok(()),
        Some(own) => {
            let what = format!(
                "the workers counted {ours} operations, but the object that they share counted {own}"
            );
            Err(Error::Failed(what))
        }
    }
}

/// Returns the length of a sample of another program, and of our samples interleaved with it.
fn peer_sample_length() -> Duration {
    SLICE.max(Duration::from_secs(1))
}
