//! Rows below each other on one horizontal axis: each has a heading and a body.

use crate::chart::{Axis, TimeAxis, WIDTH, line, shortened, small_width, text};
use maud::{Markup, html};

const TOP: f64 = 4.0;
const RIGHT: f64 = 10.0;
/// Space for the heading of a row.
const HEADING: f64 = 20.0;
/// Space for the horizontal axis and its name.
const AXIS: f64 = 40.0;

/// The layout of a chart of rows.
pub(super) struct Rows {
    /// Space to the left of the bodies.
    pub(super) left: f64,
    /// Height of a body.
    pub(super) body: f64,
    /// Space below a body.
    pub(super) foot: f64,
    /// Number of rows.
    pub(super) count: usize,
}

impl Rows {
    /// Returns the upper end of the body of each row.
    pub(super) fn tops(&self) -> Vec<f64> {
        (0..self.count).map(|index| TOP + HEADING + self.step() * index as f64).collect()
    }

    /// Returns the height of the drawing.
    pub(super) fn height(&self) -> f64 {
        self.bottom() + AXIS
    }

    /// Returns the horizontal ends of the bodies.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.left, WIDTH - RIGHT)
    }

    /// Returns the horizontal place of a value.
    pub(super) fn across(&self, axis: &Axis, value: f64) -> f64 {
        let (left, right) = self.ends();
        left + axis.position(value).clamp(0.0, 1.0) * (right - left)
    }

    /// Returns the vertical place of a value in the row whose body begins at `y`.
    pub(super) fn up(&self, axis: &Axis, y: f64, value: f64) -> f64 {
        y + self.body * (1.0 - axis.position(value).clamp(0.0, 1.0))
    }

    /// Draws the vertical axis of the row whose body begins at `y`.
    pub(super) fn vertical_axis(&self, axis: &Axis, y: f64) -> Markup {
        let (left, right) = self.ends();
        html! {
            @for &tick in axis.ticks() {
                @let here = self.up(axis, y, tick);
                (line("grid", (left, here), (right, here)))
                (text(left - 6.0, here + 4.0, "end", "small soft", &axis.label(tick)))
            }
        }
    }

    /// Draws the heading of the row whose body begins at `y`: a name, and to the right of it figures in words.
    pub(super) fn heading(&self, y: f64, name: &str, words: &str) -> Markup {
        let left = WIDTH - 2.0 * RIGHT - small_width(words) - 12.0;
        // Names are set in the larger text.
        let most = (left / small_width("0") * 0.9).max(4.0) as usize;
        html! {
            (text(self.left.min(RIGHT), y - 7.0, "start", "", &shortened(name, most)))
            (text(WIDTH - RIGHT, y - 7.0, "end", "small soft", words))
        }
    }

    /// Draws the horizontal axis and its name below all rows.
    pub(super) fn axis(&self, axis: &Axis, name: &str) -> Markup {
        let ((left, right), bottom) = (self.ends(), self.bottom());
        html! {
            (line("axis", (left, bottom), (right, bottom)))
            @for &tick in axis.ticks() {
                @let (x, label) = (self.across(axis, tick), axis.label(tick));
                @let half = small_width(&label) / 2.0;
                (line("axis", (x, bottom), (x, bottom + 4.0)))
                (text(x.clamp(half, WIDTH - half), bottom + 16.0, "middle", "small soft", &label))
            }
            (text(WIDTH / 2.0, bottom + 32.0, "middle", "small soft", name))
        }
    }

    /// Draws an axis of time below all rows.
    pub(super) fn time_axis(&self, axis: &TimeAxis) -> Markup {
        let (ends, bottom) = (self.ends(), self.bottom());
        html! {
            (line("axis", (ends.0, bottom), (ends.1, bottom)))
            (axis.draw(ends, bottom))
        }
    }

    fn step(&self) -> f64 {
        HEADING + self.body + self.foot
    }

    fn bottom(&self) -> f64 {
        TOP + self.step() * self.count as f64
    }
}
