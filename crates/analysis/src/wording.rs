//! Formats figures in sentences.

use manycore_experiment::record::{Direction, Metric};
use manycore_stats::{Estimate, Estimator};

pub(crate) use manycore_text::units::{interval, percent};

/// Formats a ratio with its interval: `1.97x (95 %: 1.95 to 1.99)`.
pub(crate) fn times(estimate: &Estimate) -> String {
    format!("{:.2}x ({})", estimate.median, interval(estimate.interval, |end| format!("{end:.2}")))
}

/// Factor from which a shorter time is also said as a speed.
const CLEARLY_FASTER: f64 = 1.1;

/// Formats a factor: `1.62`, `12.3`, `587`.
fn times_figure(factor: f64) -> String {
    match factor {
        large if large >= 100.0 => format!("{large:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    }
}

/// Words for the change of a metric: a time gets longer, a rate does more, and no share is negative.
pub(crate) struct ChangeWording {
    verb: &'static str,
    /// The verb after "may".
    infinitive: &'static str,
    more: &'static str,
    less: &'static str,
    comparatives: [&'static str; 2],
    /// ` in p99`. Empty where there is only one figure.
    what: String,
    /// Whether it is the time of a whole run.
    is_wall_time: bool,
}

impl ChangeWording {
    /// Returns the words for a metric; those of a rate where there is none.
    pub(crate) fn for_metric(metric: Option<&Metric>) -> Self {
        let usual = metric.is_none_or(|metric| metric.name == "wall");
        let what = metric.filter(|_| !usual).map(|metric| format!(" in {}", metric.name)).unwrap_or_default();
        let comparatives = if usual { ["faster", "slower"] } else { ["better", "worse"] };
        let (verb, infinitive, more, less) = match metric {
            Some(metric) if metric.better == Direction::Lower && is_time(metric) => {
                ("takes", "take", "longer", "less time")
            }
            Some(metric) if metric.better == Direction::Lower => ("has", "have", "more", "less"),
            _ => ("does", "do", "more", "less"),
        };
        let is_wall_time = metric.is_some() && usual;
        Self { verb, infinitive, more, less, comparatives, what, is_wall_time }
    }

    /// Returns the words for a comparison by another figure than the typical pair: `takes 2.0 % longer by the mean`.
    pub(crate) fn by(self, estimator: Estimator) -> Self {
        let by = match estimator {
            Estimator::Median => return self,
            Estimator::Mean => " by the mean".to_owned(),
            Estimator::Max => " by the worst of ten runs".to_owned(),
            quantile => format!(" by {quantile}"),
        };
        Self { what: self.what + &by, ..self }
    }

    /// Returns `faster`, `slower`, `better` or `worse`.
    pub(crate) fn comparative(&self, better: bool) -> &'static str {
        self.comparatives[usize::from(!better)]
    }

    /// `takes 100 % longer`, `does 50 % less in requests`.
    pub(crate) fn point(&self, ratio: f64) -> String {
        format!("{} {}{}", self.verb, self.size(ratio), self.what)
    }

    /// `B may take 4.0 % longer than A`.
    pub(crate) fn possible(&self, [a, b]: [&str; 2], ratio: f64) -> String {
        format!("{b} may {} {} than {a}{}", self.infinitive, self.size(ratio), self.what)
    }

    /// `B takes 4.0 % longer than A`.
    pub(crate) fn than(&self, [a, b]: [&str; 2], ratio: f64) -> String {
        format!("{b} {} {} than {a}{}", self.verb, self.size(ratio), self.what)
    }

    /// Begins a ranking: `Fastest`, `Fastest by the mean`, `Best in p99`.
    pub(crate) fn superlative(&self) -> String {
        format!("{}{}", if self.is_of_speed() { "Fastest" } else { "Best" }, self.what)
    }

    /// Asks about two variants: `Is B faster than A?`
    pub(crate) fn question(&self, [a, b]: [&str; 2]) -> String {
        format!("Is {b} {} than {a}{}?", self.comparative(true), self.what)
    }

    /// Asks about several variants: `Which variant is fastest?`
    pub(crate) fn question_of_several(&self) -> String {
        let best = if self.is_of_speed() { "fastest" } else { "best" };
        format!("Which variant is {best}{}?", self.what)
    }

    fn is_of_speed(&self) -> bool {
        self.comparatives[0] == "faster"
    }

    /// ` and is 1.62 times as fast`, for a time that is clearly shorter; empty otherwise, where the share says as much.
    pub(crate) fn speed(&self, ratio: f64) -> String {
        let speed = 1.0 / ratio;
        if self.is_wall_time && speed >= CLEARLY_FASTER {
            format!(" and is {} times as fast", times_figure(speed))
        } else {
            String::new()
        }
    }

    /// Formats the ends of an interval: `95 to 106 % longer`, `0.93 % to 58 % longer`, `3.0 % less time to 12 % longer`.
    /// An end with decimals has its own percent sign, since it could be read as a ratio.
    pub(crate) fn bounds(&self, (low, high): (f64, f64)) -> String {
        let share = |ratio: f64| percent((ratio - 1.0).abs());
        let range = |from: f64, to: f64| match share(from) {
            from if from.contains('.') => format!("{from} to {}", share(to)),
            from => format!("{} to {}", from.trim_end_matches(" %"), share(to)),
        };
        if low >= 1.0 {
            format!("{} {}", range(low, high), self.more)
        } else if high <= 1.0 {
            format!("{} {}", range(high, low), self.less)
        } else {
            format!("{} to {}", self.size(low), self.size(high))
        }
    }

    fn size(&self, ratio: f64) -> String {
        format!("{} {}", percent((ratio - 1.0).abs()), if ratio < 1.0 { self.less } else { self.more })
    }
}

/// Names two variants, in their order: `A and B`.
pub(crate) fn both(mut titles: [&str; 2]) -> String {
    titles.sort_unstable();
    format!("{} and {}", titles[0], titles[1])
}

/// Returns whether a metric is a time, by its unit.
pub(crate) fn is_time(metric: &Metric) -> bool {
    metric.name == "wall"
        || ["s", "ms", "us", "\u{b5}s", "ns", "sec", "secs", "seconds", "min"].contains(&metric.unit.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, unit: &str, better: Direction) -> ChangeWording {
        ChangeWording::for_metric(Some(&Metric { name: name.to_owned(), unit: unit.to_owned(), better }))
    }

    /// Regression test: B took twice the time and was reported as "50 % slower".
    #[test]
    fn percentages_follow_the_metric() {
        let wall = change("wall", "s", Direction::Lower);
        assert_eq!(wall.point(2.0), "takes 100 % longer");
        assert_eq!(wall.point(0.5), "takes 50 % less time");
        assert_eq!(wall.comparative(false), "slower");
        let requests = change("requests", "requests/s", Direction::Higher);
        assert_eq!(requests.point(0.5), "does 50 % less in requests");
        assert_eq!(requests.comparative(false), "worse");
        assert_eq!(
            change("p99", "ms", Direction::Lower).possible(["A", "B"], 1.04),
            "B may take 4.0 % longer than A in p99"
        );
        assert_eq!(change("memory", "MiB", Direction::Lower).point(1.1), "has 10 % more in memory");
        assert_eq!(ChangeWording::for_metric(None).point(1.1), "does 10 % more");
        assert_eq!(wall.than(["A", "C"], 0.5), "C takes 50 % less time than A");
        assert_eq!(
            (wall.superlative(), requests.superlative()),
            ("Fastest".to_owned(), "Best in requests".to_owned())
        );
        assert_eq!(wall.question(["A", "C"]), "Is C faster than A?");
        assert_eq!(requests.question(["A", "C"]), "Is C better than A in requests?");
        let by_mean = wall.by(Estimator::Mean);
        assert_eq!(by_mean.superlative(), "Fastest by the mean");
        assert_eq!(by_mean.question_of_several(), "Which variant is fastest by the mean?");
    }

    #[test]
    fn a_clearly_shorter_time_is_also_a_speed() {
        let wall = change("wall", "s", Direction::Lower);
        assert_eq!(
            [0.617, 0.5, 0.001].map(|ratio| wall.speed(ratio)),
            [" and is 1.62 times as fast", " and is 2.00 times as fast", " and is 1000 times as fast",]
        );
        assert_eq!([0.95, 1.0, 2.0].map(|ratio| wall.speed(ratio)), [""; 3]);
        // A latency is shorter, and a rate says the factor itself.
        assert_eq!(change("p99", "ms", Direction::Lower).speed(0.5), "");
        assert_eq!(ChangeWording::for_metric(None).speed(0.5), "");
    }

    /// Regression test: "12 % faster (95 %: -366 to 80 %)".
    #[test]
    fn no_end_of_an_interval_is_a_negative_share() {
        let wall = change("wall", "s", Direction::Lower);
        assert_eq!(wall.bounds((1.95, 2.06)), "95 to 106 % longer");
        assert_eq!(wall.bounds((0.8, 0.9)), "10 to 20 % less time");
        assert_eq!(wall.bounds((0.97, 1.12)), "3.0 % less time to 12 % longer");
        assert_eq!(wall.bounds((1.022, 1.04)), "2.2 % to 4.0 % longer");
        // Regression test: "0.93 to 58 % less" was read as a ratio and a share.
        assert_eq!(wall.bounds((0.42, 0.9907)), "0.93 % to 58 % less time");
        let rate = ChangeWording::for_metric(None);
        for (low, high) in [(0.2, 4.66), (0.0, 0.5), (1.0, 1.0), (0.998, 1.001)] {
            let text = rate.bounds((low, high));
            assert!(!text.contains('-'), "{text}");
        }
    }
}
