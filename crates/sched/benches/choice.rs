//! The cost of choosing a CPU, with the code of the scheduler, on invented machines of growing size. Needs root, for BPF.
//!
//! Machines have clusters of 4 CPUs, 4 clusters for each last-level cache, and up to 128 CPUs for each NUMA node. The
//! rounds of all sizes are interleaved.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark may stop anywhere")]

use manycore_sched::{
    choice::{ChoiceCost, measure},
    run::FixedPolicy,
};
use manycore_topology::{
    CpuSet, Machine,
    machine::{Cache, CacheKind, Group, Node},
};

const SIZES: [u32; 5] = [16, 64, 256, 512, 4096];
const SHARES: [f64; 3] = [0.25, 0.75, 1.1];
const ROUNDS: usize = 9;
const CHOICES: u32 = 100_000;

fn main() {
    println!(
        "time of one choice in ns, with two readings of the clock: median of {ROUNDS} rounds (least to most)"
    );
    println!("{:>8} {:>5} {:>24} {:>24} {:>24}", "policy", "CPUs", "25 % busy", "75 % busy", "all busy");
    for policy in FixedPolicy::ALL {
        let mut rounds = vec![Vec::new(); SIZES.len() * SHARES.len()];
        for _ in 0..ROUNDS {
            for (index, costs) in rounds.iter_mut().enumerate() {
                let (size, share) = (SIZES[index / SHARES.len()], SHARES[index % SHARES.len()]);
                match measure(&machine(size), policy, share, CHOICES) {
                    Ok(cost) => costs.push(cost),
                    Err(error) => return println!("SKIPPED: {error}"),
                }
            }
        }
        for (size, costs) in SIZES.iter().zip(rounds.chunks(SHARES.len())) {
            let cells: Vec<String> = costs.iter().map(|costs| format!("{:>24}", cell(costs))).collect();
            println!("{:>8} {size:>5} {}", policy.word(), cells.join(" "));
        }
    }
}

fn cell(costs: &[ChoiceCost]) -> String {
    let mut times: Vec<f64> = costs.iter().map(|cost| cost.mean_ns).collect();
    times.sort_by(f64::total_cmp);
    format!("{:.0} ({:.0} to {:.0})", times[times.len() / 2], times[0], times[times.len() - 1])
}

/// Returns a machine with so many CPUs.
fn machine(cpus: u32) -> Machine {
    let parts = |size: u32| -> Vec<CpuSet> {
        (0..cpus)
            .step_by(size as usize)
            .map(|first| CpuSet::from_ranges(vec![(first, (first + size).min(cpus) - 1)]))
            .collect()
    };
    let groups = |size: u32| parts(size).into_iter().map(|cpus| Group { id: None, cpus }).collect();
    let cache = |cpus| Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes: None,
        line_bytes: None,
        ways: None,
        id: None,
        cpus,
    };
    let nodes = parts(128).into_iter().enumerate();
    Machine {
        online: CpuSet::from_ranges(vec![(0, cpus - 1)]),
        clusters: groups(4),
        cores: groups(1),
        caches: parts(16).into_iter().map(cache).collect(),
        nodes: nodes.map(|(id, cpus)| Node { id: id as u32, cpus, ..Node::default() }).collect(),
        ..Machine::default()
    }
}
