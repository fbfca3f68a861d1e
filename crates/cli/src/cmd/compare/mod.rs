//! `manycore compare`: measures whether B is better than A, and by how much.

mod commands;

use crate::{cli::Compare, failure::Outcome, measuring::Run, source, study};
use manycore_placement::{MemoryPlacement, Policy};
use manycore_render::terminal::Terminal;
use manycore_study::compare::{self, Comparison, VariantSpec};

/// Measures pairs of A and B, saves the record and prints the verdict.
pub fn run(args: &Compare, terminal: Terminal) -> Outcome {
    let options = study::options("compare", &args.measuring)?;
    let comparison = comparison(args)?;
    let machine = source::live()?;
    let mut run = Run::begin("compare", &args.measuring.results, terminal, options.budget.as_secs_f64())?;
    let measured = compare::run(machine, &options, &comparison, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}

fn comparison(args: &Compare) -> Outcome<Comparison> {
    let variant =
        |command: Vec<String>, env: &[(String, String)], place: Option<&Policy>, memory: &MemoryPlacement| {
            VariantSpec { command, env: env.to_vec(), place: place.cloned(), memory: memory.clone() }
        };
    let [a, b] = commands::commands(args)?;
    Ok(Comparison {
        variants: [
            variant(a, &args.a_env, args.a.as_ref(), &args.a_memory),
            variant(b, &args.b_env, args.b.as_ref(), &args.b_memory),
        ],
        workers: args.workers.map(|workers| workers as usize),
        precision: args.measuring.precision,
    })
}
