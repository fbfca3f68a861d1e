//! The bound of a tail: `p99 < +10%`, or `p99.9 < 2ms`.

use std::{fmt, str::FromStr, time::Duration};

/// A figure of a distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LatencyFigure {
    /// The mean.
    Mean,
    /// A quantile, between 0 and 1.
    Quantile(f64),
}

/// How large the figure may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many times that of one instance that runs alone: 1.1 for "at most 10 % more".
    Relative(f64),
    /// So long, however long it is alone.
    Absolute(Duration),
}

/// A bound of a tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailBound {
    /// The figure of the observed instance.
    pub figure: LatencyFigure,
    /// How large it may be.
    pub limit: Limit,
}

/// Why a text is no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no bound: write 'p99 < +10%', 'p99.9 < 2ms' or 'mean < +5%'")]
pub struct InvalidTailBound(String);

impl Default for TailBound {
    /// `p99 < +10%`.
    fn default() -> Self {
        Self { figure: LatencyFigure::Quantile(0.99), limit: Limit::Relative(1.1) }
    }
}

impl TailBound {
    /// Returns the sample of a pair of slices for [`Search::add`](manycore_stats::largest_count::Search::add): the logarithm
    /// of the figure at a count over that of the lone instance, or over an absolute limit. Both figures are in milliseconds.
    /// `None` if one that is needed is not above 0.
    pub fn sample(&self, alone: f64, at_count: f64) -> Option<f64> {
        let reference = match self.limit {
            Limit::Relative(_) => alone,
            Limit::Absolute(limit) => limit.as_secs_f64() * 1e3,
        };
        (reference > 0.0 && at_count > 0.0).then(|| (at_count / reference).ln())
    }

    /// Returns the largest sample that is within the bound.
    pub fn log_limit(&self) -> f64 {
        match self.limit {
            Limit::Relative(factor) => factor.ln(),
            Limit::Absolute(_) => 0.0,
        }
    }

    /// Returns the limit in milliseconds, where it is absolute.
    pub fn limit_ms(&self) -> Option<f64> {
        match self.limit {
            Limit::Relative(_) => None,
            Limit::Absolute(limit) => Some(limit.as_secs_f64() * 1e3),
        }
    }

    /// Returns the smallest count that has to be measured: a lone instance is within a relative bound by definition.
    pub fn first_count(&self) -> usize {
        match self.limit {
            Limit::Relative(_) => 2,
            Limit::Absolute(_) => 1,
        }
    }
}

impl FromStr for TailBound {
    type Err = InvalidTailBound;

    fn from_str(text: &str) -> Result<Self, InvalidTailBound> {
        let wrong = || InvalidTailBound(text.to_owned());
        let (figure, limit) = text.split_once('<').ok_or_else(wrong)?;
        let figure = figure_of(figure.trim()).ok_or_else(wrong)?;
        let limit = limit_of(limit.trim()).ok_or_else(wrong)?;
        Ok(Self { figure, limit })
    }
}

fn figure_of(text: &str) -> Option<LatencyFigure> {
    if text == "mean" {
        return Some(LatencyFigure::Mean);
    }
    let percent = plain_number(text.strip_prefix('p')?)?;
    // Rounded: 99.9 / 100 is not 0.999.
    (percent > 0.0 && percent < 100.0).then(|| LatencyFigure::Quantile((percent * 1e7).round() / 1e9))
}

fn limit_of(text: &str) -> Option<Limit> {
    if let Some(percent) = text.strip_prefix('+').and_then(|text| text.strip_suffix('%')) {
        let percent = plain_number(percent.trim())?;
        return (percent > 0.0 && percent <= 1e6).then_some(Limit::Relative(1.0 + percent / 100.0));
    }
    let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let seconds = plain_number(number.trim())? * unit;
    (1e-6..=3600.0).contains(&seconds).then(|| Limit::Absolute(Duration::from_secs_f64(seconds)))
}

/// Returns a number of digits and a point.
fn plain_number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

/// Rounds to a part in a million: 0.999 × 100 is not 99.9.
fn plain(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

impl fmt::Display for LatencyFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Quantile(q) => write!(f, "p{}", plain(q * 100.0)),
        }
    }
}

impl fmt::Display for TailBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Relative(factor) => write!(f, "{} < +{}%", self.figure, plain((factor - 1.0) * 100.0)),
            Limit::Absolute(limit) => write!(f, "{} < {}ms", self.figure, plain(limit.as_secs_f64() * 1e3)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_and_written() {
        let quantile = |q, limit| TailBound { figure: LatencyFigure::Quantile(q), limit };
        let cases = [
            ("p99 < +10%", quantile(0.99, Limit::Relative(1.1)), "p99 < +10%"),
            ("p99.9<2ms", quantile(0.999, Limit::Absolute(Duration::from_millis(2))), "p99.9 < 2ms"),
            (" p50 <  + 2.5 %", quantile(0.5, Limit::Relative(1.025)), "p50 < +2.5%"),
            ("p99 < 150us", quantile(0.99, Limit::Absolute(Duration::from_micros(150))), "p99 < 0.15ms"),
            ("p99 < 1s", quantile(0.99, Limit::Absolute(Duration::from_secs(1))), "p99 < 1000ms"),
            (
                "mean < +5%",
                TailBound { figure: LatencyFigure::Mean, limit: Limit::Relative(1.05) },
                "mean < +5%",
            ),
        ];
        for (text, bound, written) in cases {
            assert_eq!(text.parse::<TailBound>().unwrap(), bound, "{text}");
            assert_eq!(bound.to_string(), written);
            assert_eq!(written.parse::<TailBound>().unwrap(), bound);
        }
        assert_eq!(TailBound::default().to_string(), "p99 < +10%");
    }

    #[test]
    fn what_is_no_bound_is_refused_with_examples() {
        for text in [
            "",
            "p99",
            "p99 <",
            "< +10%",
            "p100 < +10%",
            "p0 < 1ms",
            "p99 < 10%",
            "p99 < +-1%",
            "p99 < +0%",
            "p99 < 0ms",
            "p99 < infs",
            "p99 < +1e3%",
            "p99 > +10%",
            "max < +10%",
            "p99 < 2h",
        ] {
            let error = text.parse::<TailBound>().unwrap_err().to_string();
            assert!(error.contains("is no bound: write 'p99 < +10%'"), "{text}: {error}");
        }
    }

    #[test]
    fn samples_are_relative_to_the_lone_instance_or_to_the_limit() {
        let relative = TailBound::default();
        assert_eq!((relative.sample(2.0, 2.0), relative.first_count()), (Some(0.0), 2));
        assert!((relative.sample(1.0, 1.1).unwrap() - relative.log_limit()).abs() < 1e-12);
        let absolute: TailBound = "p99 < 2ms".parse().unwrap();
        assert_eq!(
            (absolute.sample(1.0, 2.0), absolute.log_limit(), absolute.first_count()),
            (Some(0.0), 0.0, 1)
        );
        assert_eq!((relative.sample(0.0, 1.0), absolute.sample(1.0, 0.0)), (None, None));
    }
}
