//! Figures in sentences.

use crate::stats::Estimate;

/// A share as a percentage with as many digits as mean something: `0.04 %`, `3.1 %`, `42 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size >= 9.95 => format!("{percent:.0} %"),
        size if size >= 0.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

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
