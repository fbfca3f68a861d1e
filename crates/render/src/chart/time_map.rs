//! A map of rows over time: one row for each CPU or group of CPUs, coloured by a share.

use crate::chart::{TimeAxis, WIDTH, at, block, line, shortened, svg, text};
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
/// Space for the axis of time and its name.
const AXIS: f64 = 44.0;
const FOOT: f64 = 36.0;
/// Height of all rows, within which each has from [`LEAST`] to [`MOST`].
const BODY: f64 = 200.0;
const LEAST: f64 = 3.0;
const MOST: f64 = 22.0;
/// Least distance of names.
const NAME: f64 = 13.0;

/// Rows over time.
pub struct TimeMap<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// The axis of time.
    pub time: &'a TimeAxis,
    /// Names of the rows, from the top.
    pub names: Vec<String>,
    /// Number of columns. A row may have fewer.
    pub columns: usize,
    /// The cells of each row, from 0 to 1; not a number where nothing is known.
    pub rows: Vec<Vec<f64>>,
    /// Rows before which a line is drawn.
    pub lines: Vec<usize>,
    /// Texts for the smallest, middle and largest value of the colours.
    pub scale: [String; 3],
}

impl TimeMap<'_> {
    /// Draws the map.
    pub fn draw(&self) -> Markup {
        let count = self.rows.len().max(1);
        let step = (BODY / count as f64).clamp(LEAST, MOST);
        let tall = step * count as f64;
        let columns = self.columns.max(1);
        let wide = WIDTH - LEFT - RIGHT;
        let scale = |value: f64| (value * 1e5).round() / 1e5;
        let place = format!(
            "translate({} {}) scale({} {})",
            at(LEFT),
            at(TOP),
            scale(wide / columns as f64),
            scale(step)
        );
        let every = (NAME / step).ceil() as usize;
        let inside = html! {
            rect class="empty" x=(at(LEFT)) y=(at(TOP)) width=(at(wide)) height=(at(tall)) {}
            g transform=(place) shape-rendering="crispEdges" {
                g transform="translate(0 .5)" fill="none" stroke-width="1" {
                    @for (shade, path) in self.runs().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                        path class={ "v" (shade) } stroke="currentColor" d=(PreEscaped(path)) {}
                    }
                }
            }
            @for &before in &self.lines {
                @let y = TOP + before as f64 * step;
                g stroke-width="1" { (line("rule", (LEFT, y), (LEFT + wide, y))) }
            }
            @for (row, name) in self.names.iter().enumerate().step_by(every) {
                (text(LEFT - 6.0, TOP + (row as f64 + 0.5) * step + 4.0, "end", "small soft", &shortened(name, 9)))
            }
            (self.time.draw((LEFT, LEFT + wide), TOP + tall))
            (block::legend(&self.scale, TOP + tall + AXIS))
        };
        svg(self.id, self.label, TOP + tall + AXIS + FOOT, &inside)
    }

    /// Returns the path of each shade, made of its runs of adjacent cells.
    fn runs(&self) -> [String; block::SHADES] {
        let mut paths = [const { String::new() }; block::SHADES];
        for (row, cells) in self.rows.iter().enumerate() {
            let mut column = 0;
            for run in cells.chunk_by(|a, b| block::shade(*a) == block::shade(*b) && a.is_nan() == b.is_nan())
            {
                if !run[0].is_nan() {
                    // Writing to a string cannot fail.
                    let _ = write!(paths[block::shade(run[0])], "M{column} {row}h{}", run.len());
                }
                column += run.len();
            }
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: Vec<Vec<f64>>) -> String {
        let columns = rows.first().map_or(0, Vec::len);
        let names = (0..rows.len()).map(|row| row.to_string()).collect();
        let scale = ["0 %", "50 %", "100 %"].map(str::to_owned);
        let map = TimeMap {
            id: "m",
            label: "map",
            time: &TimeAxis { name: "s".to_owned(), length: 90.0, ticks: Vec::new() },
            names,
            columns,
            rows,
            lines: vec![2],
            scale,
        };
        map.draw().into_string()
    }

    #[test]
    fn cells_of_one_shade_are_one_run_and_unknown_ones_are_empty() {
        let text = drawn(vec![vec![0.0, 0.01, f64::NAN, f64::NAN, 1.0], vec![0.5; 5]]);
        assert!(
            text.contains("\"M0 0h2\"") && text.contains("\"M4 0h1\"") && text.contains("\"M0 1h5\""),
            "{text}"
        );
        assert!(!text.contains("NaN"), "{text}");
        drawn(Vec::new());
    }

    #[test]
    fn many_rows_have_a_limited_size() {
        let rows = (0..320).map(|row| (0..240).map(|column| f64::from((row * column) % 16) / 16.0).collect());
        let size = drawn(rows.collect()).len();
        assert!(size < 1_200_000, "{size}");
    }
}
