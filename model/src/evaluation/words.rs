//! Figures in sentences.

use crate::stats::Estimate;

pub(crate) use crate::units::percent;

/// A ratio with its interval: `1.97x (95 %: 1.95 to 1.99)`.
pub(crate) fn times(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{:.2}x (95 %: {low:.2} to {high:.2})", estimate.median),
        None => format!("{:.2}x (too few samples for an interval)", estimate.median),
    }
}

/// Items joined as a person would: `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
