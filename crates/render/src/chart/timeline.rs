//! Values in the order in which they were taken: one strip for each series, below each other, on the same axes.

use crate::chart::{Axis, WIDTH, at, colour, line, rows::Rows, svg};
use maud::{Markup, html};

const RADIUS: f64 = 2.2;
/// Width of a column of points that are drawn as one range.
const COLUMN: f64 = 2.0;

/// Most points of a strip that are drawn one by one.
const MAX_POINTS: usize = 600;

/// The layout of `count` strips.
fn rows(count: usize) -> Rows {
    Rows { left: 54.0, body: 64.0, foot: 10.0, count }
}

/// Strips of values over time.
pub struct Timeline<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Name of the axis of time.
    pub x_name: &'a str,
    /// The strips, from the top.
    pub strips: Vec<TimeStrip>,
}

/// One series.
pub struct TimeStrip {
    /// Its name.
    pub name: String,
    /// What it shows, in words, to the right of the name.
    pub words: String,
    /// Time and value of each point.
    pub points: Vec<(f64, f64)>,
    /// Index of the colour.
    pub colour: usize,
}

impl Timeline<'_> {
    /// Draws the strips.
    pub fn draw(&self) -> Markup {
        let rows = rows(self.strips.len());
        let points =
            || self.strips.iter().flat_map(|strip| &strip.points).filter(|(_, value)| value.is_finite());
        let values: Vec<f64> = points().map(|point| point.1).collect();
        let across_axis = Axis::linear(points().map(|point| point.0), &[], 6.0);
        let value_axis = Axis::fitting(&values, 3.0);
        let inside = html! {
            @for (strip, y) in self.strips.iter().zip(rows.tops()) {
                @let up = |value: f64| rows.up(&value_axis, y, value);
                (rows.vertical_axis(&value_axis, y))
                (rows.heading(y, &strip.name, &strip.words))
                g class=(colour(strip.colour)) { (strip.shape(|time| rows.across(&across_axis, time), up)) }
            }
            (rows.axis(&across_axis, self.x_name))
        };
        svg(self.id, self.label, rows.height(), &inside)
    }
}

impl TimeStrip {
    /// Draws the points; where they are many, the range of those in one column.
    fn shape(&self, across: impl Fn(f64) -> f64, up: impl Fn(f64) -> f64) -> Markup {
        let points = self.points.iter().filter(|(time, value)| time.is_finite() && value.is_finite());
        let places: Vec<(f64, f64)> = points.map(|&(time, value)| (across(time), up(value))).collect();
        if places.len() <= MAX_POINTS {
            return html! {
                @for (x, y) in places { circle class="point" cx=(at(x)) cy=(at(y)) r=(at(RADIUS)) {} }
            };
        }
        let columns = (WIDTH / COLUMN).ceil() as usize + 1;
        let mut ranges = vec![(f64::INFINITY, f64::NEG_INFINITY); columns];
        for (x, y) in places {
            let range = &mut ranges[(x / COLUMN) as usize];
            *range = (range.0.min(y), range.1.max(y));
        }
        html! {
            @for (column, (top, bottom)) in ranges.into_iter().enumerate().filter(|(_, range)| range.0 <= range.1) {
                @let x = (column as f64 + 0.5) * COLUMN;
                (line("whisker", (x, top - 0.5), (x, bottom + 0.5)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: Vec<(f64, f64)>) -> String {
        let strip = TimeStrip { name: "A".to_owned(), words: "12 runs".to_owned(), points, colour: 0 };
        Timeline { id: "time", label: "runs", x_name: "seconds", strips: vec![strip] }.draw().into_string()
    }

    #[test]
    fn each_run_is_a_point_in_its_place() {
        let text = drawn((0..30).map(|n| (f64::from(n), 1.0 + f64::from(n % 3) / 10.0)).collect());
        assert_eq!(text.matches("class=\"point\"").count(), 30);
    }

    #[test]
    fn many_runs_are_ranges_of_limited_size() {
        let text = drawn((0..50_000).map(|n| (f64::from(n), 1.0 + f64::from(n % 7))).collect());
        assert_eq!(text.matches("class=\"point\"").count(), 0);
        assert!(text.len() < 40_000, "{}", text.len());
    }

    #[test]
    fn values_that_are_not_numbers_are_left_out() {
        let text = drawn(vec![(0.0, f64::NAN), (1.0, f64::INFINITY), (2.0, 0.0), (3.0, 900.0)]);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert_eq!(text.matches("class=\"point\"").count(), 2);
        drawn(Vec::new());
    }
}
