//! Distributions of ratios: one strip of points for each comparison, or a histogram where there are many, with the
//! estimate and its interval below.

use crate::chart::{Axis, WIDTH, at, colour, line, rect, shortened, small_width, span, svg, text};
use maud::{Markup, html};

const LEFT: f64 = 10.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 4.0;
/// Space for the name and the figures of a strip.
const HEADING: f64 = 20.0;
/// Height of the points.
const BODY: f64 = 34.0;
/// Space for the interval.
const FOOT: f64 = 18.0;
const AXIS: f64 = 40.0;
const RADIUS: f64 = 2.2;
/// Width of a column of points, and of a bar of a histogram.
const COLUMN: f64 = 4.8;

/// Ratio between the ends from which an axis is logarithmic.
const MIN_LOGARITHMIC: f64 = 3.0;

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
        let across = |value: f64| LEFT + axis.position(value).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
        let step = HEADING + BODY + FOOT;
        let bottom = TOP + step * self.strips.len() as f64;
        let bodies: Vec<f64> =
            (0..self.strips.len()).map(|index| TOP + HEADING + step * index as f64).collect();
        let inside = html! {
            @for &y in &bodies {
                @if let Some(margin) = self.margin {
                    @let (from, to) = (across(1.0 / (1.0 + margin)), across(1.0 + margin));
                    (rect("zone", (from, y), (to - from, BODY + FOOT - 4.0), 1.0))
                }
                @for &tick in axis.ticks() {
                    (line("grid", (across(tick), y), (across(tick), y + BODY + FOOT - 4.0)))
                }
                (line("equal", (across(1.0), y), (across(1.0), y + BODY + FOOT - 4.0)))
            }
            @for (strip, &y) in self.strips.iter().zip(&bodies) {
                (strip.heading(y))
                g class=(colour(strip.colour)) { (strip.shape(y, across)) (strip.interval(y + BODY + 7.0, across)) }
            }
            (line("axis", (LEFT, bottom), (WIDTH - RIGHT, bottom)))
            @for &tick in axis.ticks() {
                @let label = axis.label(tick);
                @let half = small_width(&label) / 2.0;
                (line("axis", (across(tick), bottom), (across(tick), bottom + 4.0)))
                (text(across(tick).clamp(half, WIDTH - half), bottom + 16.0, "middle", "small soft", &label))
            }
            (text(WIDTH / 2.0, bottom + 32.0, "middle", "small soft", self.axis_name))
        };
        svg(self.id, self.label, bottom + AXIS, &inside)
    }

    fn axis(&self) -> Axis {
        let strips = || self.strips.iter();
        let ends = strips().filter_map(|strip| strip.interval).flat_map(|(low, high)| [low, high]);
        let values: Vec<f64> = strips()
            .flat_map(|strip| strip.values.iter().copied().chain([strip.estimate]))
            .chain(ends)
            .chain([1.0])
            .filter(|value| value.is_finite() && *value > 0.0)
            .collect();
        let (low, high) =
            values.iter().fold((1.0_f64, 1.0_f64), |(low, high), &value| (low.min(value), high.max(value)));
        if high / low > MIN_LOGARITHMIC { Axis::log2(values) } else { Axis::linear(values, &[], 5.0) }
    }
}

impl Strip {
    fn heading(&self, y: f64) -> Markup {
        let left = WIDTH - LEFT - RIGHT - small_width(&self.words) - 12.0;
        // Names are set in the larger text.
        let most = (left / small_width("0") * 0.9).max(4.0) as usize;
        html! {
            (text(LEFT, y - 7.0, "start", "", &shortened(&self.name, most)))
            (text(WIDTH - RIGHT, y - 7.0, "end", "small soft", &self.words))
        }
    }

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
