//! SVG drawing: axes, lines with intervals, bars, and maps of cells. Independent of evaluations.

mod axis;
mod bars;
mod block;
mod course;
mod labels;
mod lines;
mod map;
mod rows;
mod strip;
mod time_axis;
mod time_bands;
mod time_map;
mod timeline;

pub use axis::Axis;
pub use bars::{Bar, BarChart, Group};
pub use block::{BlockLink, Cell, CellBlock, MAX_ITEMS};
pub use course::{Course, CourseChart, CoursePoint};
pub use lines::{LineChart, Mark, Point, Series, Style, legend_sample};
pub use map::{HeatMap, HeatRow};
pub use strip::{Strip, StripChart};
pub use time_axis::TimeAxis;
pub use time_bands::{TimeBand, TimeBands};
pub use time_map::TimeMap;
pub use timeline::{TimeStrip, Timeline};

use maud::{Markup, html};

/// Width of every drawing in its own units. A drawing is scaled to the page, including its text.
pub const WIDTH: f64 = 440.0;

/// Width of a character of the smaller text, on average. Digits and letters of usual fonts are no wider.
const SMALL_CHARACTER: f64 = 6.4;

/// Number of colours before they repeat. Marks repeat with another period, so both together distinguish
/// many series.
const COLOURS: usize = 6;

/// Returns the class of the colour of series `index`.
pub fn colour(index: usize) -> String {
    format!("s{}", index % COLOURS)
}

/// Formats a coordinate without invisible digits.
fn at(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    if rounded.is_finite() { rounded.to_string() } else { "0".to_owned() }
}

/// Returns the `svg` element around a drawing. `label` describes the drawing for screen readers.
fn svg(id: &str, label: &str, height: f64, inside: &Markup) -> Markup {
    html! {
        svg id=(id) role="img" aria-labelledby={ (id) "-title" } xmlns="http://www.w3.org/2000/svg"
            viewBox={ "0 0 " (at(WIDTH)) " " (at(height)) } {
            title id={ (id) "-title" } { (label) }
            (inside)
        }
    }
}

/// Returns the width of a small text. It is an upper estimate: the drawing does not know the font.
fn small_width(words: &str) -> f64 {
    words.chars().count() as f64 * SMALL_CHARACTER
}

/// Returns the label of a tick below an axis, which does not go beyond the right edge.
fn tick_label(x: f64, y: f64, words: &str) -> Markup {
    let half = small_width(words) * 1.15 / 2.0;
    text(x.min(WIDTH - half), y, "middle", "soft", words)
}

/// Returns a text whose anchor is `start`, `middle` or `end`.
fn text(x: f64, y: f64, anchor: &str, class: &str, words: &str) -> Markup {
    html! { text x=(at(x)) y=(at(y)) text-anchor=(anchor) class=(class) { (words) } }
}

/// Returns a straight line.
fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    html! { line class=(class) x1=(at(from.0)) y1=(at(from.1)) x2=(at(to.0)) y2=(at(to.1)) {} }
}

/// Returns a horizontal interval from `low` to `high` at the height `y`, whose ends are marked. The classes are those of
/// the line and of its ends.
fn span(classes: [&str; 2], (low, high): (f64, f64), y: f64, half_height: f64) -> Markup {
    html! {
        (line(classes[0], (low, y), (high, y)))
        @for end in [low, high] { (line(classes[1], (end, y - half_height), (end, y + half_height))) }
    }
}

/// Returns a rectangle.
fn rect(class: &str, corner: (f64, f64), size: (f64, f64), opacity: f64) -> Markup {
    html! {
        rect class=(class) x=(at(corner.0)) y=(at(corner.1)) width=(at(size.0.max(0.0)))
            height=(at(size.1.max(0.0))) fill-opacity=(at(opacity)) {}
    }
}

/// Shortens `words` to at most `most` characters.
fn shortened(words: &str, most: usize) -> String {
    if words.chars().count() <= most {
        return words.to_owned();
    }
    words.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_the_last_tick_is_not_cut() {
        let place = |words: &str| tick_label(WIDTH - 8.0, 9.0, words).into_string();
        assert!(place("10").contains("x=\"432\""), "{}", place("10"));
        assert!(place("100000").contains("x=\"417.92\""), "{}", place("100000"));
    }
}
