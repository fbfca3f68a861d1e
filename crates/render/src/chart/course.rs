//! How estimates settled while more was measured: one row for each, with a line and the band of its intervals.

use crate::chart::{Axis, at, colour, line, rows::Rows, svg};
use maud::{Markup, html};

/// The layout of `count` rows.
fn rows(count: usize) -> Rows {
    Rows { left: 54.0, body: 60.0, foot: 10.0, count }
}

/// Estimates of ratios by what was measured so far, below each other: the horizontal axis is common, the vertical one of
/// each row its own.
pub struct CourseChart<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Name of the axis of what was measured.
    pub x_name: &'a str,
    /// The rows, from the top.
    pub courses: Vec<Course>,
}

/// One estimate.
pub struct Course {
    /// Its name.
    pub name: String,
    /// The last estimate in words, to the right of the name.
    pub words: String,
    /// The estimates so far, ascending in what was measured.
    pub points: Vec<CoursePoint>,
    /// Index of the colour.
    pub colour: usize,
}

/// An estimate.
pub struct CoursePoint {
    /// How much was measured.
    pub x: f64,
    /// The ratio.
    pub ratio: f64,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
}

impl CoursePoint {
    fn is_drawable(&self) -> bool {
        let ends = self.interval.map_or([1.0; 2], |(low, high)| [low, high]);
        self.x.is_finite()
            && [self.ratio, ends[0], ends[1]].iter().all(|ratio| ratio.is_finite() && *ratio > 0.0)
    }
}

impl CourseChart<'_> {
    /// Draws the rows.
    pub fn draw(&self) -> Markup {
        let rows = rows(self.courses.len());
        let points = || self.courses.iter().flat_map(Course::drawn);
        let counts: Vec<f64> = points().map(|point| point.x).collect();
        let mut ticks = counts.clone();
        ticks.sort_by(|a, b| b.total_cmp(a));
        let x_axis = Axis::log2_at(&counts, &ticks, 0.08);
        let inside = html! {
            @for (course, y) in self.courses.iter().zip(rows.tops()) {
                @let y_axis = course.axis();
                @let up = |ratio: f64| rows.up(&y_axis, y, ratio);
                @let (left, right) = rows.ends();
                (rows.vertical_axis(&y_axis, y))
                @if (0.0..=1.0).contains(&y_axis.position(1.0)) {
                    (line("equal", (left, up(1.0)), (right, up(1.0))))
                }
                (rows.heading(y, &course.name, &course.words))
                g class=(colour(course.colour)) { (course.shape(|x| rows.across(&x_axis, x), up)) }
            }
            (rows.axis(&x_axis, self.x_name))
        };
        svg(self.id, self.label, rows.height(), &inside)
    }
}

impl Course {
    fn drawn(&self) -> impl Iterator<Item = &CoursePoint> {
        self.points.iter().filter(|point| point.is_drawable())
    }

    /// Returns the axis of ratios of this row: one for all rows would flatten small ratios.
    fn axis(&self) -> Axis {
        let ends = |point: &CoursePoint| point.interval.into_iter().flat_map(|(low, high)| [low, high]);
        let ratios: Vec<f64> = self.drawn().flat_map(|point| ends(point).chain([point.ratio])).collect();
        Axis::fitting(&ratios, 3.0)
    }

    fn shape(&self, across: impl Fn(f64) -> f64, up: impl Fn(f64) -> f64) -> Markup {
        let place = |(x, ratio): (f64, f64)| format!("{},{}", at(across(x)), at(up(ratio)));
        let line: Vec<String> = self.drawn().map(|point| place((point.x, point.ratio))).collect();
        let ends: Vec<(f64, (f64, f64))> =
            self.drawn().filter_map(|point| Some((point.x, point.interval?))).collect();
        let lower = ends.iter().map(|&(x, (low, _))| place((x, low)));
        let upper = ends.iter().rev().map(|&(x, (_, high))| place((x, high)));
        let band: Vec<String> = lower.chain(upper).collect();
        html! {
            polygon class="band" points=(band.join(" ")) {}
            polyline class="curve" points=(line.join(" ")) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(courses: Vec<Vec<CoursePoint>>) -> String {
        let course =
            |(colour, points)| Course { name: "B".to_owned(), words: "1.05x".to_owned(), points, colour };
        let courses = courses.into_iter().enumerate().map(course).collect();
        CourseChart { id: "course", label: "ratios", x_name: "rounds", courses }.draw().into_string()
    }

    fn points(ratio: f64) -> Vec<CoursePoint> {
        let at = |x: f64| CoursePoint { x, ratio, interval: Some((ratio - 0.6 / x, ratio + 0.6 / x)) };
        [6.0, 12.0, 24.0].map(at).into_iter().collect()
    }

    #[test]
    fn each_row_has_a_line_a_band_and_the_line_of_equality() {
        let text = drawn((0..6).map(|row| points(1.0 + f64::from(row) / 100.0)).collect());
        for class in ["band", "curve", "equal"] {
            assert_eq!(text.matches(&format!("class=\"{class}\"")).count(), 6, "{class}");
        }
        assert!(text.contains(">24</text>") && text.contains(">rounds</text>"), "{text}");
    }

    #[test]
    fn a_large_ratio_does_not_flatten_a_small_one() {
        let text = drawn(vec![points(1.05), points(40.0)]);
        assert!(text.contains(">1.1</text>") && text.contains(">40.0</text>"), "{text}");
        assert_eq!(text.matches("class=\"equal\"").count(), 1, "the second row is far from 1");
    }

    #[test]
    fn values_that_cannot_be_drawn_are_left_out() {
        let broken = |ratio, interval| CoursePoint { x: 6.0, ratio, interval };
        let text = drawn(vec![
            vec![broken(f64::NAN, None), broken(1.0, Some((0.0, f64::INFINITY))), broken(-1.0, None)],
            Vec::new(),
        ]);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        drawn(Vec::new());
    }
}
