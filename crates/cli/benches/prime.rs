//! Compares prime events per second with sysbench, with one thread and with one on each CPU.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_analysis::Evaluation;
use manycore_experiment::record::id;

fn main() {
    let record = common::section("sysbench");
    for peer in Evaluation::from_record(&record).sysbench {
        let ratio = peer.ratio.as_ref().map_or_else(|| "too few pairs for a ratio".to_owned(), common::show);
        println!("{} threads: manycore over sysbench {ratio}", peer.workers);
    }
    if record.experiment(id::SYSBENCH).is_none() {
        println!("SKIPPED: {:?}", record.not_measured);
    }
}
