//! Sections as a whole: the mean of the figures of a section of a node, each relative to its kind.
//!
//! What makes a node slow, such as a lower clock or a missing DIMM, mostly slows down all figures of a section. Their mean
//! scatters less than each of them, so it shows smaller deficits.

use crate::evaluation::KindFigure;
use crate::figures::{MeasuredFigure, NodeRecord};
use crate::judge::{FigureModel, StandingFigure};
use std::collections::BTreeMap;

/// Unit of the value: a speed relative to that of the kind.
const UNIT: &str = "relative speed";

/// Share of the nodes of a kind that must have a figure for it to count, so that the means of all nodes are over the same ones.
const MOST: f64 = 0.9;

/// Returns the name of a section as a whole.
fn name(topic: &str) -> String {
    format!("{topic} as a whole")
}

/// Returns whether a figure is a section as a whole.
pub(crate) fn is_section(topic: &str, what: &str) -> bool {
    what.strip_suffix(" as a whole") == Some(topic)
}

/// Returns whether a figure of a kind is a section as a whole.
pub(crate) fn is_whole(figure: &KindFigure) -> bool {
    is_section(&figure.topic, &figure.what)
}

/// Returns the sections of a node of which at least two figures count, and of which it has all of those. `nodes` is the number of
/// nodes of the kind.
pub(crate) fn of_node(models: &[FigureModel], nodes: usize, node: &NodeRecord) -> Vec<MeasuredFigure> {
    let counts =
        |model: &&FigureModel| !is_whole(&model.figure) && model.figure.nodes as f64 >= MOST * nodes as f64;
    let mut sections: BTreeMap<&str, Vec<Option<StandingFigure>>> = BTreeMap::new();
    for model in models.iter().filter(counts) {
        sections.entry(&model.figure.topic).or_default().push(model.of_node(node));
    }
    let sections = sections.into_iter().filter(|(_, figures)| figures.len() >= 2);
    sections
        .filter_map(|(topic, figures)| whole(topic, &figures.into_iter().collect::<Option<Vec<_>>>()?))
        .collect()
}

/// Gives half of the weight to the sections as a whole, and the other half to single figures: the chance of finding a section that
/// is slow does not depend on the number of its figures.
pub(crate) fn weigh(models: &mut [FigureModel]) {
    let all = models.len();
    let wholes = models.iter().filter(|model| is_whole(&model.figure)).count();
    for model in models.iter_mut().filter(|_| wholes > 0 && wholes < all) {
        let alike = if is_whole(&model.figure) { wholes } else { all - wholes };
        model.weight = all as f64 / (2.0 * alike as f64);
    }
}

fn whole(topic: &str, figures: &[StandingFigure]) -> Option<MeasuredFigure> {
    let count = figures.len() as f64;
    let value = (-figures.iter().map(|figure| figure.slowness).sum::<f64>() / count).exp();
    let within: Option<Vec<(f64, f64)>> = figures.iter().map(|figure| figure.within).collect();
    value.is_finite().then(|| MeasuredFigure {
        topic: topic.to_owned(),
        what: name(topic),
        unit: UNIT.to_owned(),
        higher_is_better: true,
        work: String::new(),
        value,
        within: within.map(|within| mean_variance(&within)),
    })
}

/// Returns the variance of the mean of independent values, and its degrees of freedom (Satterthwaite 1946).
fn mean_variance(within: &[(f64, f64)]) -> (f64, f64) {
    let sum: f64 = within.iter().map(|(variance, _)| variance).sum();
    let squares: f64 = within.iter().map(|(variance, freedom)| variance * variance / freedom).sum();
    let least = within.iter().map(|(_, freedom)| *freedom).fold(f64::INFINITY, f64::min);
    let freedom = if squares > 0.0 { sum * sum / squares } else { least };
    (sum / (within.len() as f64).powi(2), freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_of_a_mean_is_that_of_independent_values() {
        let (variance, freedom) = mean_variance(&[(0.04, 5.0), (0.04, 5.0)]);
        assert!((variance - 0.02).abs() < 1e-12 && (freedom - 10.0).abs() < 1e-9, "{variance} {freedom}");
        // The larger one decides.
        let (variance, freedom) = mean_variance(&[(0.04, 5.0), (0.0, 50.0)]);
        assert!((variance - 0.01).abs() < 1e-12 && (freedom - 5.0).abs() < 1e-9, "{variance} {freedom}");
        assert_eq!(mean_variance(&[(0.0, 3.0), (0.0, 5.0)]), (0.0, 3.0));
    }

    #[test]
    fn only_the_section_itself_is_whole() {
        assert!(is_section("stream", &name("stream")));
        assert!(!is_section("stream", &name("matrix")) && !is_section("stream", "stream"));
    }
}
