//! What differs between records of different sessions: a ratio with its interval and a verdict for each figure that both
//! sides have.
//!
//! A side is one record, or several of the same thing. The sides were not interleaved, so there are no pairs. A record
//! gives one value of a figure: the median of its samples, or another one that was chosen before. Values scatter from session to session, and the interval
//! includes that scatter ([`manycore_stats::sessions`]): from the records of a side with several, else from earlier
//! records of the same work on the same machine, else from a stated assumption. The scatter within a record comes from
//! the medians of at most [`STRETCHES`] stretches of consecutive samples, because samples that follow each other are not
//! independent: a neighbour that works for a second disturbs many of them. Of quantiles and worst runs, it is not known.
//!
//! The primary figures are corrected with Holm's procedure, and so are all others together: at most one comparison of
//! two sides in twenty shows a difference in a primary figure where there is none.
//!
//! A difference is one between the sessions. It includes all that changed in between: settings, other work, the
//! hypervisor's choice of cores. A result whose experiment was disturbed beyond the limits of advice is marked.

mod figures;
mod history;
mod matching;
mod sentence;

pub use figures::{RecordFigure, record_figures};
pub use matching::{MatchedVariants, comparison_variants, each_once};
pub(crate) use sentence::TOO_FEW;

use crate::{deciding, disturbance::Disturbance};
use figures::{Figure, figures};
use history::History;
use manycore_experiment::{
    Record,
    record::{Direction, Experiment},
};
use manycore_stats::{
    Estimator, FAMILY_LEVEL, WorseTail, holm_divisors,
    sessions::{KnownSpread, SessionDifference, SessionValue, SpeedAdjustment, SpreadSource},
    verdict::{Answer, DecisionRule},
};
use serde::Serialize;

/// Maximum number of stretches of consecutive samples. Their medians show the scatter within a record.
pub const STRETCHES: usize = 12;

/// Number of probes of the machine's speed from which their median is that of a session.
const MIN_PROBES: usize = 8;

/// Largest absolute logarithm: where a median is 0, it ranks below all others.
const MAX_LOG: f64 = 50.0;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct SessionSides<'a> {
    /// The records of the baseline, at least one.
    pub baseline: &'a [&'a Record],
    /// The new records, at least one.
    pub new: &'a [&'a Record],
    /// Earlier records, of which those of the same work on the same machine show how sessions scatter.
    pub earlier: &'a [&'a Record],
    /// The difference that does not matter, as a share.
    pub margin: f64,
    /// What of each record is compared. `None`: by what the experiments themselves were decided, the median where that
    /// differs.
    pub estimator: Option<Estimator>,
}

/// The differences between two sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordDifferences {
    /// Numbers of records of the baseline and of the new side.
    pub sessions: [usize; 2],
    /// One entry for each figure that all records have: what is different first, the largest ratio first.
    pub figures: Vec<FigureDifference>,
    /// What is not compared, and why: experiments that measured different work, metrics and variants of one side only.
    pub not_compared: Vec<String>,
}

/// How a figure of the new side differs from that of the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureDifference {
    /// Section of the report, as in [`crate::Finding::topic`].
    pub topic: &'static str,
    /// What was measured: `scaling, 2 workers`.
    pub what: String,
    /// Name of the metric; empty for the rate of the work.
    pub metric: String,
    /// Whether it is the metric that decides, as the first one of an experiment does.
    pub is_primary: bool,
    /// What of each record is compared.
    pub estimator: Estimator,
    /// Unit of the values: `events/s`.
    pub unit: String,
    /// Which direction is better.
    pub better: Direction,
    /// The value of the baseline and of the new side, in `unit`: the median of a record, or what `estimator` names; of
    /// several records, the median of their values.
    pub values: [f64; 2],
    /// The new figure divided by that of the baseline.
    pub ratio: f64,
    /// Interval of the ratio at the level of the decision, with the scatter between sessions. `None` where there are too
    /// few samples, and where the scatter between sessions is unknown, except for the median of the metric that decides:
    /// the assumed scatter is one of that.
    pub interval: Option<(f64, f64)>,
    /// Why there is no interval, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_interval: Option<String>,
    /// What the interval shows.
    pub change: Change,
    /// The scatter between sessions that the interval includes. `None` without an interval.
    pub spread: Option<SessionSpread>,
    /// Numbers of stretches in the records of each side.
    pub stretches: [usize; 2],
    /// Other work, steal time or a quota that was above the limit of advice in one of the records, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<String>,
}

/// The scatter between sessions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionSpread {
    /// From what it is known.
    pub source: SpreadSource,
    /// Standard deviation of the logarithm of a session's value: 0.05 for about 5 %.
    pub sd: f64,
    /// Degrees of freedom of the interval. `None` where the scatter is assumed.
    pub freedom: Option<f64>,
    /// How ratio and interval were adjusted for the speed of the machine in each session, which a probe measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<SpeedAdjustment>,
}

/// What the interval of a ratio shows about the new side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is worse.
    Worse,
    /// It is better.
    Better,
    /// Too few samples, or too much scatter, for a decision.
    Inconclusive,
    /// The interval lies within the margin of equivalence, and neither is shown to be better.
    Equivalent,
}

impl RecordDifferences {
    /// Compares two sides.
    pub fn between(sides: &SessionSides) -> Self {
        let mut differences = Self { sessions: [sides.baseline.len(), sides.new.len()], ..Self::default() };
        let mut compared: Vec<ComparedFigure> = Vec::new();
        for old in sides.baseline.first().map_or(&[][..], |first| &first.experiments) {
            let both = [sides.baseline, sides.new].map(|records| runs_of(&old.id, records));
            let [Some(baseline), Some(new)] = both else { continue };
            let runs = [baseline, new];
            match figures(&runs) {
                Ok((figures, only_one)) => {
                    let disturbed = disturbance(&runs);
                    let estimator = sides.estimator.unwrap_or_else(|| own_estimator(&runs));
                    let history = History::of(old, sides, estimator);
                    let speeds = runs.each_ref().map(|side| side.iter().map(speed).collect());
                    let one =
                        |figure| ComparedFigure::new(figure, estimator, (&history, &speeds), &disturbed);
                    compared.extend(figures.into_iter().map(one));
                    differences.not_compared.extend(only_one);
                }
                Err(why) => differences.not_compared.push(format!("{}: {why}", old.id)),
            }
        }
        differences.figures = decided(compared, sides.margin);
        differences.figures.sort_by(|a, b| {
            let size = |one: &FigureDifference| one.ratio.ln().abs();
            rank(a.change).cmp(&rank(b.change)).then(size(b).total_cmp(&size(a)))
        });
        differences
    }

    /// Returns the figures that differ.
    pub fn changed(&self) -> impl Iterator<Item = &FigureDifference> {
        self.figures.iter().filter(|figure| matches!(figure.change, Change::Better | Change::Worse))
    }
}

/// Order of the list: differences, what may be one, what is equivalent.
fn rank(change: Change) -> u8 {
    match change {
        Change::Better | Change::Worse => 0,
        Change::Inconclusive => 1,
        Change::Equivalent => 2,
    }
}

/// Decides all figures: the primary ones jointly, and the others jointly.
fn decided(compared: Vec<ComparedFigure>, margin: f64) -> Vec<FigureDifference> {
    let (primary, others): (Vec<_>, Vec<_>) = compared.into_iter().partition(|one| one.figure.is_primary);
    let rule = DecisionRule { margin, ..DecisionRule::default() };
    let of_family = |family: Vec<ComparedFigure>| {
        let p: Vec<f64> = family.iter().map(ComparedFigure::p).collect();
        let divisors = holm_divisors(&p, FAMILY_LEVEL);
        let decide = |(one, divisor): (ComparedFigure, usize)| one.decide(rule.divided_by(divisor));
        family.into_iter().zip(divisors).filter_map(decide).collect::<Vec<_>>()
    };
    [of_family(primary), of_family(others)].concat()
}

/// A figure of both sides with its test.
struct ComparedFigure {
    figure: Figure,
    estimator: Estimator,
    /// The values of the records of each side.
    sessions: [Vec<SessionValue>; 2],
    difference: Option<SessionDifference>,
    disturbed: Vec<String>,
}

impl ComparedFigure {
    fn new(
        figure: Figure,
        estimator: Estimator,
        (history, speeds): (&History, &[Vec<Option<f64>>; 2]),
        disturbed: &[String],
    ) -> Self {
        let worse = worse_tail(figure.better);
        let values = |side: usize| {
            let sessions = figure.values[side].iter().zip(&speeds[side]);
            let session = |(values, &speed): (&Vec<f64>, &Option<f64>)| {
                Some(SessionValue { speed, ..session_value(values, estimator, worse)? })
            };
            sessions.map(session).collect::<Option<Vec<_>>>().unwrap_or_default()
        };
        let sessions: [Vec<SessionValue>; 2] = [0, 1].map(values);
        let known: Option<KnownSpread> = history.spread(&figure);
        let difference = SessionDifference::between(&sessions[0], &sessions[1], known).filter(|found| {
            let is_median_that_decides = figure.is_primary && estimator == Estimator::Median;
            is_median_that_decides || found.source != SpreadSource::Assumed
        });
        Self { figure, estimator, sessions, difference, disturbed: disturbed.to_vec() }
    }

    fn p(&self) -> f64 {
        self.difference.map_or(1.0, |difference| difference.p())
    }

    /// `None` where a side has no usable value.
    fn decide(self, rule: DecisionRule) -> Option<FigureDifference> {
        let [old, new] = self.figure.values.each_ref().map(|side| {
            let worse = worse_tail(self.figure.better);
            let of = |values: &Vec<f64>| self.estimator.of_values(values, worse);
            manycore_stats::median(&side.iter().filter_map(of).collect::<Vec<_>>())
        });
        let values = [old?, new?];
        let ratio = match (self.difference, self.sessions.each_ref().map(|side| mean(side))) {
            (Some(difference), _) => difference.difference.exp(),
            (None, [Some(old), Some(new)]) => (new - old).exp(),
            _ => (log(values[1]) - log(values[0])).exp(),
        };
        let interval = self.difference.map(|difference| {
            let (low, high) = difference.interval(rule.level);
            (low.exp(), high.exp())
        });
        let change = match (rule.decide(interval), self.figure.better) {
            (Answer::BBetter, Direction::Higher) | (Answer::ABetter, Direction::Lower) => Change::Better,
            (Answer::ABetter, Direction::Higher) | (Answer::BBetter, Direction::Lower) => Change::Worse,
            (Answer::Equivalent, _) => Change::Equivalent,
            (Answer::Inconclusive | Answer::TradeOff, _) => Change::Inconclusive,
        };
        let spread = self.difference.map(|difference| SessionSpread {
            source: difference.source,
            sd: difference.sd,
            freedom: Some(difference.freedom).filter(|_| difference.source != SpreadSource::Assumed),
            speed: difference.speed,
        });
        let no_interval = interval
            .is_none()
            .then(|| sentence::no_interval(self.estimator, self.figure.is_primary, &self.figure.values));
        let count = |values: &Vec<Vec<f64>>| values.iter().map(|values| values.len().min(STRETCHES)).sum();
        Some(FigureDifference {
            stretches: self.figure.values.each_ref().map(count),
            topic: self.figure.topic,
            what: self.figure.what,
            metric: self.figure.metric,
            is_primary: self.figure.is_primary,
            unit: self.figure.unit,
            better: self.figure.better,
            estimator: self.estimator,
            values,
            ratio,
            interval,
            no_interval,
            change,
            spread,
            disturbed: self.disturbed,
        })
    }
}

fn mean(side: &[SessionValue]) -> Option<f64> {
    (!side.is_empty()).then(|| side.iter().map(|session| session.value).sum::<f64>() / side.len() as f64)
}

fn log(value: f64) -> f64 {
    value.ln().max(-MAX_LOG)
}

fn worse_tail(better: Direction) -> WorseTail {
    if better == Direction::Higher { WorseTail::Lower } else { WorseTail::Upper }
}

/// Returns the logarithm of the time that the machine took for a fixed piece of work in one record. `None` where too few
/// samples have it.
fn speed((experiment, _): &(&Experiment, &Record)) -> Option<f64> {
    let probes: Vec<f64> =
        experiment.samples.iter().filter_map(|sample| sample.probe_ns).map(|ns| ns as f64).collect();
    if probes.len() < MIN_PROBES { None } else { manycore_stats::median(&probes).map(log) }
}

/// Returns the value of one record. `None` with too few samples for it.
fn session_value(values: &[f64], estimator: Estimator, worse: WorseTail) -> Option<SessionValue> {
    let value = log(estimator.of_session(values, worse)?);
    // How much larger the variance of the value is than that of the mean of the stretches' values.
    let factor = match estimator {
        Estimator::Median => std::f64::consts::FRAC_PI_2,
        Estimator::Mean => 1.0,
        // A stretch is too short for its own quantile.
        _ => return Some(SessionValue { value, ..SessionValue::default() }),
    };
    let stretches = stretch_values(values, estimator);
    let count = stretches.len() as f64;
    let within = (stretches.len() > 1).then(|| {
        let mean = stretches.iter().sum::<f64>() / count;
        let variance = stretches.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (variance / count * factor, count - 1.0)
    });
    Some(SessionValue { value, within, speed: None })
}

/// Returns the median or mean of each stretch of consecutive values, as a logarithm.
fn stretch_values(values: &[f64], estimator: Estimator) -> Vec<f64> {
    let stretches = values.len().min(STRETCHES);
    // Ends of the stretches, whose lengths differ by at most one.
    let end = |stretch: usize| stretch * values.len() / stretches.max(1);
    // Neither depends on a tail.
    let of = |one| estimator.of_values(&values[end(one)..end(one + 1)], WorseTail::Upper);
    (0..stretches).filter_map(of).map(log).collect()
}

/// An experiment with its record, for each record of each side.
type Runs<'a> = [Vec<(&'a Experiment, &'a Record)>; 2];

/// Returns the experiment of each record. `None` where a record does not have it.
fn runs_of<'a>(id: &str, records: &[&'a Record]) -> Option<Vec<(&'a Experiment, &'a Record)>> {
    records.iter().map(|record| Some((record.experiment(id)?, *record))).collect()
}

/// Returns the estimator by which all runs of an experiment were decided; the median where they differ.
fn own_estimator(runs: &Runs) -> Estimator {
    let mut all = runs.iter().flatten().map(|(experiment, _)| deciding::estimator(experiment));
    let first = all.next().unwrap_or_default();
    if all.all(|other| other == first) { first } else { Estimator::default() }
}

/// Returns what exceeded the limits of advice in the runs of an experiment.
fn disturbance(runs: &Runs) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (name, side) in ["first", "second"].into_iter().zip(runs) {
        for (experiment, record) in side {
            let exceeded = Disturbance::of_experiments([*experiment], record).exceeded_limits();
            found.extend(exceeded.into_iter().map(|what| format!("{name} record: {what}")));
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
