//! Figures in sentences.

use crate::stats::Estimate;

pub(crate) use crate::units::{interval, percent};

/// A ratio with its interval: `1.97x (95 %: 1.95 to 1.99)`.
pub(crate) fn times(estimate: &Estimate) -> String {
    format!("{:.2}x ({})", estimate.median, interval(estimate.interval, |end| format!("{end:.2}")))
}

/// Items joined as a person would: `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
