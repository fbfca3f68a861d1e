//! `manycore compare`: measures whether B is better than A, and by how much.

use crate::{
    cli::Compare,
    failure::{Failure, Outcome},
    output,
    study::{
        self, Plot, Study,
        commands::{Commands, Side},
    },
};
use manycore_model::{
    Machine,
    evaluation::{enough, id},
    placement::{Memory, Policy},
    record::Treatment,
};
use std::{collections::BTreeMap, iter};

/// Measures pairs, saves the record and prints the verdict.
pub fn run(args: &Compare) -> Outcome {
    let (mut study, mut subject, names) =
        Study::begin("compare", &args.measuring, &args.command, |machine| sides(args, machine))?;
    let ending = measure(args, &mut study, &mut subject, &names);
    study.end(&subject, ending)
}

fn measure(args: &Compare, study: &mut Study, subject: &mut Commands, names: &[String; 2]) -> Outcome {
    let pair: f64 = study.pilot(subject, args.measuring.warmup as usize)?.iter().sum();
    let budget = study::budget(&args.measuring, "a pair", pair)?;
    // A fixed number of pairs is always measured in full, unless --precision may end it earlier.
    let analyses = match (args.measuring.pairs, args.measuring.precision) {
        (Some(_), None) => 1,
        (Some(pairs), Some(_)) => study::analyses_for(f64::from(pairs)),
        (None, _) => study::analyses_for(budget.seconds / pair),
    };
    let treatment = |(name, side): (&String, &str)| Treatment {
        name: name.clone(),
        workers: 1,
        factors: BTreeMap::from([("side".to_owned(), side.to_owned())]),
        latency: None,
    };
    let plot = Plot {
        id: id::COMPARE.to_owned(),
        title: "pairs of A and B",
        treatments: names.iter().zip(["A", "B"]).map(treatment).collect(),
        parameters: BTreeMap::new(),
        budget,
        analyses,
    };
    let precision = args.measuring.precision;
    study.experiment(plot, subject, &mut |experiment| enough(experiment, precision)).map(drop)
}

/// Returns both variants with their names.
fn sides(args: &Compare, machine: &Machine) -> Outcome<(Vec<Side>, [String; 2])> {
    let workers = args.workers.map_or_else(|| machine.usable().len(), |workers| workers as usize);
    let a = study::with_workers(&args.command.command, workers).0;
    let b = match &args.vs {
        Some(line) => study::with_workers(&study::words(line)?, workers).0,
        None => a.clone(),
    };
    let side = |command: Vec<String>, env: &[(String, String)], policy: Option<&Policy>, memory: &Memory| {
        let (place, _) = crate::placing::placed(machine, policy, memory, workers)?;
        Ok::<_, Failure>(Side { command, env: env.to_vec(), copies: 1, place })
    };
    let a = side(a, &args.a_env, args.a.as_ref(), &args.a_memory)?;
    let b = side(b, &args.b_env, args.b.as_ref(), &args.b_memory)?;
    if a == b {
        output::note("A and B are the same, so this measures the noise of this machine.");
    }
    let names = [name(&a, args.a.as_ref(), &args.a_memory), name(&b, args.b.as_ref(), &args.b_memory)];
    // Two treatments of the same name could not be distinguished.
    let [first, second] = names;
    let second = if first == second { format!("{second} (again)") } else { second };
    Ok((vec![a, b], [first, second]))
}

/// Names a variant: `NAME=VALUE command args (close, interleave)`.
fn name(side: &Side, policy: Option<&Policy>, memory: &Memory) -> String {
    let env = side.env.iter().map(|(name, value)| format!("{name}={value}"));
    let command = study::line(&side.command);
    let line: Vec<String> = env.chain(iter::once(command)).collect();
    let mut place: Vec<String> = policy.iter().map(ToString::to_string).collect();
    place.extend((*memory != Memory::Default).then(|| format!("memory {memory}")));
    match place.join(", ") {
        none if none.is_empty() => line.join(" "),
        place => format!("{} ({place})", line.join(" ")),
    }
}
