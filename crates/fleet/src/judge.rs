//! The figures of the nodes of one kind, standardised: how far each is from the centre, and how probable that is by chance.

use crate::evaluation::{KindFigure, NodeFigure, Verdict};
use crate::figures::{MeasuredFigure, NodeRecord};
use crate::reference::{LEAST_NODES, Reference};
use crate::robust::{LEAST_ERROR, Spread};
use manycore_stats::student_critical;
use std::collections::BTreeMap;

/// Degrees of freedom of the typical variance within nodes, when that of a node is moderated with it (as in limma, Smyth
/// 2004). Few, because nodes do differ in their noise.
const PRIOR_FREEDOM: f64 = 4.0;

/// How many standard deviations the variance of the samples of a node must be above the typical one to count: over a section,
/// and in one figure. About 2 % and 1 % of the nodes exceed them by chance.
const NOISY_NODE: f64 = 2.5;
const NOISY_FIGURE: f64 = 3.5;

/// A figure of a kind with what is needed to judge its nodes.
#[derive(Clone, Debug)]
pub(crate) struct FigureModel {
    /// What is shown.
    pub figure: KindFigure,
    /// What a unit of work is. Nodes with another one lack the figure.
    pub work: String,
    pub spread: Spread,
    /// Typical standard error of a node, before [`Spread::shrink`].
    pub error: f64,
    /// `None` where there are too few nodes.
    pub reference: Option<Reference>,
    /// By which p-values are divided where the figures of a node are tested together; 1 on average.
    pub weight: f64,
}

/// A figure of a node before its verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub value: f64,
    /// Logarithm of how many times slower than the centre it is.
    pub slowness: f64,
    /// Standard error from the scatter within the node, as used.
    pub error: f64,
    /// 95 % interval of `slowness`.
    pub interval: (f64, f64),
    /// Two-sided p-value; 1 where it cannot be judged.
    pub p: f64,
}

/// A figure of a node relative to the centre of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandingFigure {
    /// As in [`Standing`].
    pub slowness: f64,
    /// As in [`MeasuredFigure`].
    pub within: Option<(f64, f64)>,
}

impl FigureModel {
    /// Returns the share of a logarithm of slowness: less work in the same time, or more time.
    pub fn deficit(&self, slowness: f64) -> f64 {
        if self.figure.higher_is_better { -(-slowness).exp_m1() } else { slowness.exp_m1() }
    }

    /// The same of a deficit.
    pub fn slowness(&self, deficit: f64) -> f64 {
        if self.figure.higher_is_better { -(-deficit).ln_1p() } else { deficit.ln_1p() }
    }

    fn key(&self) -> FigureKey<'_> {
        let figure = &self.figure;
        (&figure.topic, &figure.what, &figure.unit, figure.higher_is_better)
    }

    /// Returns the logarithm of slowness of a value, with an arbitrary origin.
    fn position(&self, value: f64) -> f64 {
        if self.figure.higher_is_better { -value.ln() } else { value.ln() }
    }

    /// Returns the figure of a node relative to the centre. `None` where the node lacks it.
    pub fn of_node(&self, node: &NodeRecord) -> Option<StandingFigure> {
        let is_own = |figure: &&MeasuredFigure| key(figure) == self.key() && figure.work == self.work;
        let figure = node.figures.iter().find(is_own)?;
        Some(StandingFigure {
            slowness: self.position(figure.value) - self.spread.centre,
            within: figure.within,
        })
    }

    /// Returns where a figure of a node stands, whose samples scatter as `noise` says.
    pub fn standing(&self, figure: &MeasuredFigure, noise: NodeNoise) -> Standing {
        let (error, freedom) = noise.error(figure.within, self.error);
        let slowness = self.position(figure.value) - self.spread.centre;
        let shown =
            student_critical(0.05, freedom) * (self.spread.shrink * error).hypot(self.spread.centre_error);
        Standing {
            value: figure.value,
            slowness,
            error,
            interval: (slowness - shown, slowness + shown),
            p: self.reference.map_or(1.0, |reference| self.p(slowness, error, freedom, reference)),
        }
    }

    /// A node with a typical error has the degrees of freedom of the spread. What its own error adds has those of the error, unless
    /// all errors were reduced by a factor: that is as uncertain as the spread.
    fn p(&self, slowness: f64, error: f64, own_freedom: f64, reference: Reference) -> f64 {
        let [own, typical] = [error, self.error].map(|error| self.spread.deviation(error).powi(2));
        let excess = ((own - typical) / own).max(0.0);
        let known = if self.spread.shrink < 1.0 { 0.0 } else { excess };
        // Satterthwaite (1946).
        let combined = |freedom: f64| 1.0 / ((1.0 - known).powi(2) / freedom + excess * excess / own_freedom);
        reference.p(slowness / own.sqrt(), combined)
    }

    /// Returns the slowness from which a node with the typical error has at most this p-value, divided by the weight. `None`
    /// where no node can be judged.
    pub fn needed(&self, p: f64) -> Option<f64> {
        Some(self.reference?.critical((p * self.weight).min(1.0)) * self.spread.deviation(self.error))
    }

    /// Returns the figure that is shown.
    pub fn shown(&self, standing: &Standing, verdict: Verdict) -> NodeFigure {
        let (low, high) = standing.interval;
        NodeFigure {
            value: standing.value,
            deficit: self.deficit(standing.slowness),
            interval: (self.deficit(low), self.deficit(high)),
            p: standing.p,
            verdict,
        }
    }
}

/// How much the samples of one section of a node scatter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeNoise {
    /// Sum of the variances relative to the typical ones, each with its degrees of freedom as weight.
    sum: f64,
    /// Sum of the degrees of freedom.
    freedom: f64,
}

impl NodeNoise {
    fn add(&mut self, within: Option<(f64, f64)>, typical: f64) {
        if let Some((variance, freedom)) = within {
            self.sum += freedom * variance / (typical * typical);
            self.freedom += freedom;
        }
    }

    /// Returns the standard error of the median of a figure, and its degrees of freedom. It is the typical one, unless the
    /// samples of the node scatter more than chance explains: over all figures of the section, or in the figure. It is never
    /// below the typical one: two samples that happen to be equal do not make a node exact.
    fn error(self, within: Option<(f64, f64)>, typical: f64) -> (f64, f64) {
        let moderated = |ratio: f64, freedom: f64, limit: f64| {
            let is_noisy = freedom > 0.0 && ratio > 1.0 + limit * (2.0 / freedom).sqrt();
            if is_noisy { (PRIOR_FREEDOM + freedom * ratio) / (PRIOR_FREEDOM + freedom) } else { 1.0 }
        };
        let (variance, freedom) = within.unwrap_or((0.0, 0.0));
        let of_node = moderated(self.sum / self.freedom.max(1.0), self.freedom, NOISY_NODE);
        let of_figure = moderated(variance / (typical * typical), freedom, NOISY_FIGURE);
        let error = typical * of_node.max(of_figure).sqrt();
        (error.max(LEAST_ERROR), PRIOR_FREEDOM + self.freedom)
    }
}

/// Degrees of freedom below which a section has the scatter of the whole node, where that is larger: two samples of each
/// figure of a matrix product do not show that a node is noisy.
const OWN_NOISE: f64 = 10.0;

/// Returns the scatter of the samples of a node by section, relative to the typical errors of the figures.
fn noise_of<'a>(node: &'a NodeRecord, errors: &BTreeMap<FigureKey, f64>) -> BTreeMap<&'a str, NodeNoise> {
    let mut noise: BTreeMap<&str, NodeNoise> = BTreeMap::new();
    let mut whole = NodeNoise::default();
    for figure in &node.figures {
        if let Some(&typical) = errors.get(&key(figure)) {
            noise.entry(&figure.topic).or_default().add(figure.within, typical);
            whole.add(figure.within, typical);
        }
    }
    for section in noise.values_mut() {
        if section.freedom < OWN_NOISE && whole.sum * section.freedom > section.sum * whole.freedom {
            *section = whole;
        }
    }
    noise
}

/// Returns the typical standard error: the median of the variances, each divided by the median of chi-squared over its degrees
/// of freedom (Wilson and Hilferty 1931).
fn typical_error(within: impl Iterator<Item = (f64, f64)>) -> f64 {
    let unbiased = |(variance, freedom): (f64, f64)| variance / (1.0 - 2.0 / (9.0 * freedom)).powi(3);
    manycore_stats::median(&within.map(unbiased).collect::<Vec<_>>()).unwrap_or(0.0).sqrt().max(LEAST_ERROR)
}

/// What makes figures of two nodes the same figure.
type FigureKey<'a> = (&'a str, &'a str, &'a str, bool);

fn key(figure: &MeasuredFigure) -> FigureKey<'_> {
    (&figure.topic, &figure.what, &figure.unit, figure.higher_is_better)
}

/// A figure of a node, with its place in the record.
type Placed<'a> = (usize, &'a MeasuredFigure, NodeNoise);

/// Returns the figures that at least two nodes of a kind have, in the order in which most nodes have them.
pub(crate) fn models(nodes: &[NodeRecord], members: &[usize]) -> Vec<FigureModel> {
    let mut by_key: BTreeMap<FigureKey, Vec<Placed>> = BTreeMap::new();
    for &member in members {
        for (place, figure) in nodes[member].figures.iter().enumerate() {
            by_key.entry(key(figure)).or_default().push((place, figure, NodeNoise::default()));
        }
    }
    let errors: BTreeMap<FigureKey, f64> = by_key
        .iter()
        .map(|(key, all)| (*key, typical_error(all.iter().filter_map(|(_, figure, _)| figure.within))))
        .collect();
    by_key.values_mut().for_each(Vec::clear);
    for &member in members {
        let noise = noise_of(&nodes[member], &errors);
        for (place, figure) in nodes[member].figures.iter().enumerate() {
            let noise = noise.get(figure.topic.as_str()).copied().unwrap_or_default();
            by_key.entry(key(figure)).or_default().push((place, figure, noise));
        }
    }
    let mut found: Vec<(f64, FigureModel)> = by_key
        .into_iter()
        .filter_map(|(key, all)| {
            let places: Vec<f64> = all.iter().map(|(place, _, _)| *place as f64).collect();
            Some((manycore_stats::median(&places)?, model(all, errors.get(&key).copied()?)?))
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, model)| model).collect()
}

/// `None` where fewer than two nodes have the figure with the same work. `error` is the typical one.
fn model(mut figures: Vec<Placed>, error: f64) -> Option<FigureModel> {
    let mut works: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, figure, _) in &figures {
        *works.entry(&figure.work).or_default() += 1;
    }
    let work = works.into_iter().max_by_key(|(_, count)| *count)?.0.to_owned();
    figures.retain(|(_, figure, _)| figure.work == work);
    let (_, first, _) = *figures.first().filter(|_| figures.len() >= 2)?;
    let shown = KindFigure {
        topic: first.topic.clone(),
        what: first.what.clone(),
        unit: first.unit.clone(),
        higher_is_better: first.higher_is_better,
        nodes: figures.len(),
        work: work.clone(),
        ..KindFigure::default()
    };
    let mut model = FigureModel {
        figure: shown,
        work,
        spread: Spread::default(),
        error,
        reference: (figures.len() >= LEAST_NODES).then(|| Reference::of(figures.len())),
        weight: 1.0,
    };
    let positions: Vec<f64> = figures.iter().map(|(_, figure, _)| model.position(figure.value)).collect();
    let errors: Vec<f64> =
        figures.iter().map(|(_, figure, noise)| noise.error(figure.within, error).0).collect();
    model.spread = Spread::fit(&positions, &errors);
    let centre = model.spread.centre;
    model.figure.median = if model.figure.higher_is_better { (-centre).exp() } else { centre.exp() };
    model.figure.spread = model.spread.tau;
    model.figure.node_error = model.spread.shrink * error;
    model.figure.error_factor = model.spread.shrink;
    Some(model)
}

/// Returns the model of a figure of an earlier evaluation.
pub(crate) fn stored(figure: &KindFigure) -> Option<FigureModel> {
    let usable = |value: f64| value.is_finite() && value >= 0.0;
    let is_usable =
        figure.median > 0.0 && usable(figure.median) && usable(figure.spread) && usable(figure.node_error);
    is_usable.then(|| {
        let factor = figure.error_factor;
        let shrink = if factor > 0.0 && factor < 1.0 { factor } else { 1.0 };
        let error = (figure.node_error / shrink).max(LEAST_ERROR);
        let mut model = FigureModel {
            figure: figure.clone(),
            work: figure.work.clone(),
            spread: Spread { tau: figure.spread, shrink, ..Spread::default() },
            error,
            reference: (figure.nodes >= LEAST_NODES).then(|| Reference::of(figure.nodes)),
            weight: 1.0,
        };
        model.spread.centre = model.position(figure.median);
        model.spread.centre_error = model.spread.deviation(error) / (figure.nodes.max(1) as f64).sqrt();
        model
    })
}

/// Returns the figures of a node in the order of the models.
pub(crate) fn standings(models: &[FigureModel], node: &NodeRecord) -> Vec<Option<Standing>> {
    let errors: BTreeMap<FigureKey, f64> = models.iter().map(|model| (model.key(), model.error)).collect();
    let noise = noise_of(node, &errors);
    let own: BTreeMap<FigureKey, &MeasuredFigure> =
        node.figures.iter().map(|figure| (key(figure), figure)).collect();
    let of = |model: &FigureModel| {
        let figure = own.get(&model.key()).filter(|figure| figure.work == model.work)?;
        let noise = noise.get(figure.topic.as_str()).copied().unwrap_or_default();
        Some(model.standing(figure, noise))
    };
    models.iter().map(of).collect()
}
