//! `manycore compare`: measures whether B is better than A, and by how much.

mod commands;

use crate::{cli::Compare, failure::Outcome, measuring::Run, source, study};
use manycore_render::terminal::Terminal;
use manycore_study::compare::{self, Comparison, VariantSpec};

/// Measures pairs of A and B, saves the record and prints the verdict.
pub fn run(args: &Compare, terminal: Terminal) -> Outcome {
    let options = study::options("compare", &args.measuring)?;
    let comparison = comparison(args)?;
    let machine = source::live()?;
    let mut run = Run::begin("compare", &args.measuring.results, terminal, study::planned_seconds(&options))?;
    let measured = compare::run(machine, &options, &comparison, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}

fn comparison(args: &Compare) -> Outcome<Comparison> {
    let workers = |own: Option<u32>| own.or(args.workers).map(|workers| workers as usize);
    let [a, b] = commands::commands(args)?;
    Ok(Comparison {
        variants: [
            VariantSpec {
                command: a,
                env: args.a_env.clone(),
                place: args.a.clone(),
                memory: args.a_memory.clone(),
                workers: workers(args.a_workers),
            },
            VariantSpec {
                command: b,
                env: args.b_env.clone(),
                place: args.b.clone(),
                memory: args.b_memory.clone(),
                workers: workers(args.b_workers),
            },
        ],
        precision: args.measuring.precision,
    })
}
