//! A difference between sessions in sentences.

use super::{Change, FigureDifference, RecordDifferences, SessionSpread};
use crate::wording::{ChangeWording, percent};
use manycore_experiment::record::Metric;
use manycore_stats::{
    Estimator,
    sessions::{SpeedAdjustment, SpreadSource},
};
use manycore_text::units::{counted, decimals};

/// Why there is no interval, where nothing else is known.
pub(crate) const TOO_FEW: &str = "too few samples for an interval";

impl FigureDifference {
    /// Says what the figure shows about the new side: `The new record is slower than the baseline: it takes 5.1 % longer
    /// (1.05x; 95 %: 3.0 to 7.2 % longer).`
    pub fn answer(&self, margin: f64) -> String {
        let metric = Metric { name: self.metric.clone(), unit: self.unit.clone(), better: self.better };
        let change =
            ChangeWording::for_metric(Some(&metric).filter(|_| !self.metric.is_empty())).by(self.estimator);
        let point = change.point(self.ratio);
        let Some(ends) = self.interval else {
            let why = self.no_interval.as_deref().unwrap_or(TOO_FEW);
            return format!("Inconclusive: {why}. So far, it {point}.");
        };
        let measured = format!("{}x; 95 %: {}", decimals(self.ratio), change.bounds(ends));
        match self.change {
            Change::Better | Change::Worse => {
                let comparative = change.comparative(self.change == Change::Better);
                let speed = change.speed(self.ratio);
                format!("The new record is {comparative} than the baseline: it {point}{speed} ({measured}).")
            }
            Change::Equivalent => format!(
                "The new record and the baseline are equivalent within {}: it {point} ({measured}).",
                percent(margin)
            ),
            Change::Inconclusive => format!("Inconclusive: so far, the new record {point} ({measured})."),
        }
    }
}

/// Says why a figure has no interval. Its `records` are those of both sides.
pub(super) fn no_interval(estimator: Estimator, is_primary: bool, records: &[Vec<Vec<f64>>; 2]) -> String {
    let fewest = records.iter().flatten().map(Vec::len).min().unwrap_or(0);
    if fewest < estimator.least_values() {
        return format!("{estimator} needs at least {} samples in each record", estimator.least_values());
    }
    let what = match estimator {
        Estimator::Median if is_primary => return TOO_FEW.to_owned(),
        _ if fewest < 2 => return TOO_FEW.to_owned(),
        Estimator::Median => "this metric",
        Estimator::Max => "the worst of ten runs",
        Estimator::Mean => "the mean",
        quantile => quantile.name(),
    };
    format!("how {what} scatters between sessions is unknown, which five records of each side show")
}

impl RecordDifferences {
    /// Says what scatter between sessions the intervals of the primary figures include. `None` without an interval.
    pub fn spread_note(&self) -> Option<String> {
        let primary = self.figures.iter().filter(|figure| figure.is_primary);
        let spreads: Vec<SessionSpread> = primary.filter_map(|figure| figure.spread).collect();
        let first = spreads.first()?;
        if spreads.iter().all(|spread| spread == first) {
            return Some(first.sentence(self.sessions));
        }
        let of_source = |source: SpreadSource| {
            let of = spreads.iter().filter(move |spread| spread.source == source).map(|spread| spread.sd);
            let low = of.clone().min_by(f64::total_cmp)?;
            let high = of.max_by(f64::total_cmp)?;
            let from = match source {
                SpreadSource::Repeated => "from the repeated records",
                SpreadSource::Known => "from earlier results of the same work on this machine",
                SpreadSource::Assumed => "assumed where nothing is known",
            };
            let range =
                if low < high { format!("{} to {}", percent(low), percent(high)) } else { percent(low) };
            Some(format!("{range} ({from})"))
        };
        let parts: Vec<String> = [SpreadSource::Repeated, SpreadSource::Known, SpreadSource::Assumed]
            .into_iter()
            .filter_map(of_source)
            .collect();
        Some(format!(
            "The intervals include the scatter between sessions, as a standard deviation: {}.",
            parts.join("; ")
        ))
    }
}

/// Says how an interval was adjusted. Begins with a blank.
fn speed_sentence(speed: SpeedAdjustment) -> String {
    let times = speed.shift.exp();
    let how = if times > 1.0 { "slower" } else { "faster" };
    format!(
        " The sides are compared at the same speed of the machine, which a probe measured in each session: it was {} {how} \
         in the new ones, and a value changes by {:.2} % for each percent.",
        percent((times - 1.0).abs()),
        speed.slope
    )
}

impl SessionSpread {
    /// Says what the interval includes, for sides with these numbers of records.
    pub fn sentence(&self, sessions: [usize; 2]) -> String {
        let sd = percent(self.sd);
        match self.source {
            SpreadSource::Repeated => {
                let several = sessions.into_iter().filter(|&count| count > 1).map(|count| count.to_string());
                let speed = self.speed.map_or_else(String::new, speed_sentence);
                format!(
                    "The interval includes the scatter between sessions: {sd} (standard deviation), from the {} records \
                     of {}.{speed}",
                    several.collect::<Vec<_>>().join(" and "),
                    if sessions.iter().all(|&count| count > 1) { "the two sides" } else { "one side" }
                )
            }
            SpreadSource::Known => format!(
                "The interval includes the scatter between sessions: {sd} (standard deviation), from earlier results of \
                 the same work on this machine ({}).",
                counted(self.freedom.map_or(0, |freedom| freedom.round() as usize), "degree") + " of freedom"
            ),
            SpreadSource::Assumed => format!(
                "The interval includes a scatter between sessions of {sd} (standard deviation), which is assumed: no \
                 repeated records and no earlier results of the same work are known. Five records of each side show the \
                 true one."
            ),
        }
    }
}
