//! How many wrong nodes are called slow, and how many slow ones are found, over invented fleets:
//! `cargo run --release -p manycore-fleet --example simulate_fleet [normal|heavy|skewed] [quick]`.
#![allow(missing_docs, clippy::print_stdout)]

use manycore_fleet::simulate::{FleetPlan, Noise, Outcome, quick_figures, standard_figures};
use manycore_fleet::{Options, evaluate};
use std::time::Instant;

/// Number of nodes and of fleets.
const SIZES: [(usize, u64); 4] = [(10, 300), (100, 40), (1_000, 20), (10_000, 1)];

fn main() {
    let given: Vec<String> = std::env::args().collect();
    let has = |name: &str| given.iter().any(|word| word == name);
    let noise = match (has("heavy"), has("skewed")) {
        (true, _) => Noise::HeavyTailed,
        (_, true) => Noise::Skewed,
        _ => Noise::Normal,
    };
    let figures = if has("quick") { quick_figures() } else { standard_figures() };
    println!("{noise:?} scatter between nodes of {:?}", FleetPlan::default().between);
    println!(
        "                       | evaluation: false, in pairs |  found | inconcl. | mean - 2 sd: false |  found"
    );
    let start = Instant::now();
    for (nodes, fleets) in SIZES {
        let mut counts = vec![0, 1, nodes / 100, nodes / 20];
        counts.sort_unstable();
        counts.dedup();
        for slow in counts {
            for deficit in if slow == 0 { &[0.05][..] } else { &[0.03, 0.05, 0.1][..] } {
                let plan = FleetPlan {
                    nodes,
                    slow,
                    deficit: *deficit,
                    noise,
                    figures: figures.clone(),
                    ..FleetPlan::default()
                };
                let (ours, theirs) = mean(&plan, fleets);
                println!(
                    "{nodes:>6} nodes {slow:>4} by {:>2.0} % | {:>17.3}  {:>8.3} | {:>6.3} | {:>8.3} | {:>18.3} | {:>6.3}",
                    deficit * 100.0,
                    ours.false_nodes,
                    ours.false_pairs,
                    ours.found,
                    ours.inconclusive,
                    theirs.false_nodes,
                    theirs.found,
                );
            }
        }
    }
    println!("{:.0} s", start.elapsed().as_secs_f64());
}

fn mean(plan: &FleetPlan, fleets: u64) -> (Outcome, Outcome) {
    let mut sums = [Outcome::default(); 2];
    for seed in 0..fleets {
        let plan = FleetPlan { seed: seed + 1, ..plan.clone() };
        let records = plan.records();
        let theirs = plan.outcome_of_two_sigma(&records);
        let ours = plan.outcome(&evaluate(records, Vec::new(), &Options::default()));
        for (sum, one) in sums.iter_mut().zip([ours, theirs]) {
            sum.false_pairs += one.false_pairs / fleets as f64;
            sum.false_nodes += one.false_nodes / fleets as f64;
            sum.found += one.found / fleets as f64;
            sum.inconclusive += one.inconclusive / fleets as f64;
        }
    }
    (sums[0], sums[1])
}
