//! Changes of nodes and of whole kinds over dated runs.
//!
//! A node's series is its slowness relative to its kind on the same day, so that what changes for all does not count as a
//! change of each. What changes for all is a change of the kind, whose series is the median. A kind goes on in the next run
//! where most of its nodes are: its name may change. The kernel and the microcode make no kinds here ([`lasting_keys`]).

use crate::evaluation::{Change, FleetEvaluation, Verdict};
use crate::kinds::UNKNOWN;
use crate::properties::{KERNEL, MICROCODE};
use crate::segments::{LEAST_SIDE, Step, most_probable, steps};
use manycore_stats::{benjamini_hochberg, student_critical};
use std::collections::{BTreeMap, BTreeSet};

/// Least number of runs from which a change can be found: three before it and three after it.
pub const LEAST_RUNS: usize = 2 * LEAST_SIDE;

/// Returns the properties by which nodes are of one kind over dated runs: those of `keys` that an update does not change. If a
/// part of the nodes gets a new kernel, they are compared with the same nodes as before, and their change is seen.
pub fn lasting_keys(keys: &[String]) -> Vec<String> {
    keys.iter().filter(|key| ![KERNEL, MICROCODE].contains(&key.as_str())).cloned().collect()
}

/// A node in one run: its kind, its slowness by figure, its properties.
#[derive(Clone, Debug, Default, PartialEq)]
struct DatedNode {
    kind: usize,
    slowness: Vec<Option<f64>>,
    properties: BTreeMap<String, String>,
}

/// A figure of a kind in one run.
#[derive(Clone, Debug, Default, PartialEq)]
struct DatedFigure {
    what: String,
    higher_is_better: bool,
    /// Slowness of the median, with an arbitrary origin.
    slowness: f64,
}

/// What is kept of an earlier evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatedRun {
    started: String,
    kinds: Vec<(String, BTreeMap<String, String>, Vec<DatedFigure>)>,
    nodes: BTreeMap<String, DatedNode>,
}

impl DatedRun {
    /// Reduces an evaluation. `started` is the start of the run, RFC 3339.
    pub fn of(started: &str, evaluation: &FleetEvaluation) -> Self {
        let figure = |one: &crate::evaluation::KindFigure| DatedFigure {
            what: one.what.clone(),
            higher_is_better: one.higher_is_better,
            slowness: if one.higher_is_better { -one.median.ln() } else { one.median.ln() },
        };
        let kinds = evaluation.kinds.iter();
        let nodes = evaluation.nodes.iter().filter(|node| evaluation.kinds.get(node.kind).is_some());
        Self {
            started: started.to_owned(),
            kinds: kinds
                .map(|kind| {
                    (kind.name.clone(), kind.properties.clone(), kind.figures.iter().map(figure).collect())
                })
                .collect(),
            nodes: nodes
                .map(|node| {
                    let figures = evaluation.kinds[node.kind].figures.iter().zip(&node.figures);
                    let slowness = figures.map(|(figure, own)| {
                        let own = own.filter(|own| own.verdict != Verdict::NotJudged)?;
                        let ratio = (own.value / figure.median).ln();
                        Some(if figure.higher_is_better { -ratio } else { ratio })
                            .filter(|one| one.is_finite())
                    });
                    let slowness = slowness.collect();
                    let properties = node.properties.clone();
                    (node.name.clone(), DatedNode { kind: node.kind, slowness, properties })
                })
                .collect(),
        }
    }
}

/// A value in a run.
type Dated = (usize, f64);

/// The values of one figure of a node or a kind over the runs.
struct Series {
    node: String,
    what: String,
    higher_is_better: bool,
    values: Vec<Dated>,
}

/// Returns the changes over runs in the order of time, those of kinds first, then the largest. Empty for fewer than
/// [`LEAST_RUNS`] runs. `level` is the expected share of wrong ones among the series that are said to have changed, and
/// `least_deficit` the least change that counts.
pub fn changes(runs: &[DatedRun], level: f64, least_deficit: f64) -> Vec<Change> {
    if runs.len() < LEAST_RUNS {
        return Vec::new();
    }
    let chains = &chains(runs);
    let mut all = node_series(runs);
    all.extend(kind_series(runs, chains));
    let numbers = |one: &Series| -> Vec<f64> { one.values.iter().map(|(_, value)| *value).collect() };
    let p: Vec<f64> = all.iter().map(|one| most_probable(&numbers(one)).map_or(1.0, |step| step.p)).collect();
    let Some(limit) = benjamini_hochberg(&p, level).filter(|limit| *limit < 1.0) else { return Vec::new() };
    let found = all.iter().flat_map(|one| {
        let steps = steps(&numbers(one), limit).into_iter();
        steps.map(move |step| change(runs, chains, one, step))
    });
    let mut found: Vec<Change> = found.filter(|one| one.deficit.abs() >= least_deficit).collect();
    found.sort_by(|a, b| {
        (!a.node.is_empty()).cmp(&!b.node.is_empty()).then(b.deficit.abs().total_cmp(&a.deficit.abs()))
    });
    found
}

/// Returns the chain of each kind of each run: a kind goes on where most of its nodes are.
fn chains(runs: &[DatedRun]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::with_capacity(runs.len());
    // The chain in which each node was last.
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = 0;
    for run in runs {
        let mut votes: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); run.kinds.len()];
        for (name, node) in &run.nodes {
            if let Some(&chain) = last.get(name.as_str()) {
                *votes[node.kind].entry(chain).or_default() += 1;
            }
        }
        let mut taken = BTreeSet::new();
        let mut own = Vec::new();
        for votes in &votes {
            let free = votes.iter().filter(|(chain, _)| !taken.contains(*chain));
            let chain = match free.max_by_key(|(_, votes)| **votes) {
                Some((chain, _)) => *chain,
                None => {
                    count += 1;
                    count - 1
                }
            };
            taken.insert(chain);
            own.push(chain);
        }
        for (name, node) in &run.nodes {
            last.insert(name, own[node.kind]);
        }
        all.push(own);
    }
    all
}

fn node_series(runs: &[DatedRun]) -> Vec<Series> {
    let mut all: BTreeMap<(&str, &str), (bool, Vec<Dated>)> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        for (name, node) in &run.nodes {
            for (figure, slowness) in run.kinds[node.kind].2.iter().zip(&node.slowness) {
                let entry = all.entry((name, &figure.what)).or_default();
                entry.0 = figure.higher_is_better;
                entry.1.extend(slowness.map(|slowness| (index, slowness)));
            }
        }
    }
    let series = |((node, what), (higher_is_better, values)): ((&str, &str), (bool, Vec<Dated>))| Series {
        node: node.to_owned(),
        what: what.to_owned(),
        higher_is_better,
        values,
    };
    all.into_iter().map(series).filter(|one| one.values.len() >= LEAST_RUNS).collect()
}

fn kind_series(runs: &[DatedRun], chains: &[Vec<usize>]) -> Vec<Series> {
    let mut all: BTreeMap<(usize, &str), (bool, Vec<Dated>)> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        for ((_, _, figures), &chain) in run.kinds.iter().zip(&chains[index]) {
            for figure in figures.iter().filter(|figure| figure.slowness.is_finite()) {
                let entry = all.entry((chain, &figure.what)).or_default();
                entry.0 = figure.higher_is_better;
                entry.1.push((index, figure.slowness));
            }
        }
    }
    let series = |((_, what), (higher_is_better, values)): ((usize, &str), (bool, Vec<Dated>))| Series {
        node: String::new(),
        what: what.to_owned(),
        higher_is_better,
        values,
    };
    all.into_iter().map(series).filter(|one| one.values.len() >= LEAST_RUNS).collect()
}

fn change(runs: &[DatedRun], chains: &[Vec<usize>], series: &Series, step: Step) -> Change {
    let [before, after] = [step.at - 1, step.at].map(|at| series.values[at].0);
    let deficit =
        |slowness: f64| if series.higher_is_better { -(-slowness).exp_m1() } else { slowness.exp_m1() };
    let half = student_critical(0.05, step.error.1) * step.error.0;
    let (kind, properties) = if series.node.is_empty() {
        kind_properties(runs, chains, series, [before, after])
    } else {
        let [old, new] = [before, after].map(|run| &runs[run].nodes[&series.node]);
        (runs[after].kinds[new.kind].0.clone(), differences(&old.properties, &new.properties))
    };
    Change {
        node: series.node.clone(),
        kind,
        what: series.what.clone(),
        between: (runs[before].started.clone(), runs[after].started.clone()),
        deficit: deficit(step.difference),
        interval: (deficit(step.difference - half), deficit(step.difference + half)),
        p: step.p,
        properties,
    }
}

/// Returns the name of a kind after a change, and how its usual properties differ from those before.
fn kind_properties(
    runs: &[DatedRun],
    chains: &[Vec<usize>],
    series: &Series,
    [before, after]: [usize; 2],
) -> (String, Vec<(String, String, String)>) {
    let value = |run: usize| series.values.iter().find(|(index, _)| *index == run).map(|(_, value)| *value);
    // The kind of a run whose figure has the value of the series.
    let kind = |run: usize| {
        runs[run].kinds.iter().zip(&chains[run]).find(|((_, _, figures), _)| {
            figures.iter().any(|one| one.what == series.what && Some(one.slowness) == value(run))
        })
    };
    match (kind(before), kind(after)) {
        (Some(((_, old, _), _)), Some(((name, new, _), _))) => (name.clone(), differences(old, new)),
        _ => Default::default(),
    }
}

/// Returns the properties that differ: name, before, after.
fn differences(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |of: &BTreeMap<String, String>, name: &String| {
        of.get(name).map_or_else(|| UNKNOWN.to_owned(), Clone::clone)
    };
    let both = names.into_iter().map(|name| (name.clone(), value(old, name), value(new, name)));
    both.filter(|(_, before, after)| before != after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::FleetPlan;
    use crate::{NodeRecord, Options, evaluate};

    /// Ten runs; `edit` changes the records of each.
    fn history(edit: impl Fn(usize, &mut [NodeRecord])) -> Vec<DatedRun> {
        let options = Options::default();
        let options = Options { keys: lasting_keys(&options.keys), ..options };
        let run = |index: usize| {
            let plan = FleetPlan { nodes: 12, seed: index as u64 + 1, ..FleetPlan::default() };
            let mut records = plan.records();
            edit(index, &mut records);
            let day = format!("2026-03-{:02}T08:00:00Z", index + 10);
            DatedRun::of(&day, &evaluate(records, Vec::new(), &options))
        };
        (0..10).map(run).collect()
    }

    #[test]
    fn a_node_that_became_slower_is_dated() {
        let runs = history(|index, records| {
            if index >= 4 {
                records[3].properties.insert("governor".to_owned(), "powersave".to_owned());
                for figure in records[3].figures.iter_mut().take(4) {
                    figure.value *= 0.9;
                }
            }
        });
        let found = changes(&runs, 0.05, 0.02);
        assert!(!found.is_empty() && found.iter().all(|one| one.node == "n00003"), "{found:?}");
        let first = &found[0];
        assert_eq!(
            (first.between.0.as_str(), first.between.1.as_str()),
            ("2026-03-13T08:00:00Z", "2026-03-14T08:00:00Z")
        );
        assert!((0.06..0.14).contains(&first.deficit) && first.interval.0 > 0.0, "{first:?}");
        let governor = ["governor", "performance", "powersave"].map(str::to_owned);
        assert_eq!(first.properties, [governor.into()]);
    }

    #[test]
    fn what_changes_for_all_is_a_change_of_the_kind() {
        let runs = history(|index, records| {
            for record in records.iter_mut().filter(|_| index >= 5) {
                record.properties.insert(KERNEL.to_owned(), "6.11.0".to_owned());
                record.figures[0].value *= 0.93;
            }
        });
        let found = changes(&runs, 0.05, 0.02);
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.node.as_str(), only.what.as_str()), ("", "product, 1000 on one core"));
        assert_eq!(only.properties[0].2, "6.11.0");
    }

    /// Regression: nodes with a new kernel became a kind of their own, in which none of them differed.
    #[test]
    fn a_kernel_that_only_some_nodes_get_is_a_change_of_these_nodes() {
        let runs = history(|index, records| {
            for record in records.iter_mut().take(3).filter(|_| index >= 5) {
                record.properties.insert(KERNEL.to_owned(), "6.11.0".to_owned());
                record.figures[0].value *= 0.9;
            }
        });
        let found = changes(&runs, 0.05, 0.02);
        let named: BTreeSet<&str> = found.iter().map(|one| one.node.as_str()).collect();
        assert_eq!(named, ["n00000", "n00001", "n00002"].into(), "{found:?}");
        assert!(found.iter().all(|one| one.properties[0].2 == "6.11.0"), "{found:?}");
    }

    #[test]
    fn nothing_changes_in_healthy_runs_or_in_few() {
        let runs = history(|_, _| ());
        assert_eq!(changes(&runs, 0.05, 0.0), []);
        assert_eq!(changes(&runs[..5], 0.05, 0.0), []);
    }
}
