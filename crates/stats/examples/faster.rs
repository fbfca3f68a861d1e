//! Reads pairs of rates, one pair per line, and decides whether B is faster than A: `faster < PAIRS`.

use manycore_stats::verdict::{DecisionRule, Verdict};
use std::{io, process::ExitCode};

fn main() -> ExitCode {
    let mut log_ratios = Vec::new();
    for line in io::stdin().lines().map_while(Result::ok) {
        let rates: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let &[a, b] = rates.as_slice() else {
            eprintln!("faster: '{line}' is not a pair of numbers");
            return ExitCode::from(2);
        };
        log_ratios.push((b / a).ln());
    }
    let Some(verdict) = Verdict::new(&log_ratios, DecisionRule::default(), None) else {
        eprintln!("faster: there are no pairs");
        return ExitCode::from(2);
    };
    println!("B over A: {:.3}, interval {:?}, p = {:.3}", verdict.ratio, verdict.interval, verdict.p);
    println!("{}", if verdict.is_different() { "different" } else { "not shown to be different" });
    ExitCode::SUCCESS
}
