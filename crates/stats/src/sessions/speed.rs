//! Sessions that are compared at the same speed of the machine.
//!
//! A session that ran while the machine was slow is slow itself. Where each session has also measured a fixed piece of
//! work, the speed explains a part of the scatter between sessions. This is the analysis of covariance (Cochran,
//! "Analysis of covariance: its nature and uses", Biometrics 1957): values depend linearly on the speed, with one slope on
//! both sides, which the sessions themselves show. A program that does not depend on that speed has a slope near 0, and
//! loses one degree of freedom.

use super::{MIN_POOLED, SessionDifference, SessionValue, Side, SpreadSource, is_common};
use serde::{Deserialize, Serialize};

/// How a difference was adjusted for the speed of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedAdjustment {
    /// Change of the logarithm of a value for each unit of the logarithm of the fixed work's time, from the sessions.
    pub slope: f64,
    /// Logarithm of the time of the fixed work on the second side over that on the first one, as means of sessions.
    pub shift: f64,
}

/// Sums of squares and products about the means of the sides.
#[derive(Default)]
struct Sums {
    speed: f64,
    value: f64,
    both: f64,
}

impl SessionDifference {
    /// Compares sides at the same speed. `None` where a session has no speed or all have the same one, where a side has
    /// fewer sessions than a common scatter needs, and where the scatter of the sides clearly differs.
    pub(super) fn at_same_speed(sessions: [&[SessionValue]; 2], sides: &[Side; 2]) -> Option<Self> {
        let [first, second] = sides;
        if first.count.min(second.count) < MIN_POOLED || !is_common(first, second) {
            return None;
        }
        let speeds =
            sessions.map(|side| side.iter().map(|session| session.speed).collect::<Option<Vec<f64>>>());
        let [Some(a), Some(b)] = speeds else { return None };
        let mean = |speeds: &[f64]| speeds.iter().sum::<f64>() / speeds.len() as f64;
        let means = [mean(&a), mean(&b)];
        let mut sums = Sums::default();
        for (side, (sessions, speeds)) in sessions.into_iter().zip([a, b]).enumerate() {
            for (session, speed) in sessions.iter().zip(speeds) {
                let (x, y) = (speed - means[side], session.value - sides[side].mean);
                sums.speed += x * x;
                sums.value += y * y;
                sums.both += x * y;
            }
        }
        // Below any speed that could be measured.
        if !sums.speed.is_finite() || sums.speed < 1e-12 {
            return None;
        }
        let (slope, shift) = (sums.both / sums.speed, means[1] - means[0]);
        let freedom = first.count + second.count - 3.0;
        let left = (sums.value - slope * sums.both).max(0.0) / freedom;
        let variance = left.max(f64::midpoint(first.least, second.least));
        let parts = 1.0 / first.count + 1.0 / second.count + shift * shift / sums.speed;
        Some(Self {
            difference: second.mean - first.mean - slope * shift,
            error: (variance * parts).sqrt(),
            freedom,
            sd: variance.sqrt(),
            source: SpreadSource::Repeated,
            speed: Some(SpeedAdjustment { slope, shift }),
        })
    }
}
