//! The commands that the summary of a record offers are accepted by the command line's definition.

use clap::Parser;
use manycore::cli::Cli;
use manycore_analysis::{Evaluation, summary::summarize};
use manycore_experiment::Record;
use manycore_testkit::SyntheticMachine;
use std::collections::BTreeSet;

/// Returns the commands of a record.
fn commands(record: &Record) -> BTreeSet<String> {
    let summaries = summarize(record, &Evaluation::from_record(record));
    summaries.into_iter().filter_map(|summary| summary.next).collect()
}

#[test]
fn every_next_command_is_accepted() {
    let noisy = || SyntheticMachine { noise: 0.2, blocks: 8, ..SyntheticMachine::guest() };
    let records = [
        SyntheticMachine::guest().record(),
        SyntheticMachine::server().record(),
        SyntheticMachine::chiplets().record(),
        SyntheticMachine { off_cpu_checks: 1, ..SyntheticMachine::guest() }.record(),
        SyntheticMachine { noise: 0.3, ..SyntheticMachine::server() }.prove(0.95),
        noisy().record(),
        noisy().compare(1.0),
        SyntheticMachine::server().tune(1.2),
    ];
    let all: BTreeSet<String> = records.iter().flat_map(commands).collect();
    assert!(all.len() >= 8, "{all:#?}");
    for command in &all {
        let words = shlex::split(command.trim_start_matches("sudo ")).unwrap();
        assert!(Cli::try_parse_from(words).is_ok(), "{command}");
    }
}
