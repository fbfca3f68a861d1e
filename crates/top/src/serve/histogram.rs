//! Latencies as histograms.

use super::exposition::HistogramFamily;
use super::totals::LatencyTotals;
use crate::resources::{LATENCY_CLASSES, LatencyHistogram};

/// Returns the histograms of latencies.
pub(super) fn families(latency: &LatencyTotals) -> Vec<HistogramFamily> {
    let of = |name, help, histogram| family(name, help, histogram);
    vec![
        of(
            "manycore_wakeup_latency_seconds",
            "Time from a wake-up to running (BPF). The sum is an estimate from the classes.",
            &latency.wakeup,
        ),
        of(
            "manycore_displaced_seconds",
            "Time from being displaced to running again (BPF). The sum is an estimate from the classes.",
            &latency.displaced,
        ),
    ]
}

/// The sum takes each duration to be in the middle of its class: three quarters of the upper limit.
fn family(name: &'static str, help: &'static str, histogram: &LatencyHistogram) -> HistogramFamily {
    let limit = |class: usize| (1_u64 << class) as f64 / 1e6;
    let upper = |class: usize| if class + 1 == LATENCY_CLASSES { f64::INFINITY } else { limit(class) };
    let classes = histogram.0.iter().enumerate().map(|(class, &count)| (upper(class), count));
    let sum = histogram.0.iter().enumerate().map(|(class, &count)| 0.75 * limit(class) * count as f64).sum();
    HistogramFamily { name, help, classes: classes.collect(), sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_upper_limits() {
        let mut histogram = LatencyHistogram::default();
        (histogram.0[0], histogram.0[10], histogram.0[LATENCY_CLASSES - 1]) = (1, 2, 3);
        let family = family("x", "X.", &histogram);
        assert_eq!(family.classes[0], (1e-6, 1));
        assert_eq!(family.classes[10], (0.001_024, 2));
        assert_eq!(family.classes[LATENCY_CLASSES - 1], (f64::INFINITY, 3));
        assert!(family.sum > 0.75 * 2.0 * 0.001_024);
    }
}
