//! Families of metrics in the `OpenMetrics` format.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use std::fmt;

/// Labels of a series: names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Whether a value only increases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyKind {
    Counter,
    Gauge,
}

/// Series of one name.
#[derive(Clone, Debug)]
pub(super) struct Family {
    /// Its name; samples of a counter have `_total` behind it.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: FamilyKind,
    pub series: Vec<(Labels, f64)>,
}

impl Family {
    pub(super) fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: FamilyKind::Counter, series: Vec::new() }
    }

    pub(super) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: FamilyKind::Gauge, series: Vec::new() }
    }

    /// Adds a series, if its value is known.
    pub(super) fn push(&mut self, labels: Labels, value: Option<f64>) {
        self.series.extend(value.map(|value| (labels, value)));
    }

    /// Returns this family with one series without labels, if its value is known.
    pub(super) fn only(mut self, value: Option<f64>) -> Self {
        self.push(Vec::new(), value);
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let kind = match self.kind {
            FamilyKind::Counter => MetricType::Counter,
            FamilyKind::Gauge => MetricType::Gauge,
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        let encode = |one: MetricEncoder, value: f64| match self.kind {
            FamilyKind::Counter => ConstCounter::new(value).encode(one),
            FamilyKind::Gauge => ConstGauge::new(value).encode(one),
        };
        for (labels, value) in &self.series {
            if labels.is_empty() {
                // With a family of labels there would be empty braces.
                return encode(family, *value);
            }
            encode(family.encode_family(labels)?, *value)?;
        }
        Ok(())
    }
}

/// A histogram without labels: upper limits in seconds and counts by class, and the sum of all durations.
#[derive(Clone, Debug)]
pub(super) struct HistogramFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub classes: Vec<(f64, u64)>,
    pub sum: f64,
}

/// All families.
#[derive(Clone, Debug, Default)]
pub(super) struct Exposition {
    pub families: Vec<Family>,
    pub histograms: Vec<HistogramFamily>,
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in self.families.iter().filter(|family| !family.series.is_empty()) {
            family.encode(&mut encoder)?;
        }
        for one in &self.histograms {
            let mut family = encoder.encode_descriptor(one.name, one.help, None, MetricType::Histogram)?;
            let count = one.classes.iter().map(|(_, count)| count).sum();
            family.encode_histogram::<NoLabelSet>(one.sum, count, &one.classes, None)?;
        }
        Ok(())
    }
}

impl Exposition {
    /// Returns the text in the `OpenMetrics` format.
    pub(super) fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut written = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut written, &registry);
        written
    }
}
