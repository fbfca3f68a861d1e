//! `manycore scale`: measures how a command scales with more workers or more copies at once.

use crate::{
    cli::Scale,
    failure::{Failure, Outcome},
    study::{
        self, Plot, Study,
        commands::{Commands, Side},
    },
};
use manycore_model::{Machine, evaluation::id, record::Treatment};
use std::collections::{BTreeMap, BTreeSet};

/// Measures rounds of all numbers of workers, saves the record and prints the report.
pub fn run(args: &Scale) -> Outcome {
    let (mut study, mut subject, counts) =
        Study::begin("scale", &args.measuring, &args.command, |machine| {
            let counts = counts(args, machine.usable().len());
            let sides = counts.iter().map(|&count| side(args, machine, count)).collect::<Outcome<_>>()?;
            Ok((sides, counts))
        })?;
    let ending = measure(args, &mut study, &mut subject, &counts);
    study.end(&subject, ending)
}

fn measure(args: &Scale, study: &mut Study, subject: &mut Commands, counts: &[usize]) -> Outcome {
    let round: f64 = study.pilot(subject, args.measuring.warmup as usize)?.iter().sum();
    let budget = study::budget(&args.measuring, "a round", round)?;
    let (one, several) = if args.copies { ("copy", "copies") } else { ("worker", "workers") };
    let treatment = |&count: &usize| Treatment {
        name: format!("{count} {}", if count == 1 { one } else { several }),
        workers: count,
        factors: BTreeMap::from([("place".to_owned(), args.place.to_string())]),
        latency: None,
    };
    let plot = Plot {
        id: id::SCALING.to_owned(),
        title: "rounds of all numbers of workers",
        treatments: counts.iter().map(treatment).collect(),
        parameters: BTreeMap::from([
            ("place".to_owned(), args.place.to_string()),
            ("counted".to_owned(), several.to_owned()),
        ]),
        budget,
        analyses: 1,
    };
    study.experiment(plot, subject, &mut |_| false).map(drop)
}

/// Returns the numbers of workers in ascending order. They always include 1, the baseline.
fn counts(args: &Scale, cpus: usize) -> Vec<usize> {
    let asked: BTreeSet<usize> = args.workers.iter().map(|&count| count as usize).collect();
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    let counts: BTreeSet<usize> = if asked.is_empty() { powers.chain([cpus]).collect() } else { asked };
    counts.into_iter().chain([1]).collect::<BTreeSet<usize>>().into_iter().collect()
}

fn side(args: &Scale, machine: &Machine, count: usize) -> Outcome<Side> {
    let (command, has_hole) = study::with_workers(&args.command.command, count);
    if !has_hole && !args.copies {
        return Err(Failure::input(
            "put {workers} where the command takes its number of workers, or give --copies to run copies of it",
        ));
    }
    let (place, _) = crate::placing::placed(machine, Some(&args.place), &args.memory, count)?;
    let copies = if args.copies { count } else { 1 };
    Ok(Side { command, env: Vec::new(), copies, place })
}
