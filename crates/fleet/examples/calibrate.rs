//! Computes the table of `src/reference.rs`, and checks it: `cargo run --release -p manycore-fleet --example calibrate`.
#![allow(missing_docs, clippy::print_stdout)]

use manycore_fleet::simulate::{reference_critical, standardised};
use manycore_stats::student_critical;

const NODES: [usize; 18] = [4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 20, 25, 30, 50, 100, 200, 1000];

/// Number of standardised values for each number of nodes.
const VALUES: usize = 1_000_000;

fn main() {
    println!(
        "nodes, (freedom, factor) of the tail and of the bulk | probability in use at 0.05, 0.01, 0.001, 0.0001"
    );
    for nodes in NODES {
        let mut values = standardised(nodes, VALUES / nodes, nodes as u64);
        values.sort_unstable_by(f64::total_cmp);
        let quantile = |p: f64| values[((1.0 - p) * values.len() as f64) as usize];
        let [tail, bulk] = [(0.01, 0.0001), (0.1, 0.01)].map(|levels| fit(quantile, levels));
        let in_use = [0.05, 0.01, 0.001, 0.0001].map(|p| {
            let limit = reference_critical(nodes, p);
            let beyond = values.len() - values.partition_point(|value| *value <= limit);
            format!("{:.2}", beyond as f64 / values.len() as f64 / p)
        });
        println!("({nodes}.0, {tail:?}, {bulk:?}), | {}", in_use.join(" "));
    }
}

/// Returns the degrees of freedom and the factor of Student's t that has two quantiles.
fn fit(quantile: impl Fn(f64) -> f64, (many, few): (f64, f64)) -> (f64, f64) {
    let wanted = quantile(few) / quantile(many);
    // The ratio of the two quantiles falls with the degrees of freedom.
    let (mut low, mut high) = (0.5_f64, 1e6_f64);
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        let ratio = student_critical(few, middle) / student_critical(many, middle);
        if ratio > wanted { low = middle } else { high = middle }
    }
    let rounded = |value: f64| (value * 1e3).round() / 1e3;
    (rounded(high), rounded(student_critical(many, high) / quantile(many)))
}
