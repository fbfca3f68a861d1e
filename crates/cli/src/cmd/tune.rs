//! `manycore tune`: searches workers, placement, SMT and memory for what serves a command best, and proves it.

use crate::{
    cli::Tune,
    experiment::{Budget, Subject},
    failure::{Failure, Outcome},
    output,
    study::{
        self, Plot, Study,
        candidates::{self, Candidate},
        commands::Commands,
    },
};
use manycore_analysis::{self, Evaluation, confirmed, ranking};
use manycore_experiment::{
    Record,
    record::{Treatment, id},
};
use std::collections::BTreeMap;

/// Part of the budget that the search takes; the rest is for the proof.
const SEARCH: f64 = 0.6;

/// Candidates that are confirmed on fresh pairs.
const FINALISTS: usize = 2;

/// Searches, confirms, saves the record and the winner's plan, and prints what to do.
pub fn run(args: &Tune) -> Outcome {
    let (mut study, mut subject, field) = Study::begin("tune", &args.measuring, &args.command, |machine| {
        let field = candidates::of(args, machine, &machine.usable())?;
        Ok((field.iter().map(|candidate| candidate.side.clone()).collect(), field))
    })?;
    let ending = search(args, &mut study, &mut subject, &field);
    let plan = ending.as_ref().ok().and_then(|()| winner(study.record(), &field));
    let folder = study.folder().to_owned();
    study.end(&subject, ending)?;
    if let Some(plan) = plan.and_then(|candidate| candidate.plan.as_ref()) {
        let path = folder.join("plan.json");
        let text = serde_json::to_vec_pretty(plan).map_err(Failure::missing)?;
        output::write_file(&path, &text)?;
        if !args.measuring.quiet {
            output::note(&format!("The winner's plan is {}.", path.display()));
        }
    }
    Ok(())
}

/// Halves the field until the finalists are left, then confirms them.
fn search(args: &Tune, study: &mut Study, subject: &mut Commands, field: &[Candidate]) -> Outcome {
    let (today, others) = field.split_first().ok_or_else(|| Failure::input("nothing to search"))?;
    study.say(&format!("{} candidates differ on this machine, beside today's behaviour", others.len()));
    subject.set_sides(vec![today.side.clone()]);
    let one: f64 = study.pilot(subject, args.measuring.warmup as usize)?.iter().sum();
    let (mut left, round) = willing(study, subject, others)?;
    let total = study::budget(&args.measuring, "a round of all candidates", one + round)?.seconds;
    let pairs = args.measuring.pairs.map(|pairs| pairs as usize);
    let rounds = rounds(left.len());
    for round in 1..=rounds {
        let budget = part(total * SEARCH / rounds as f64, pairs);
        let plot = plot(format!("{}{round}", id::TUNE), today, &left, budget, 1);
        subject.set_sides(sides(today, &left));
        let experiment = study.experiment(plot, subject, &mut |_| false)?;
        let keep = left.len().div_ceil(2).max(FINALISTS.min(left.len()));
        // Today's behaviour is treatment 0 and stays in every round.
        let best = ranking(experiment).into_iter().filter(|(index, _)| *index > 0).take(keep);
        left = best.map(|(index, _)| left[index - 1]).collect();
    }
    left.truncate(FINALISTS);
    // A fixed number of pairs is made in any case.
    let analyses = match pairs {
        Some(_) => 1,
        None => study::analyses_for(total * (1.0 - SEARCH) / (one * (left.len() + 1) as f64)),
    };
    let plot = plot(id::TUNE_CONFIRM.to_owned(), today, &left, part(total * (1.0 - SEARCH), pairs), analyses);
    subject.set_sides(sides(today, &left));
    study.experiment(plot, subject, &mut confirmed).map(drop)
}

/// A part of the budget, or the number of rounds that was asked for, however long they take.
fn part(seconds: f64, pairs: Option<usize>) -> Budget {
    pairs.map_or(Budget::seconds(seconds), |pairs| Budget {
        seconds,
        least_blocks: pairs,
        most_blocks: pairs,
    })
}

/// Candidates of which a first run succeeds, and the seconds that these took together.
///
/// # Errors
/// Those that are not the candidate's own, and that of the last one where none succeeds.
fn willing<'a>(
    study: &mut Study,
    subject: &mut Commands,
    candidates: &'a [Candidate],
) -> Outcome<(Vec<&'a Candidate>, f64)> {
    let (mut willing, mut refusal, began) = (Vec::new(), None, subject.now_ns());
    for candidate in candidates {
        subject.set_sides(vec![candidate.side.clone()]);
        match subject.measure(0) {
            Ok(_) => willing.push(candidate),
            Err(Failure::Measured(why)) => {
                study.miss(&candidate.name, &why);
                refusal = Some(why);
            }
            Err(failure) => return Err(failure),
        }
    }
    match refusal {
        Some(why) if willing.is_empty() => Err(Failure::Measured(why)),
        _ => Ok((willing, (subject.now_ns() - began) as f64 / 1e9)),
    }
}

/// Halvings until no more than the finalists are left; at least one round, so that something is tried.
fn rounds(candidates: usize) -> usize {
    let mut left = candidates;
    let mut rounds = 0;
    while left > FINALISTS {
        left = left.div_ceil(2);
        rounds += 1;
    }
    rounds.max(1)
}

fn sides(today: &Candidate, left: &[&Candidate]) -> Vec<study::commands::Side> {
    std::iter::once(today).chain(left.iter().copied()).map(|candidate| candidate.side.clone()).collect()
}

fn plot(id: String, today: &Candidate, left: &[&Candidate], budget: Budget, analyses: usize) -> Plot {
    let treatment = |(index, candidate): (usize, &Candidate)| {
        let side = if index == 0 { manycore_analysis::TODAY } else { "candidate" };
        Treatment {
            name: candidate.name.clone(),
            workers: candidate.workers,
            factors: BTreeMap::from([
                ("side".to_owned(), side.to_owned()),
                ("line".to_owned(), candidate.line.clone()),
            ]),
            latency: None,
        }
    };
    Plot {
        title: if id == id::TUNE_CONFIRM { "the finalists anew" } else { "candidates in turns" },
        id,
        treatments: std::iter::once(today).chain(left.iter().copied()).enumerate().map(treatment).collect(),
        parameters: BTreeMap::new(),
        budget,
        analyses,
    }
}

/// The candidate that the record shows to be better than today's behaviour.
fn winner<'a>(record: &Record, field: &'a [Candidate]) -> Option<&'a Candidate> {
    let tuning = Evaluation::of(record).tuning?;
    let name = &tuning.finalists.get(tuning.winner?)?.name;
    field.iter().find(|candidate| candidate.name == *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_ends_with_two() {
        assert_eq!([1, 2, 3, 4, 5, 8, 16, 100].map(rounds), [1, 1, 1, 1, 2, 2, 3, 6]);
    }
}
