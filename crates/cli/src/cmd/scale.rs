//! `manycore scale`: measures how a command scales with more workers or more copies at once.

use crate::{cli, failure::Outcome, measuring::Run, source, study};
use manycore_render::terminal::Terminal;
use manycore_study::scale::{self, Scale};

/// Measures rounds of all numbers of workers, saves the record and prints the report.
pub fn run(args: &cli::Scale, terminal: Terminal) -> Outcome {
    let options = study::options("scale", &args.measuring)?;
    let scale = Scale {
        command: args.command.command.clone(),
        workers: args.workers.iter().map(|&count| count as usize).collect(),
        copies: args.copies,
        place: args.place.clone(),
        memory: args.memory.clone(),
    };
    let machine = source::live()?;
    let mut run = Run::begin("scale", &args.measuring.results, terminal, study::planned_seconds(&options))?;
    let measured = scale::run(machine, &options, &scale, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}
