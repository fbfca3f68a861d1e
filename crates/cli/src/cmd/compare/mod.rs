//! `manycore compare`: measures which of several variants is better, and by how much.

mod commands;
mod records;

use crate::{
    cli::Compare,
    failure::{Failure, Outcome},
    measuring::Run,
    source, study,
};
use manycore_render::terminal::Terminal;
use manycore_study::{
    Options,
    compare::{self, Comparison, VariantSpec},
    variant::{self, Expanded},
};

/// Measures rounds of all variants, saves the record and prints the verdict.
pub fn run(args: &Compare, terminal: Terminal) -> Outcome {
    if let Some(sides) = records::sides(args)? {
        return records::run(args, &sides, terminal);
    }
    let checks = records::checks(args)?;
    let options =
        Options { by: args.estimator.by.unwrap_or_default(), ..study::options("compare", &args.measuring)? };
    let comparison = comparison(args)?;
    let machine = source::live()?;
    if checks.has_baseline() {
        checks.check_variants(&compare::variant_names(&comparison, &machine, &options)?)?;
    }
    let mut run = Run::begin("compare", &args.measuring.results, terminal, study::planned_seconds(&options))?
        .with_checks(checks);
    let measured = compare::run(machine, &options, &comparison, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}

fn comparison(args: &Compare) -> Outcome<Comparison> {
    let base =
        VariantSpec { workers: args.workers.map(|workers| workers as usize), ..VariantSpec::default() };
    let mut texts = commands::texts(args)?;
    let hooks = study::hooks(&args.measuring.life, texts.len())?;
    for (text, hooks) in texts.iter_mut().zip(hooks) {
        text.hooks = hooks;
    }
    let Expanded { variants, note } =
        variant::expand(&texts, &args.variants.parameter, &base).map_err(Failure::input)?;
    let wanted = args.variants.reference.as_deref();
    let reference = wanted.map(|wanted| variant::reference(&variants, wanted)).transpose();
    Ok(Comparison {
        reference: reference.map_err(Failure::input)?.unwrap_or(0),
        variants,
        note,
        precision: args.measuring.precision,
    })
}
