//! The difference of two sides that were measured in different sessions: on other days, or by other runs.
//!
//! Sessions are not interleaved, so nothing cancels what changes from one to the next: other work, the layout of memory,
//! the CPU that a hypervisor chose. A session has one value (the logarithm of its median), and the values of sessions
//! scatter. More samples in one session do not reduce that scatter.
//!
//! Its size comes from the first of these that there is:
//!
//! 1. **Repeated** sessions: both sides have several, or one side has at least [`MIN_ALONE`]. Four or more of each side
//!    with a common variance, unless those of the sides differ clearly; otherwise both sides with their own variances, as
//!    in Welch's test, but no less than with a common one. A single session gets the variance of the other side.
//! 2. **Known** scatter of earlier sessions of the same work on the same machine, with its degrees of freedom.
//! 3. An **assumed** standard deviation, [`ASSUMED_SD`], of skewed (exponential) scatter.
//!
//! The scatter within a session also counts where it is larger, or where the scatter between sessions is assumed.
//!
//! Four or more sessions of each side whose speed of the machine is known are compared at the same speed
//! ([`SpeedAdjustment`]).

mod speed;

pub use speed::SpeedAdjustment;

use crate::{student, upper_quantile};

/// Standard deviation between sessions that is assumed where none is known, as a logarithm: about 5 %.
///
/// Blocks of 30 s of the same work, one right after the other on a shared virtual machine, have one of 1.3 to 2.1 %
/// (the error of their ratio is 3.6 to 5.8 %, 95th percentile). Other days add at least as much again. The value is
/// more than twice the larger one, because it stands for machines that were never measured.
pub const ASSUMED_SD: f64 = 0.05;

/// Number of sessions of one side that suffice where the other side has one.
pub const MIN_ALONE: usize = 3;

/// Factor of the standard error where a side has one session. A single session may be the one that is slow: with skewed
/// scatter, an interval for normal scatter would miss in up to 9 % of comparisons.
const SINGLE: f64 = 1.35;

/// Number of sessions of each side from which both sides are taken to have one scatter, as long as their variances do
/// not differ by more than [`UNEQUAL`]. The common variance has more degrees of freedom than those of Welch's test.
const MIN_POOLED: f64 = 4.0;

/// Ratio of two variances that five sessions of each side exceed in one of 20 cases where the true ones are equal.
const UNEQUAL: f64 = 9.6;

/// One session's value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionValue {
    /// The logarithm of the session's median.
    pub value: f64,
    /// Variance of that value from the scatter within the session, and its degrees of freedom. `None` where the session
    /// has too few samples to know.
    pub within: Option<(f64, f64)>,
    /// The logarithm of the time of a fixed piece of work in the session, where it was measured.
    pub speed: Option<f64>,
}

/// How the values of sessions of the same work scatter, where that is known from other sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownSpread {
    /// Standard deviation, as a logarithm.
    pub sd: f64,
    /// Degrees of freedom of its estimate.
    pub freedom: f64,
}

/// From what the scatter between sessions is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpreadSource {
    /// From the compared sessions: at least one side has several.
    Repeated,
    /// From earlier sessions of the same work on the same machine.
    Known,
    /// It is not known, and [`ASSUMED_SD`] is assumed.
    Assumed,
}

/// The difference between two sides with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionDifference {
    /// Mean of the second side's values minus that of the first.
    pub difference: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the error; infinite where it is assumed.
    pub freedom: f64,
    /// Standard deviation of the values of sessions that the error rests on.
    pub sd: f64,
    /// From what that is known.
    pub source: SpreadSource,
    /// How it was adjusted for the speed of the machine, where that is known. Difference, error and scatter are then those
    /// at the same speed.
    pub speed: Option<SpeedAdjustment>,
}

impl KnownSpread {
    /// Returns the scatter of the values within groups of sessions, where each group measured one thing. `None` below
    /// [`MIN_ALONE`] degrees of freedom.
    pub fn of_groups<'a>(groups: impl IntoIterator<Item = &'a [f64]>) -> Option<Self> {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for group in groups.into_iter().filter(|group| group.len() > 1) {
            let own = group.len() as f64 - 1.0;
            squares += variance(group) * own;
            freedom += own;
        }
        (freedom >= MIN_ALONE as f64).then(|| Self { sd: (squares / freedom).sqrt(), freedom })
    }
}

impl SessionDifference {
    /// Compares the sessions of two sides. `None` where a side has none, or where a side has one session whose own
    /// scatter is unknown.
    pub fn between(
        first: &[SessionValue],
        second: &[SessionValue],
        known: Option<KnownSpread>,
    ) -> Option<Self> {
        let sides = [Side::new(first)?, Side::new(second)?];
        if let Some(found) = Self::at_same_speed([first, second], &sides) {
            return Some(found);
        }
        let counts = [first.len(), second.len()];
        let has_several =
            counts.iter().all(|&count| count > 1) || counts.iter().any(|&count| count >= MIN_ALONE);
        let seen = sides.iter().filter(|side| side.count > 1.0).map(|side| side.variance).fold(0.0, f64::max);
        let (spread, source) = match known {
            _ if has_several => (None, SpreadSource::Repeated),
            Some(known) => (Some(known), SpreadSource::Known),
            None => (Some(KnownSpread { sd: ASSUMED_SD, freedom: f64::INFINITY }), SpreadSource::Assumed),
        };
        let parts = match spread {
            None => repeated(&sides),
            Some(spread) => {
                let variance = (spread.sd * spread.sd).max(seen);
                single(&sides, variance, spread.freedom, source == SpreadSource::Assumed)
            }
        }?;
        let all: f64 = parts.iter().map(|part| part.0).sum();
        // Satterthwaite (1946).
        let freedom =
            all * all / parts.iter().map(|(variance, freedom)| variance * variance / freedom).sum::<f64>();
        let between =
            spread.map_or_else(|| mean_variance(&sides), |spread| (spread.sd * spread.sd).max(seen));
        Some(Self {
            difference: sides[1].mean - sides[0].mean,
            error: all.sqrt()
                * if counts.contains(&1) && source != SpreadSource::Assumed { SINGLE } else { 1.0 },
            freedom: if freedom.is_nan() { 1.0 } else { freedom },
            sd: between.sqrt(),
            source,
            speed: None,
        })
    }

    /// Returns the interval of the difference at the two-sided `level`.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let critical = match self.source {
            SpreadSource::Assumed => assumed_critical(level),
            SpreadSource::Repeated | SpreadSource::Known => student::critical(level, self.freedom.max(1.0)),
        };
        let half = self.error * critical;
        (self.difference - half, self.difference + half)
    }

    /// Returns the two-sided p-value: the smallest level at which the interval excludes 0, to a relative precision of
    /// 1e-6, and no less than 1e-9.
    pub fn p(&self) -> f64 {
        let excludes = |level: f64| self.interval(level).0 > 0.0 || self.interval(level).1 < 0.0;
        if !excludes(1.0) {
            return 1.0;
        }
        let (mut below, mut p) = (1e-9_f64, 1.0_f64);
        while p / below > 1.0 + 1e-6 {
            let middle = (below * p).sqrt();
            if excludes(middle) { p = middle } else { below = middle }
        }
        p
    }
}

/// Returns the number of standard deviations that the difference of two sessions exceeds on either side with the
/// probability `level` in total, where nothing is known: that of sessions with exponential scatter, which is a Laplace
/// distribution, but no less than the normal one. 2.12 for 5 %.
fn assumed_critical(level: f64) -> f64 {
    upper_quantile(level / 2.0).max(-level.ln() * std::f64::consts::FRAC_1_SQRT_2)
}

/// The sessions of one side.
struct Side {
    mean: f64,
    count: f64,
    /// Variance of the values of its sessions: at least what the scatter within them gives. 0 for a single one.
    variance: f64,
    /// Mean variance from the scatter within its sessions; 0 where that is not known of all.
    least: f64,
    /// Largest variance from the scatter within its sessions.
    within: Option<(f64, f64)>,
}

impl Side {
    fn new(sessions: &[SessionValue]) -> Option<Self> {
        let values: Vec<f64> = sessions.iter().map(|session| session.value).collect();
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let within = sessions.iter().map(|session| session.within).collect::<Option<Vec<_>>>();
        let of_all =
            |parts: Vec<(f64, f64)>| parts.iter().map(|part| part.0).sum::<f64>() / parts.len() as f64;
        let several = values.len() > 1;
        let least = within.filter(|_| several).map_or(0.0, of_all);
        Some(Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            count: values.len() as f64,
            variance: if several { variance(&values).max(least) } else { 0.0 },
            least,
            within: sessions.iter().filter_map(|session| session.within).max_by(|a, b| a.0.total_cmp(&b.0)),
        })
    }
}

/// Returns whether two sides are taken to have one scatter.
fn is_common(a: &Side, b: &Side) -> bool {
    let (small, large) = (a.variance.min(b.variance), a.variance.max(b.variance));
    a.count.min(b.count) >= MIN_POOLED && large <= UNEQUAL * small
}

/// Returns the parts of the variance of the difference, each with its degrees of freedom, where at least one side has
/// several sessions.
fn repeated(sides: &[Side; 2]) -> Option<Vec<(f64, f64)>> {
    let part = |side: &Side| (side.variance / side.count, side.count - 1.0);
    match sides {
        [a, b] if is_common(a, b) => {
            let freedom = a.count + b.count - 2.0;
            let pooled = (a.variance * (a.count - 1.0) + b.variance * (b.count - 1.0)) / freedom;
            Some(vec![(pooled * (1.0 / a.count + 1.0 / b.count), freedom)])
        }
        [a, b] if a.count > 1.0 && b.count > 1.0 => {
            let own = vec![part(a), part(b)];
            // Two or three sessions may agree by chance. The variance of all of them bounds that.
            let pooled =
                (a.variance * (a.count - 1.0) + b.variance * (b.count - 1.0)) / (a.count + b.count - 2.0);
            let of_pooled = pooled * (1.0 / a.count + 1.0 / b.count);
            let sum = own[0].0 + own[1].0;
            let scale = if sum > 0.0 { (of_pooled / sum).max(1.0) } else { 1.0 };
            Some(own.into_iter().map(|(variance, freedom)| (variance * scale, freedom)).collect())
        }
        [several, one] | [one, several] if several.count > 1.0 => {
            let (within, freedom) = one.within?;
            let known = part(several);
            // A single session scatters as the other ones do. It has to be known that its own scatter is no larger.
            Some(if within > several.variance {
                vec![known, (within, freedom)]
            } else {
                vec![(known.0 + several.variance, known.1)]
            })
        }
        _ => None,
    }
}

/// Returns the parts where the scatter between sessions is known or assumed. A known one includes the scatter within
/// sessions like these; an assumed one does not.
fn single(sides: &[Side; 2], variance: f64, freedom: f64, is_assumed: bool) -> Option<Vec<(f64, f64)>> {
    let mut parts = vec![(variance * (1.0 / sides[0].count + 1.0 / sides[1].count), freedom)];
    for side in sides {
        let (within, own) = side.within?;
        let more = if is_assumed { within } else { (within - variance).max(0.0) };
        parts.push((more / side.count, own));
    }
    Some(parts)
}

fn mean_variance(sides: &[Side; 2]) -> f64 {
    let several: Vec<f64> = sides.iter().filter(|side| side.count > 1.0).map(|side| side.variance).collect();
    several.iter().sum::<f64>() / several.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests;
