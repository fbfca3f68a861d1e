//! Distributions of ratios: one strip of points for each comparison, or a histogram where there are many, with the
//! estimate and its interval below.

use crate::chart::{Axis, WIDTH, at, colour, line, rect, rows::Rows, span, svg};
use maud::{Markup, html};

/// Height of the points.
const BODY: f64 = 34.0;
/// Space below the points, for the interval.
const FOOT: f64 = 18.0;
const RADIUS: f64 = 2.2;
/// Width of a column of points, and of a bar of a histogram.
const COLUMN: f64 = 4.8;

/// Distributions below each other, on one axis.
pub struct StripChart<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Name of the axis.
    pub axis_name: &'a str,
    /// Largest difference from 1 that does not matter, as a share.
    pub margin: Option<f64>,
    /// The distributions.
    pub strips: Vec<Strip>,
}

/// One distribution.
pub struct Strip {
    /// Its name.
    pub name: String,
    /// The ratios, one for each pair.
    pub values: Vec<f64>,
    /// The estimate.
    pub estimate: f64,
    /// The interval of the estimate.
    pub interval: Option<(f64, f64)>,
    /// The figures in words, to the right of the name.
    pub words: String,
    /// Index of the colour.
    pub colour: usize,
}

impl StripChart<'_> {
    /// Draws the chart.
    pub fn draw(&self) -> Markup {
        let axis = self.axis();
        let rows = Rows { left: 10.0, body: BODY, foot: FOOT, count: self.strips.len() };
        let across = |value: f64| rows.across(&axis, value);
        let inside = html! {
            @for &y in &rows.tops() {
                @if let Some(margin) = self.margin {
                    @let (from, to) = (across(1.0 / (1.0 + margin)), across(1.0 + margin));
                    (rect("zone", (from, y), (to - from, BODY + FOOT - 4.0), 1.0))
                }
                @for &tick in axis.ticks() {
                    (line("grid", (across(tick), y), (across(tick), y + BODY + FOOT - 4.0)))
                }
                (line("equal", (across(1.0), y), (across(1.0), y + BODY + FOOT - 4.0)))
            }
            @for (strip, &y) in self.strips.iter().zip(&rows.tops()) {
                (rows.heading(y, &strip.name, &strip.words))
                g class=(colour(strip.colour)) { (strip.shape(y, across)) (strip.interval(y + BODY + 7.0, across)) }
            }
            (rows.axis(&axis, self.axis_name))
        };
        svg(self.id, self.label, rows.height(), &inside)
    }

    fn axis(&self) -> Axis {
        let strips = || self.strips.iter();
        let ends = strips().filter_map(|strip| strip.interval).flat_map(|(low, high)| [low, high]);
        let values: Vec<f64> = strips()
            .flat_map(|strip| strip.values.iter().copied().chain([strip.estimate]))
            .chain(ends)
            .chain([1.0])
            .chain(self.margin.into_iter().flat_map(|margin| [1.0 / (1.0 + margin), 1.0 + margin]))
            .filter(|value| value.is_finite() && *value > 0.0)
            .collect();
        Axis::fitting(&values, 5.0)
    }
}

impl Strip {
    /// Draws the points, stacked where they would overlap, or bars where the stacks do not fit.
    fn shape(&self, y: f64, across: impl Fn(f64) -> f64) -> Markup {
        let columns = (WIDTH / COLUMN).ceil() as usize + 1;
        let mut counts = vec![0_usize; columns];
        let places: Vec<(usize, usize)> = self
            .values
            .iter()
            .filter(|value| value.is_finite())
            .map(|&value| {
                let column = (across(value) / COLUMN) as usize;
                counts[column] += 1;
                (column, counts[column] - 1)
            })
            .collect();
        let highest = counts.iter().copied().max().unwrap_or(0);
        if highest as f64 * COLUMN > BODY {
            return bars(&counts, highest, y);
        }
        let middle = y + BODY / 2.0;
        html! {
            @for (column, nth) in places {
                @let stack = (counts[column] - 1) as f64 / 2.0;
                circle class="point" cx=(at((column as f64 + 0.5) * COLUMN))
                    cy=(at(middle + (nth as f64 - stack) * COLUMN)) r=(at(RADIUS)) {}
            }
        }
    }

    fn interval(&self, y: f64, across: impl Fn(f64) -> f64) -> Markup {
        let here = across(self.estimate);
        html! {
            @if let Some((low, high)) = self.interval {
                (span(["span", "whisker"], (across(low), across(high)), y, 5.0))
            }
            circle class="mark" cx=(at(here)) cy=(at(y)) r="4.5" {}
        }
    }
}

fn bars(counts: &[usize], highest: usize, y: f64) -> Markup {
    html! {
        @for (column, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            @let tall = (BODY * count as f64 / highest as f64).max(1.0);
            (rect("bar", (column as f64 * COLUMN, y + BODY - tall), (COLUMN - 0.6, tall), 0.75))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: Vec<f64>) -> String {
        let strip = Strip {
            name: "B over A".to_owned(),
            values,
            estimate: 1.05,
            interval: Some((1.03, 1.07)),
            words: "1.05 (1.03 to 1.07)".to_owned(),
            colour: 0,
        };
        let chart = StripChart {
            id: "strip",
            label: "ratios",
            axis_name: "B over A",
            margin: Some(0.02),
            strips: vec![strip],
        };
        chart.draw().into_string()
    }

    #[test]
    fn each_pair_is_a_point_and_the_interval_is_marked() {
        let text = drawn((0..30).map(|n| 1.0 + f64::from(n) / 300.0).collect());
        assert_eq!(text.matches("class=\"point\"").count(), 30);
        assert_eq!(text.matches("class=\"whisker\"").count(), 2);
        assert_eq!(text.matches("class=\"zone\"").count(), 1);
    }

    #[test]
    fn many_pairs_are_a_histogram_of_limited_size() {
        let text = drawn((0..50_000).map(|n| 1.0 + f64::from(n % 500) / 3000.0).collect());
        assert_eq!(text.matches("class=\"point\"").count(), 0);
        assert!(text.matches("class=\"bar\"").count() > 20);
        assert!(text.len() < 20_000, "{}", text.len());
    }

    #[test]
    fn values_far_apart_and_values_that_are_not_numbers_are_drawn() {
        let text = drawn(vec![0.01, 1.0, 40.0, f64::NAN, f64::INFINITY, 0.0]);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        drawn(Vec::new());
    }
}
