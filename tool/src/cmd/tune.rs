//! `manycore tune`: searches for the number of workers, placement, SMT use and memory policy that serve a
//! command best, and confirms the result.

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
use manycore_model::{
    Record,
    evaluation::{self, Evaluation, confirmed, id, ranking},
    record::Treatment,
};
use std::collections::BTreeMap;

/// Share of the budget for the search; the rest is for the confirmation.
const SEARCH: f64 = 0.6;

/// Number of candidates that are confirmed on fresh pairs.
const FINALISTS: usize = 2;

/// Searches, confirms, saves the record and the winner's plan, and prints the advice.
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
            output::note(&format!("The plan of the winner is {}.", path.display()));
        }
    }
    Ok(())
}

/// Halves the field of candidates until the finalists are left, then confirms them.
fn search(args: &Tune, study: &mut Study, subject: &mut Commands, field: &[Candidate]) -> Outcome {
    let (today, others) =
        field.split_first().ok_or_else(|| Failure::input("there is no candidate to search"))?;
    study.say(&format!(
        "{} candidates differ on this machine, besides the command as it runs today",
        others.len()
    ));
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
        // Today's behaviour is treatment 0 and takes part in every round.
        let best = ranking(experiment).into_iter().filter(|(index, _)| *index > 0).take(keep);
        left = best.map(|(index, _)| left[index - 1]).collect();
    }
    left.truncate(FINALISTS);
    // A fixed number of pairs is always measured in full.
    let analyses = match pairs {
        Some(_) => 1,
        None => study::analyses_for(total * (1.0 - SEARCH) / (one * (left.len() + 1) as f64)),
    };
    let plot = plot(id::TUNE_CONFIRM.to_owned(), today, &left, part(total * (1.0 - SEARCH), pairs), analyses);
    subject.set_sides(sides(today, &left));
    study.experiment(plot, subject, &mut confirmed).map(drop)
}

/// Returns a budget of `seconds`, or of the requested number of rounds, however long they take.
fn part(seconds: f64, pairs: Option<usize>) -> Budget {
    pairs.map_or(Budget::seconds(seconds), |pairs| Budget {
        seconds,
        least_blocks: pairs,
        most_blocks: pairs,
    })
}

/// Runs each candidate once. Returns those that succeed, and the seconds that all of these runs took.
///
/// # Errors
/// Failures other than that of a candidate's own command. If no candidate succeeds, the failure of the last
/// one.
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

/// Returns the number of halvings until at most the finalists are left; at least one, so that some round is
/// measured.
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
        let side = if index == 0 { evaluation::TODAY } else { "candidate" };
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
        title: if id == id::TUNE_CONFIRM {
            "confirmation of the finalists"
        } else {
            "candidates in interleaved rounds"
        },
        id,
        treatments: std::iter::once(today).chain(left.iter().copied()).enumerate().map(treatment).collect(),
        parameters: BTreeMap::new(),
        budget,
        analyses,
    }
}

/// Returns the candidate that the record shows to be better than today's behaviour.
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
