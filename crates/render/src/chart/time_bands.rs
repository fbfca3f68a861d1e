//! Courses over time below each other: the area below the mean of each moment, and a line at its maximum.

use crate::chart::{Axis, TimeAxis, at, colour, rows::Rows, svg};
use maud::{Markup, html};

/// Space between the heading and the label of the highest tick.
const INSET: f64 = 5.0;

/// The layout of `count` bands.
fn rows(count: usize) -> Rows {
    Rows { left: 54.0, body: 46.0, foot: 8.0 + INSET, count }
}

/// Courses over time on one horizontal axis. The vertical axis begins at 0.
pub struct TimeBands<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// The axis of time.
    pub time: &'a TimeAxis,
    /// Whether all have the vertical axis of the largest.
    pub is_common: bool,
    /// The courses, from the top.
    pub bands: Vec<TimeBand>,
}

/// One course.
pub struct TimeBand {
    /// Its name.
    pub name: String,
    /// Its figures in words, to the right of the name.
    pub words: String,
    /// Time, mean and maximum of each moment, ascending in time.
    pub points: Vec<(f64, f64, f64)>,
    /// Index of the colour.
    pub colour: usize,
}

impl TimeBands<'_> {
    /// Draws the courses.
    pub fn draw(&self) -> Markup {
        let rows = rows(self.bands.len());
        let common =
            Axis::linear(self.bands.iter().flat_map(TimeBand::drawn).map(|point| point.2), &[0.0], 2.0);
        let inside = html! {
            @for (band, y) in self.bands.iter().zip(rows.tops()) {
                @let own = Axis::linear(band.drawn().map(|point| point.2), &[0.0], 2.0);
                @let axis = if self.is_common { &common } else { &own };
                (rows.vertical_axis(axis, y + INSET))
                (rows.heading(y, &band.name, &band.words))
                g class=(colour(band.colour)) {
                    (band.shape(|time| self.time.across(rows.ends(), time), |value| rows.up(axis, y + INSET, value)))
                }
            }
            (rows.time_axis(self.time))
        };
        svg(self.id, self.label, rows.height(), &inside)
    }
}

impl TimeBand {
    fn drawn(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let is_finite =
            |point: &&(f64, f64, f64)| [point.0, point.1, point.2].iter().all(|value| value.is_finite());
        self.points.iter().filter(is_finite).copied()
    }

    fn shape(&self, across: impl Fn(f64) -> f64, up: impl Fn(f64) -> f64) -> Markup {
        let points: Vec<(f64, f64, f64)> = self.drawn().collect();
        let [Some(first), Some(last)] = [points.first(), points.last()] else { return html! {} };
        let corner = |time: f64, value: f64| format!("{},{}", at(across(time)), at(up(value)));
        let means = points.iter().map(|point| corner(point.0, point.1));
        let area: Vec<String> =
            [corner(first.0, 0.0)].into_iter().chain(means).chain([corner(last.0, 0.0)]).collect();
        let largest: Vec<String> = points.iter().map(|point| corner(point.0, point.2)).collect();
        html! {
            polygon class="bar" points=(area.join(" ")) {}
            polyline class="whisker" stroke-opacity="0.55" points=(largest.join(" ")) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_course_has_an_area_and_a_line() {
        let points = vec![(0.0, 1.0, 2.0), (1.0, f64::NAN, 2.0), (2.0, 0.5, 0.5)];
        let band = |points| TimeBand { name: "a".to_owned(), words: "b".to_owned(), points, colour: 1 };
        let bands = vec![band(points), band(Vec::new())];
        let time = TimeAxis { name: "s".to_owned(), length: 2.0, ticks: Vec::new() };
        let chart = TimeBands { id: "t", label: "l", time: &time, is_common: true, bands };
        let text = chart.draw().into_string();
        assert_eq!((text.matches("<polygon").count(), text.matches("<polyline").count()), (1, 1));
        assert!(!text.contains("NaN"), "{text}");
    }
}
