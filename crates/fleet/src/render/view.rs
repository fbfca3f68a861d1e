//! An evaluation, sorted for reading.

use crate::evaluation::{FleetEvaluation, Kind, KindFigure, Node, NodeFigure, Verdict};

/// The nodes of an evaluation by verdict.
pub(super) struct View<'a> {
    pub evaluation: &'a FleetEvaluation,
    /// The largest deficit of a figure first.
    pub slow: Vec<&'a Node>,
    /// The largest deficit of a figure first.
    pub inconclusive: Vec<&'a Node>,
    /// Nodes that were compared with others, the largest mean deficit first.
    pub ranking: Vec<&'a Node>,
    /// Number of nodes of kinds with too few.
    pub not_judged: usize,
}

impl<'a> View<'a> {
    pub(super) fn new(evaluation: &'a FleetEvaluation) -> Self {
        let of = |verdict| {
            let mut nodes: Vec<&Node> =
                evaluation.nodes.iter().filter(|node| node.verdict == verdict).collect();
            let largest =
                |node: &Node| worst(evaluation, node).map_or(f64::NEG_INFINITY, |(_, one)| one.deficit);
            nodes.sort_by(|a, b| largest(b).total_cmp(&largest(a)).then_with(|| a.name.cmp(&b.name)));
            nodes
        };
        let is_judged = |node: &&Node| node.verdict != Verdict::NotJudged && node.mean_deficit.is_finite();
        let mut ranking: Vec<&Node> = evaluation.nodes.iter().filter(is_judged).collect();
        ranking.sort_by(|a, b| b.mean_deficit.total_cmp(&a.mean_deficit).then_with(|| a.name.cmp(&b.name)));
        Self {
            evaluation,
            slow: of(Verdict::Slow),
            inconclusive: of(Verdict::Inconclusive),
            ranking,
            not_judged: evaluation.nodes.iter().filter(|node| node.verdict == Verdict::NotJudged).count(),
        }
    }
}

/// Returns the figures that a node has, with what they are.
pub(super) fn figures<'a>(
    evaluation: &'a FleetEvaluation,
    node: &'a Node,
) -> impl Iterator<Item = (&'a KindFigure, NodeFigure)> {
    let known: &[KindFigure] = evaluation.kinds.get(node.kind).map_or(&[], |kind| &kind.figures);
    let pairs = known.iter().zip(&node.figures);
    pairs.filter_map(|(figure, one)| one.filter(|one| one.deficit.is_finite()).map(|one| (figure, one)))
}

/// Returns the figure that gives a node its verdict: the largest deficit of those with the same one. `None` for a node
/// without figures.
pub(super) fn worst<'a>(
    evaluation: &'a FleetEvaluation,
    node: &'a Node,
) -> Option<(&'a KindFigure, NodeFigure)> {
    let of = |verdict: Option<Verdict>| {
        let found =
            figures(evaluation, node).filter(|(_, one)| verdict.is_none_or(|wanted| one.verdict == wanted));
        found.max_by(|a, b| a.1.deficit.total_cmp(&b.1.deficit))
    };
    of(Some(node.verdict)).or_else(|| of(None))
}

/// Returns how many figures of a node have its verdict.
pub(super) fn alike(evaluation: &FleetEvaluation, node: &Node) -> usize {
    figures(evaluation, node).filter(|(_, one)| one.verdict == node.verdict).count()
}

/// Returns the nodes of a kind.
pub(super) fn of_kind(evaluation: &FleetEvaluation, kind: usize) -> impl Iterator<Item = &Node> {
    evaluation.nodes.iter().filter(move |node| node.kind == kind)
}

/// Returns the name of a kind, or that it is unknown.
pub(super) fn kind_name(evaluation: &FleetEvaluation, kind: usize) -> &str {
    evaluation.kinds.get(kind).map_or("unknown", |kind: &Kind| kind.name.as_str())
}
