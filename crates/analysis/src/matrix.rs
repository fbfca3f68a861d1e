//! Matrix products: GFLOPS on one core and on all cores at once.

use super::{scaling::Clock, with_factor};
use manycore_experiment::record::{Experiment, factor};
use manycore_stats::Estimate;
use manycore_topology::machine::Machine;
use serde::Serialize;

/// A core that exceeds its computed peak by this factor ran at another clock than the one that was
/// measured.
const PEAK_TOLERANCE: f64 = 1.02;

/// Products of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPoint {
    /// Rows and columns.
    pub size: usize,
    /// GFLOPS of one process on one core.
    pub one_gflops: Estimate,
    /// Number of processes in [`MatrixPoint::all_gflops`], one on each core.
    pub processes: usize,
    /// GFLOPS of all processes in total.
    pub all_gflops: Option<Estimate>,
    /// All processes relative to one, from pairs of the same block.
    pub speedup: Option<Estimate>,
    /// Theoretical peak of one core in GFLOPS, where its SIMD units and its clock are known. `None` where
    /// products exceeded it: another guest slowed the clock down while it was measured.
    pub peak_gflops: Option<f64>,
}

/// Returns one point for each size.
pub(crate) fn evaluate(
    experiment: &Experiment,
    machine: &Machine,
    clock: Option<&Clock>,
) -> Vec<MatrixPoint> {
    let peak = flops_per_cycle(machine).zip(clock).map(|(flops, clock)| flops * clock.alone_hz() / 1e9);
    let mut sizes: Vec<usize> = experiment
        .treatments
        .iter()
        .filter_map(|treatment| treatment.factors.get(factor::SIZE)?.parse().ok())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let gigaflops =
        |index| Estimate::from_samples(&experiment.rates(index)).map(|rate| rate.map(|rate| rate / 1e9));
    let mut points: Vec<MatrixPoint> = sizes
        .into_iter()
        .filter_map(|size| {
            let name = size.to_string();
            let of_size = |alone: bool| {
                with_factor(experiment, factor::SIZE, &name).find(|&index| {
                    (experiment.treatments[index].factors.contains_key(factor::ALL_CORES)) != alone
                })
            };
            let one = of_size(true)?;
            let all = of_size(false);
            Some(MatrixPoint {
                size,
                one_gflops: gigaflops(one)?,
                processes: all.map_or(1, |all| experiment.treatments[all].workers),
                all_gflops: all.and_then(gigaflops),
                speedup: all
                    .and_then(|all| Estimate::from_samples(&experiment.log_ratios(one, all)))
                    .map(|ratio| ratio.map(f64::exp)),
                peak_gflops: peak,
            })
        })
        .collect();
    if points.iter().any(|point| peak.is_some_and(|peak| point.one_gflops.median > PEAK_TOLERANCE * peak)) {
        for point in &mut points {
            point.peak_gflops = None;
        }
    }
    points
}

/// Returns the double-precision operations that a core can retire in a cycle: SIMD lanes x FMA units x 2.
///
/// The values are from the vendors' optimisation manuals. `None` for unknown cores. Intel server parts with
/// one AVX-512 FMA unit (some Xeon Silver and Bronze of the first generations) reach half of the value.
pub(crate) fn flops_per_cycle(machine: &Machine) -> Option<f64> {
    let has = |flag: &str| machine.system.cpu_flags.iter().any(|have| have == flag);
    let parts: Vec<&str> = machine.system.cpu_id.as_deref()?.split('/').collect();
    let number = |index: usize| parts.get(index).and_then(|part| part.parse::<u32>().ok());
    match (parts[0], number(1), number(2)) {
        // Skylake-SP, Ice Lake-SP and -D, Sapphire Rapids, Emerald Rapids, Granite Rapids (-D).
        ("GenuineIntel", Some(6), Some(85 | 106 | 108 | 143 | 207 | 173 | 174)) if has("avx512f") => {
            Some(32.0)
        }
        // Sierra Forest, Grand Ridge, Clearwater Forest: two 128-bit FMA units.
        ("GenuineIntel", Some(6), Some(175 | 182 | 221)) if has("fma") => Some(8.0),
        ("GenuineIntel", Some(6), _) if has("avx2") && has("fma") => Some(16.0),
        // Zen 1, Zen+ and Hygon's Dhyana split 256-bit operations.
        ("AuthenticAMD", Some(23), Some(0..=47)) | ("HygonGenuine", Some(24), _) => Some(8.0),
        ("AuthenticAMD", Some(23 | 25), _) if has("fma") => Some(16.0),
        // Zen 5 servers and desktops; its mobile parts split 512-bit operations.
        ("AuthenticAMD", Some(26), Some(0..=31 | 64..=79)) if has("avx512f") => Some(32.0),
        // Arm and HiSilicon, by implementer and part: two 128-bit units, or two 256-bit ones (V1), or four
        // 128-bit ones (V2).
        ("0x48", _, _) if parts.get(1) == Some(&"0xd01") => Some(8.0),
        ("0x41", _, _) => match *parts.get(1)? {
            "0xd0c" | "0xd49" => Some(8.0),
            "0xd40" | "0xd4f" => Some(16.0),
            _ => None,
        },
        _ => None,
    }
}
