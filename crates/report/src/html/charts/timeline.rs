//! The runs of each variant of a comparison in the order in which they were made.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
    sections::distribution,
};
use manycore_analysis::Distribution;
use manycore_experiment::record::{Experiment, id};
use manycore_render::chart::{TimeStrip, Timeline};
use manycore_text::units::counted;

/// Maximum number of variants in one chart.
const MAX_STRIPS: usize = 16;

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter().enumerate().filter_map(|(index, named)| figure(index + 1, named, all)).collect()
}

fn figure(number: usize, named: &NamedEvaluation, all: &[NamedEvaluation]) -> Option<ChartFigure> {
    let experiment = named.record.experiment(id::COMPARE)?;
    let distributions = &named.evaluation.distributions;
    let first = distributions.first().filter(|first| first.n > 1)?;
    let (name, scale) = distribution::name_and_scale(distributions);
    let drawing = Timeline {
        id: &format!("chart-comparison-time-{number}"),
        label: "Runs of each variant in the order made",
        x_name: "seconds since the start",
        strips: distributions
            .iter()
            .take(MAX_STRIPS)
            .enumerate()
            .map(|(index, one)| strip(experiment, one, index, scale))
            .collect(),
    };
    let better = match first.metric.better {
        manycore_experiment::record::Direction::Higher => "Higher",
        manycore_experiment::record::Direction::Lower => "Lower",
    };
    Some(ChartFigure {
        title: titled(&format!("{name}, run by run"), named, all),
        caption: format!(
            "Each point is a run, in the order made. {better} is better. A slope is drift, two levels are two modes, and \
             a start apart from the rest is a warm-up that is not over."
        ),
        legend: Vec::new(),
        drawing: drawing.draw(),
    })
}

fn strip(experiment: &Experiment, distribution: &Distribution, colour: usize, scale: f64) -> TimeStrip {
    let times = experiment.samples_of(distribution.treatment).map(|sample| sample.start_ns as f64 / 1e9);
    TimeStrip {
        name: distribution.label.clone(),
        words: counted(distribution.n, "run"),
        points: times
            .zip(distribution.values(experiment))
            .map(|(time, value)| (time, value * scale))
            .collect(),
        colour,
    }
}
