//! From the records of a fleet to what they show.

use crate::causes::causes;
use crate::decide::{Limits, Pair};
use crate::drift::drift;
use crate::evaluation::{FLEET_SCHEMA, FleetEvaluation, Kind, MissingNode, Node, NodeFigure, Verdict};
use crate::figures::NodeRecord;
use crate::judge::{FigureModel, Standing, models, standings, stored};
use crate::kinds::{NodeGroup, group};
use crate::properties::{CPU_MODEL, CPUS, DEFAULT_KEYS};
use crate::reference::LEAST_NODES;
use crate::sections;
use manycore_text::units::counted;

/// Largest deficit that is called detectable. A figure that shows only larger deficits is of no use.
const MOST_DETECTABLE: f64 = 10.0;

/// How a fleet is evaluated.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Properties by which nodes are of one kind.
    pub keys: Vec<String>,
    /// Expected share of wrong ones among the pairs of node and figure that are called slow.
    pub false_discovery_level: f64,
    /// The least deficit that counts as slow, as a share.
    pub least_deficit: f64,
    /// An earlier evaluation. Kinds with too few nodes are judged against its kinds.
    pub baseline: Option<&'a FleetEvaluation>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            keys: DEFAULT_KEYS.map(str::to_owned).to_vec(),
            false_discovery_level: 0.05,
            least_deficit: 0.02,
            baseline: None,
        }
    }
}

/// A kind while it is evaluated.
struct JudgedKind {
    kind: Kind,
    members: Vec<usize>,
    models: Vec<FigureModel>,
    /// Standings of the members, in the order of the models.
    standings: Vec<Vec<Option<Standing>>>,
}

/// Evaluates the records of a fleet. `missing` is passed on.
pub fn evaluate(mut nodes: Vec<NodeRecord>, missing: Vec<MissingNode>, options: &Options) -> FleetEvaluation {
    let groups = group(&mut nodes, &options.keys);
    let mut kinds: Vec<JudgedKind> =
        groups.into_iter().map(|group| judged_kind(&mut nodes, group, options.baseline)).collect();
    let limits = {
        let nodes: Vec<Vec<Pair>> =
            kinds.iter().flat_map(judgeable).filter(|pairs| !pairs.is_empty()).collect();
        Limits::of(&nodes, options.false_discovery_level, options.least_deficit)
    };
    let mut evaluation = FleetEvaluation {
        schema: FLEET_SCHEMA.to_owned(),
        false_discovery_level: options.false_discovery_level,
        least_deficit: options.least_deficit,
        missing,
        ..FleetEvaluation::default()
    };
    for (index, judged) in kinds.iter_mut().enumerate() {
        judged.members = by_name(&nodes, judged);
        add_kind(&mut evaluation, &mut nodes, judged, index, &limits);
    }
    evaluation.kinds = kinds.into_iter().map(|judged| judged.kind).collect();
    evaluation.drift = drift(&evaluation);
    evaluation
}

/// Judges a node against an earlier evaluation, without the other nodes: the result has one node. It is
/// [not judged](Verdict::NotJudged) where the baseline has no node with its CPU model and number of CPUs.
pub fn judge_against(baseline: &FleetEvaluation, node: NodeRecord, options: &Options) -> FleetEvaluation {
    evaluate(vec![node], Vec::new(), &Options { baseline: Some(baseline), ..options.clone() })
}

fn judged_kind(nodes: &mut [NodeRecord], group: NodeGroup, baseline: Option<&FleetEvaluation>) -> JudgedKind {
    let few = group.members.len() < LEAST_NODES;
    let earlier = baseline.filter(|_| few).and_then(|baseline| nearest(baseline, &group));
    let mut models = match earlier {
        Some(earlier) => {
            let models: Vec<FigureModel> = earlier.figures.iter().filter_map(stored).collect();
            add_sections(nodes, &group.members, &models, earlier.nodes);
            models
        }
        None => {
            let alone = models(nodes, &group.members);
            add_sections(nodes, &group.members, &alone, group.members.len());
            models(nodes, &group.members)
        }
    };
    sections::weigh(&mut models);
    let not_judged = (few && earlier.is_none()).then(|| {
        let (count, verb) = (group.members.len(), if group.members.len() == 1 { "is" } else { "are" });
        format!("{} {verb} too few: at least {LEAST_NODES} are needed", counted(count, "node"))
    });
    JudgedKind {
        standings: group.members.iter().map(|&member| standings(&models, &nodes[member])).collect(),
        kind: Kind {
            name: group.name,
            nodes: group.members.len(),
            figures: Vec::new(),
            not_judged,
            from_baseline: earlier.is_some(),
            properties: earlier.map_or(group.properties, |earlier| earlier.properties.clone()),
        },
        members: group.members,
        models,
    }
}

/// Adds the sections as a whole to the figures of nodes, before the others. `count` is the number of nodes of the models.
fn add_sections(nodes: &mut [NodeRecord], members: &[usize], models: &[FigureModel], count: usize) {
    for &member in members {
        let sections = sections::of_node(models, count, &nodes[member]);
        nodes[member].figures.splice(0..0, sections);
    }
}

/// Returns the kind of a baseline with the CPU model and the CPUs of a group that has most other properties in common.
fn nearest<'a>(baseline: &'a FleetEvaluation, group: &NodeGroup) -> Option<&'a Kind> {
    let same = |kind: &Kind, name: &str| kind.properties.get(name) == group.properties.get(name);
    let alike = baseline
        .kinds
        .iter()
        .filter(|kind| kind.not_judged.is_none() && same(kind, CPU_MODEL) && same(kind, CPUS));
    alike.max_by_key(|kind| {
        let common = group.properties.keys().filter(|name| same(kind, name)).count();
        (DEFAULT_KEYS.iter().filter(|name| same(kind, name)).count(), common, kind.nodes)
    })
}

/// Returns the pairs of node and figure of a kind that can be judged, by node.
fn judgeable(judged: &JudgedKind) -> impl Iterator<Item = Vec<Pair<'_>>> {
    judged.standings.iter().map(|own| pairs(&judged.models, own).map(|(_, pair)| pair).collect())
}

/// Returns the figures of a node that can be judged, with their indices.
fn pairs<'a>(
    models: &'a [FigureModel],
    own: &'a [Option<Standing>],
) -> impl Iterator<Item = (usize, Pair<'a>)> {
    let known = models.iter().zip(own).enumerate();
    let known = known.filter(|(_, (model, _))| model.reference.is_some());
    known.filter_map(|(index, (model, standing))| Some((index, Pair { model, standing: standing.as_ref()? })))
}

/// Returns the verdicts about all figures of a node.
fn verdicts(
    judged: &JudgedKind,
    own: &[Option<Standing>],
    needed: &[Option<f64>],
    limits: &Limits,
) -> Vec<Verdict> {
    let mut all = vec![Verdict::NotJudged; own.len()];
    let (indices, pairs): (Vec<usize>, Vec<Pair>) = pairs(&judged.models, own).unzip();
    let needed: Vec<f64> = indices.iter().map(|&index| needed[index].unwrap_or(f64::INFINITY)).collect();
    for (index, verdict) in indices.into_iter().zip(limits.verdicts(&pairs, &needed)) {
        all[index] = verdict;
    }
    all
}

/// Sorts the members of a kind and their standings by name, and returns the members.
fn by_name(nodes: &[NodeRecord], judged: &mut JudgedKind) -> Vec<usize> {
    let standings = std::mem::take(&mut judged.standings);
    let mut both: Vec<(usize, Vec<Option<Standing>>)> =
        judged.members.iter().copied().zip(standings).collect();
    both.sort_by(|a, b| nodes[a.0].name.cmp(&nodes[b.0].name));
    let (members, standings) = both.into_iter().unzip();
    judged.standings = standings;
    members
}

/// Adds a kind's nodes with their verdicts, and completes its figures.
fn add_kind(
    evaluation: &mut FleetEvaluation,
    nodes: &mut [NodeRecord],
    judged: &mut JudgedKind,
    index: usize,
    limits: &Limits,
) {
    let needed: Vec<Option<f64>> =
        judged.models.iter().map(|model| limits.needed(model, judged.models.len())).collect();
    let wholes: Vec<bool> = judged.models.iter().map(|model| sections::is_whole(&model.figure)).collect();
    let of_kind: Vec<Node> = judged
        .members
        .iter()
        .zip(&judged.standings)
        .map(|(&member, own)| {
            let verdicts = verdicts(judged, own, &needed, limits);
            let known = judged.models.iter().zip(own).zip(verdicts);
            let figure = |((model, standing), verdict): ((&FigureModel, &Option<Standing>), Verdict)| {
                standing.as_ref().map(|standing| model.shown(standing, verdict))
            };
            node(&mut nodes[member], index, known.map(figure).collect(), &wholes)
        })
        .collect();
    judged.kind.figures = judged
        .models
        .iter()
        .zip(&needed)
        .map(|(model, needed)| {
            let mut figure = model.figure.clone();
            // The deficit of a rate is below 1; that of a latency has no limit.
            let most = if figure.higher_is_better { 1.0 } else { MOST_DETECTABLE };
            let is_possible = |deficit: &f64| *deficit < most;
            figure.detectable = needed.map(|slowness| model.deficit(slowness)).filter(is_possible);
            figure
        })
        .collect();
    let signs: Vec<_> = judged.members.iter().map(|&member| &nodes[member].signs).collect();
    let causes = causes(&of_kind, &signs, &judged.kind);
    evaluation.nodes.extend(of_kind.into_iter().zip(causes).map(|(node, causes)| Node { causes, ..node }));
}

/// `wholes` says which figures are sections as a whole.
fn node(record: &mut NodeRecord, kind: usize, figures: Vec<Option<NodeFigure>>, wholes: &[bool]) -> Node {
    let known = || figures.iter().flatten();
    let single =
        || wholes.iter().zip(&figures).filter(|(is_whole, _)| !**is_whole).filter_map(|(_, one)| *one);
    let count = single().count().max(1) as f64;
    Node {
        name: std::mem::take(&mut record.name),
        kind,
        started: std::mem::take(&mut record.started),
        verdict: known().map(|figure| figure.verdict).min().unwrap_or(Verdict::NotJudged),
        mean_deficit: single().map(|figure| figure.deficit).sum::<f64>() / count,
        figures,
        causes: Vec::new(),
        properties: std::mem::take(&mut record.properties),
        page: record.page.take(),
    }
}

#[cfg(test)]
mod tests;
