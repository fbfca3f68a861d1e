//! Matrix products of 500 to 2000 rows: on one core, and in one process on each core at once.

use crate::{Suite, error::Result, parameters, pilot, treatment};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    pool_subject::{Trial, WorkerOrder},
    record::{factor, id},
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_text::units;
use manycore_topology::CpuSet;
use manycore_workload::{LoadKind, product_operations};

/// Sizes of the published evaluation.
const SIZES: [u64; 4] = [500, 1000, 1500, 2000];

/// Smallest duration of a sample in seconds.
const SAMPLE_SECONDS: f64 = 0.1;

/// Largest share of the available memory for the matrices.
const MEMORY_SHARE: f64 = 0.5;

/// Matrices of a product: two factors and a result.
const MATRICES: u64 = 3;

pub(super) fn measure(suite: &mut Suite) -> Result {
    let cores = cores(suite);
    let sizes = fitting(suite, cores.len() as u64);
    let second = pilot(LoadKind::Product, SIZES[0]) / product_operations(SIZES[0]) as f64;
    let trial = |size: u64, cores: &[CpuSet]| {
        let operations = product_operations(size) as f64;
        let ticks = (SAMPLE_SECONDS / (second * operations)).ceil().max(1.0) as u64;
        let order = |(worker, cpus): (usize, &CpuSet)| WorkerOrder {
            worker,
            cpus: cpus.clone(),
            parameter: size,
            ticks,
            expected_cpu: None,
        };
        Trial {
            orders: cores.iter().enumerate().map(order).collect(),
            servers: Vec::new(),
            unit_per_tick: operations,
        }
    };
    let mut trials = Vec::new();
    for &size in &sizes {
        let one = treatment(format!("{size} on one core"), 1, (factor::SIZE, size.to_string()));
        trials.push((one, trial(size, &cores[..1])));
        if cores.len() > 1 {
            let mut all =
                treatment(format!("{size} on all cores"), cores.len(), (factor::SIZE, size.to_string()));
            all.factors.insert(factor::ALL_CORES.to_owned(), "yes".to_owned());
            trials.push((all, trial(size, &cores)));
        }
    }
    let mode = SamplingMode::FixedWork;
    let spec = ExperimentSpec {
        parameters: parameters([("library", "gemm".to_owned())]),
        budget: Budget::seconds(suite.profile.matrix),
        ..ExperimentSpec::new(id::MATRIX, mode.method(), "flop")
    };
    let pool = WorkerPool::start(LoadKind::Product, 0, cores.len())?;
    suite.pool_experiment(pool, mode, spec, trials, (0.0, 1.0))
}

/// Returns the usable CPUs of each core.
fn cores(suite: &Suite) -> Vec<CpuSet> {
    let allowed = suite.machine().usable();
    let cores: Vec<CpuSet> = suite
        .session
        .record
        .machine
        .cores
        .iter()
        .map(|core| core.cpus.intersection(&allowed))
        .filter(|cpus| !cpus.is_empty())
        .collect();
    if cores.is_empty() { allowed.iter().map(CpuSet::single).collect() } else { cores }
}

/// Returns the sizes whose matrices fit into memory with a process on each core. Larger sizes are noted.
fn fitting(suite: &mut Suite, processes: u64) -> Vec<u64> {
    let available = suite.session.record.conditions.memory_available_bytes.unwrap_or(u64::MAX);
    let (fit, too_large): (Vec<u64>, Vec<u64>) = SIZES
        .into_iter()
        .partition(|size| (bytes(*size, processes) as f64) < available as f64 * MEMORY_SHARE);
    for size in too_large {
        suite.session.record_missing(
            &format!("matrix product of {size} on all cores"),
            &format!(
                "{processes} processes would need {}, and {} are available",
                units::bytes(bytes(size, processes)),
                units::bytes(available)
            ),
        );
    }
    fit
}

fn bytes(size: u64, processes: u64) -> u64 {
    MATRICES * 8 * size * size * processes
}
