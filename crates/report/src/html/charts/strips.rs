//! The distributions behind comparisons: the ratio of each pair, with the estimate and its interval.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
    sections::{comparison::by, modes},
};
use manycore_analysis::{MetricComparison, VariantComparison};
use manycore_experiment::record::{Experiment, Sample, Treatment, factor, id};
use manycore_render::chart::{Strip, StripChart};
use manycore_stats::{
    Estimate,
    verdict::{DecisionRule, Verdict},
};
use manycore_text::units::decimals as short;

/// Maximum number of distributions in one chart.
const MAX_STRIPS: usize = 16;

/// Pairs of one comparison.
struct Pairs {
    name: String,
    log_ratios: Vec<f64>,
    /// The ratio and its interval, as in the section's tables.
    estimate: Estimate,
}

impl Pairs {
    fn of_verdict(name: impl Into<String>, log_ratios: Vec<f64>, verdict: &Verdict) -> Self {
        let estimate = Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs };
        Self { name: name.into(), log_ratios, estimate }
    }
}

/// The chart of one section of one record.
struct Spec {
    id: &'static str,
    title: &'static str,
    axis_name: &'static str,
    /// The margin of equivalence, where it decides.
    margin: Option<f64>,
    /// ` by mean`, where the estimate is not that of typical pairs.
    by: String,
    /// Whether each distribution is a chart with an axis of its own. One axis is for ratios of the same kind.
    has_own_axes: bool,
}

/// Returns the charts of the section `section` for each record that has pairs for it.
pub(super) fn figures(section: &str, all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter().enumerate().flat_map(|(index, named)| figures_of(section, index + 1, named, all)).collect()
}

fn figures_of(
    section: &str,
    number: usize,
    named: &NamedEvaluation,
    all: &[NamedEvaluation],
) -> Vec<ChartFigure> {
    let Some((spec, pairs_of)) = chart_of(section, named) else { return Vec::new() };
    let mut pairs = pairs_of(named);
    pairs.retain(|pairs| pairs.log_ratios.len() > 1);
    pairs.truncate(MAX_STRIPS);
    let id = format!("{}-{number}", spec.id);
    match pairs.len() {
        0 => Vec::new(),
        several if several > 1 && spec.has_own_axes => {
            let own = |(index, pairs): (usize, Pairs)| {
                let title = titled(&format!("{}: {}", pairs.name, spec.title), named, all);
                let figure = chart(&spec, &format!("{id}-{}", index + 1), title, vec![pairs]);
                // How to read the charts is said once.
                let caption = if index == 0 { figure.caption } else { String::new() };
                ChartFigure { caption, ..figure }
            };
            pairs.into_iter().enumerate().map(own).collect()
        }
        _ => vec![chart(&spec, &id, titled(spec.title, named, all), pairs)],
    }
}

/// Returns the pairs of one section.
type PairsOf = fn(&NamedEvaluation) -> Vec<Pairs>;

/// Returns what the chart of a section is called, and the function that returns its pairs.
fn chart_of(section: &str, named: &NamedEvaluation) -> Option<(Spec, PairsOf)> {
    let comparison_of = named.evaluation.comparison.as_ref();
    let is_pair = comparison_of.is_none_or(|comparison| comparison.only_other().is_some());
    let (name, title, axis_name, pairs_of): (_, _, _, PairsOf) = match section {
        "noise" => ("chart-noise", "Ratio of two identical variants, pair by pair", "B over A", noise),
        "modes" => (
            "chart-modes-pairs",
            "Processes over threads, pair by pair",
            "processes over threads",
            both_modes,
        ),
        "affinity" => {
            ("chart-affinity-pairs", "Pinned over unpinned, round by round", "pinned over unpinned", affinity)
        }
        "contention" => {
            let title = "Two pinned tasks, relative to the nearest CPUs, pair by pair";
            ("chart-contention-pairs", title, "rate relative to the nearest CPUs", contention)
        }
        "comparison" if is_pair => {
            ("chart-comparison-pairs", "B over A, pair by pair", "value of B over value of A", comparison)
        }
        "comparison" => {
            let title = "Variants over the reference, round by round";
            ("chart-comparison-pairs", title, "value over that of the reference", comparison)
        }
        "tuning" => (
            "chart-tuning-pairs",
            "Finalists over today's behaviour, pair by pair",
            "rate over today's",
            finalists,
        ),
        "limits" => {
            let title = "Bandwidth with the limit over bandwidth without, pair by pair";
            ("chart-limits-pairs", title, "rate with over rate without", limits)
        }
        _ => return None,
    };
    let margin = margin_of(section, named);
    // Metrics of two variants have an axis each; several variants share that of the metric.
    let has_own_axes = section == "comparison" && is_pair;
    let by = comparison_of.filter(|_| section == "comparison").map(by).unwrap_or_default();
    Some((Spec { id: name, title, axis_name, margin, by, has_own_axes }, pairs_of))
}

/// Returns the equivalence margin of a section's experiment, where its chart shows one.
fn margin_of(section: &str, named: &NamedEvaluation) -> Option<f64> {
    let id = match section {
        "modes" => id::MODES,
        "affinity" => id::AFFINITY,
        "comparison" => id::COMPARE,
        "tuning" => id::TUNE_CONFIRM,
        _ => return None,
    };
    let experiment = named.record.experiment(id)?;
    Some(DecisionRule::from_parameters(&experiment.parameters).margin)
}

fn chart(spec: &Spec, id: &str, title: String, pairs: Vec<Pairs>) -> ChartFigure {
    let strip = |(index, pairs): (usize, Pairs)| {
        let interval = pairs.estimate.interval;
        let ends = interval.map(|(low, high)| format!(" ({} to {})", short(low), short(high)));
        Strip {
            words: format!(
                "{}{}{}, {} pairs",
                short(pairs.estimate.median),
                spec.by,
                ends.unwrap_or_default(),
                pairs.estimate.n
            ),
            name: pairs.name,
            values: pairs.log_ratios.iter().map(|ratio| ratio.exp()).collect(),
            estimate: pairs.estimate.median,
            interval,
            colour: index,
        }
    };
    let drawing = StripChart {
        id,
        label: &title,
        axis_name: spec.axis_name,
        margin: spec.margin,
        strips: pairs.into_iter().enumerate().map(strip).collect(),
    };
    let zone = if spec.margin.is_some() { " The shaded zone is the margin of equivalence." } else { "" };
    ChartFigure {
        caption: format!(
            "Each point is a pair; many pairs are shown as a histogram. The bar below is the interval, the dot the \
             estimate{}. The vertical line is 1: no difference.{zone}",
            spec.by
        ),
        drawing: drawing.draw(),
        title,
        legend: Vec::new(),
    }
}

/// Returns the index of the treatment for which `test` holds.
fn find(experiment: &Experiment, test: impl Fn(&Treatment) -> bool) -> Option<usize> {
    experiment.treatments.iter().position(test)
}

fn has(treatment: &Treatment, name: &str, value: &str) -> bool {
    treatment.factors.get(name).is_some_and(|found| found == value)
}

fn noise(named: &NamedEvaluation) -> Vec<Pairs> {
    let Some(experiment) = named.record.experiment(id::NOISE) else { return Vec::new() };
    let of = |noise: &manycore_analysis::NoiseFloor| {
        let side = |name| {
            find(experiment, |treatment| {
                treatment.workers == noise.workers && has(treatment, factor::VARIANT, name)
            })
        };
        let noun = if noise.workers == 1 { "worker" } else { "workers" };
        Some(Pairs {
            name: format!("{} {noun}", noise.workers),
            log_ratios: experiment.log_ratios(side("A")?, side("B")?),
            estimate: noise.ratio,
        })
    };
    named.evaluation.noise.iter().filter_map(of).collect()
}

fn both_modes(named: &NamedEvaluation) -> Vec<Pairs> {
    let of = |evaluated: &manycore_analysis::ParallelModes| {
        let experiment = named.record.experiment(&evaluated.id)?;
        let side = |name| find(experiment, |treatment| has(treatment, factor::MODE, name));
        let ratios = experiment.log_ratios(side("threads")?, side("processes")?);
        Some(Pairs::of_verdict(modes::short(evaluated), ratios, evaluated.processes_over_threads.as_ref()?))
    };
    named.evaluation.modes.iter().filter_map(of).collect()
}

fn affinity(named: &NamedEvaluation) -> Vec<Pairs> {
    let of = || {
        let experiment = named.record.experiment(id::AFFINITY)?;
        let ratios =
            experiment.log_ratios(experiment.treatment("unpinned")?, experiment.treatment("pinned")?);
        let verdict = named.evaluation.affinity.as_ref()?.verdict.as_ref()?;
        Some(Pairs::of_verdict("all processes", ratios, verdict))
    };
    of().into_iter().collect()
}

fn contention(named: &NamedEvaluation) -> Vec<Pairs> {
    let loads = named.evaluation.contention.iter();
    loads
        .flat_map(|load| {
            let experiment = named.record.experiment(&format!("{}{}", id::CONTENTION, load.load));
            load.pairs.iter().filter_map(move |pair| {
                let experiment = experiment?;
                let of_variant = |treatment: &Treatment| has(treatment, factor::VARIANT, &pair.variant);
                let nearest = find(experiment, |treatment| {
                    of_variant(treatment) && treatment.factors.contains_key(factor::DISTANCE)
                })?;
                let name = pair.distance.map_or("same", manycore_topology::TopologyDistance::name);
                let this = find(experiment, |treatment| {
                    of_variant(treatment) && has(treatment, factor::DISTANCE, name)
                })?;
                Some(Pairs {
                    name: format!("{}, {}: {}", load.load, pair.variant, pair.title()),
                    log_ratios: experiment.log_ratios(nearest, this),
                    estimate: pair.relative_to_nearest?,
                })
            })
        })
        .collect()
}

fn comparison(named: &NamedEvaluation) -> Vec<Pairs> {
    let of = || {
        let experiment = named.record.experiment(id::COMPARE)?;
        let comparison = named.evaluation.comparison.as_ref()?;
        let pairs_of = |other: &VariantComparison, name: Option<&str>| {
            let (a, b) = (comparison.reference, other.treatment);
            let metric = |(index, compared): (usize, &MetricComparison)| {
                let value = |sample: &Sample| sample.values.get(index).copied();
                Some(Pairs {
                    name: name.unwrap_or(&compared.metric.name).to_owned(),
                    log_ratios: experiment.log_ratios_of(a, b, value),
                    estimate: compared.ratio?,
                })
            };
            let metrics: Vec<Pairs> = other.metrics.iter().enumerate().filter_map(metric).collect();
            if metrics.is_empty() {
                let ratios = experiment.log_ratios(a, b);
                return vec![Pairs::of_verdict(name.unwrap_or("rate"), ratios, &other.verdict)];
            }
            metrics
        };
        // Of several variants, the primary metric; of one beside the reference, every metric.
        Some(match comparison.only_other() {
            Some(other) => pairs_of(other, None),
            None => {
                let first =
                    |other| pairs_of(other, Some(comparison.title(other.treatment))).into_iter().next();
                comparison.others.iter().filter_map(first).collect()
            }
        })
    };
    of().unwrap_or_default()
}

fn finalists(named: &NamedEvaluation) -> Vec<Pairs> {
    let of = || {
        let experiment = named.record.experiment(id::TUNE_CONFIRM)?;
        let today =
            find(experiment, |treatment| has(treatment, factor::VARIANT, manycore_analysis::BASELINE))?;
        let finalists = named.evaluation.tuning.as_ref()?.finalists.iter();
        let pairs = finalists.filter_map(|finalist| {
            let ratios = experiment.log_ratios(today, experiment.treatment(&finalist.name)?);
            Some(Pairs::of_verdict(finalist.name.clone(), ratios, &finalist.verdict))
        });
        Some(pairs.collect())
    };
    of().unwrap_or_default()
}

fn limits(named: &NamedEvaluation) -> Vec<Pairs> {
    use manycore_analysis::limits::{WITH, WITHOUT};
    let of = |proof: &manycore_analysis::limits::LimitProof| {
        let experiment = named.record.experiment(&format!("{}{}", id::QOS, proof.check.name()))?;
        let ratios = experiment.log_ratios(experiment.treatment(WITHOUT)?, experiment.treatment(WITH)?);
        Some(Pairs::of_verdict(proof.check.name(), ratios, proof.verdict.as_ref()?))
    };
    named.evaluation.limits.iter().filter_map(of).collect()
}
