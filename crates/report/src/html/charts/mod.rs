//! The charts of each section, with their captions.

mod bars;
mod comparison;
mod contention;
mod density;
mod latency;
mod maps;
mod requests;
mod scaling;
mod spawning;
mod stream;
mod strips;
mod timeline;

use crate::NamedEvaluation;
use maud::Markup;

/// A chart with its title, caption and legend.
pub struct ChartFigure {
    /// What is shown, with the unit.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Samples of the series and their names.
    pub legend: Vec<(Markup, String)>,
    /// The drawing.
    pub drawing: Markup,
}

/// Returns the charts of the section `id`. Empty where nothing was measured.
pub fn figures(id: &str, all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    match id {
        "scaling" => scaling::figures(all).into_iter().chain(maps::cpus(all)).collect(),
        "modes" => bars::modes(all).into_iter().chain(strips::figures(id, all)).collect(),
        "matrix" => bars::matrix(all),
        "contention" => contention::figures(all).into_iter().chain(strips::figures(id, all)).collect(),
        "comparison" => strips::figures(id, all)
            .into_iter()
            .chain(comparison::figures(all))
            .chain(timeline::figures(all))
            .chain(requests::figures(all))
            .collect(),
        "affinity" => strips::figures(id, all).into_iter().chain(maps::affinity(all)).collect(),
        "noise" | "tuning" | "limits" => strips::figures(id, all),
        "latency" => latency::figures(all),
        "stream" => stream::figures(all),
        "density" => density::figures(all),
        "spawn" => spawning::figures(all),
        _ => Vec::new(),
    }
}

/// Returns `title`, with the record's name where there are several.
fn titled(title: &str, named: &NamedEvaluation, all: &[NamedEvaluation]) -> String {
    if all.len() > 1 { format!("{title}: {}", named.name) } else { title.to_owned() }
}
