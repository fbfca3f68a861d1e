//! A square grid of cells, one for each pair of items, coloured by a value.
//!
//! Adjacent cells of one colour are drawn as one line, and one half of the square is mirrored. A grid of
//! 256 x 256 different values then takes about 250 kB; a rectangle for each cell would take 5 MB.

use crate::chart::{WIDTH, at, line, svg, text};
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

const LEFT: f64 = 40.0;
const TOP: f64 = 22.0;
const RIGHT: f64 = 8.0;
const FOOT: f64 = 40.0;

/// Number of colours of the scale: classes `v0` (near) to `v15` (far) of the style sheet.
pub const SHADES: usize = 16;

/// Maximum number of items for which the cells contain their values.
const MAX_ITEMS_WITH_TEXT: usize = 16;

/// Maximum number of items for which each cell has a tooltip. Larger grids have tooltips for fields.
pub const TITLES: usize = 64;

/// Maximum number of names along an axis.
const MAX_AXIS_NAMES: usize = 20;

/// A grid that is symmetric about its diagonal.
pub struct PairMatrix<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Names of the items, in order.
    pub names: Vec<String>,
    /// Cells below the diagonal. Missing cells stay empty.
    pub cells: Vec<Cell>,
    /// Lines: the item before which a line is drawn, and its width.
    pub lines: Vec<(usize, f64)>,
    /// Fields of a large grid, as ranges of items with a tooltip.
    pub fields: Vec<TooltipArea>,
    /// Texts for the smallest, middle and largest value of the colours.
    pub scale: [String; 3],
}

/// The value of a pair of items.
pub struct Cell {
    /// The row; larger than the column.
    pub row: usize,
    /// The column.
    pub column: usize,
    /// Position on the scale: 0 (near) to 1 (far).
    pub share: f64,
    /// The value, short.
    pub words: String,
    /// The pair and its value, for the tooltip.
    pub title: String,
}

/// A rectangle of cells.
pub struct TooltipArea {
    /// First row, and the row after the last.
    pub rows: (usize, usize),
    /// First column, and the column after the last.
    pub columns: (usize, usize),
    /// The tooltip.
    pub title: String,
}

impl Cell {
    fn shade(&self) -> usize {
        ((self.share.clamp(0.0, 1.0) * SHADES as f64) as usize).min(SHADES - 1)
    }
}

impl PairMatrix<'_> {
    /// Draws the grid.
    pub fn draw(&self) -> Markup {
        let side = WIDTH - LEFT - RIGHT;
        let step = self.step();
        let place = format!("translate({} {}) scale({})", at(LEFT), at(TOP), (step * 1e4).round() / 1e4);
        let inside = html! {
            rect class="empty" x=(at(LEFT)) y=(at(TOP)) width=(at(side)) height=(at(side)) {}
            g transform=(place) shape-rendering="crispEdges" {
                @if self.names.len() <= TITLES { (self.single()) } @else { (self.joined()) }
            }
            @for &(before, width) in &self.lines { (self.rule(before, width)) }
            @if self.names.len() <= MAX_ITEMS_WITH_TEXT { (self.words()) }
            (self.axes())
            (self.legend(TOP + side + 8.0))
            g transform=(place) { @for field in &self.fields { (over(field)) } }
        };
        svg(self.id, self.label, TOP + side + FOOT, &inside)
    }

    fn step(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.names.len().max(1) as f64
    }

    /// Draws a square for each cell and its mirror image, each with a tooltip.
    fn single(&self) -> Markup {
        html! {
            g class="filled" {
                @for cell in &self.cells {
                    path class={ "v" (cell.shade()) }
                        d={ "M" (cell.column) " " (cell.row) "h1v1h-1zM" (cell.row) " " (cell.column) "h1v1h-1z" } {
                        title { (cell.title) }
                    }
                }
            }
        }
    }

    /// Draws one path for each shade, made of lines along rows, and mirrors it for the other half.
    fn joined(&self) -> Markup {
        let name = format!("{}-half", self.id);
        html! {
            // Uses attributes, because style sheet rules for descendants do not apply inside a `use`
            // element.
            g id=(name) transform="translate(0 .5)" fill="none" stroke-width="1" {
                @for (shade, path) in self.runs().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                    path class={ "v" (shade) } stroke="currentColor" d=(PreEscaped(path)) {}
                }
            }
            use href={ "#" (name) } transform="matrix(0 1 1 0 0 0)" {}
        }
    }

    /// Returns the path of each shade, made of its runs of adjacent cells.
    fn runs(&self) -> [String; SHADES] {
        let mut cells: Vec<(usize, usize, usize)> =
            self.cells.iter().map(|cell| (cell.row, cell.column, cell.shade())).collect();
        cells.sort_unstable();
        let mut paths = [const { String::new() }; SHADES];
        let runs = cells.chunk_by(|one, next| one.0 == next.0 && one.1 + 1 == next.1 && one.2 == next.2);
        for run in runs {
            let (row, column, shade) = run[0];
            // Writing to a string cannot fail.
            let _ = write!(paths[shade], "M{column} {row}h{}", run.len());
        }
        paths
    }

    /// Draws a horizontal and a vertical line.
    fn rule(&self, before: usize, width: f64) -> Markup {
        let (near, end) = (before as f64 * self.step(), WIDTH - LEFT - RIGHT);
        let (x, y) = (LEFT + near, TOP + near);
        html! {
            g stroke-width=(at(width)) {
                (line("rule", (x, TOP), (x, TOP + end)))
                (line("rule", (LEFT, y), (LEFT + end, y)))
            }
        }
    }

    fn words(&self) -> Markup {
        let middle = |index: usize, start: f64| start + (index as f64 + 0.5) * self.step();
        html! {
            g class="values" {
                @for cell in &self.cells {
                    @let class = if cell.shade() < SHADES / 2 + 1 { "bright" } else { "dark" };
                    @for (column, row) in [(cell.column, cell.row), (cell.row, cell.column)] {
                        (text(middle(column, LEFT), middle(row, TOP) + 4.0, "middle", class, &cell.words))
                    }
                }
            }
        }
    }

    fn axes(&self) -> Markup {
        let every = self.names.len().div_ceil(MAX_AXIS_NAMES).next_power_of_two();
        let shown = || self.names.iter().enumerate().step_by(every);
        let middle = |index: usize, start: f64| start + (index as f64 + 0.5) * self.step();
        html! {
            @for (index, name) in shown() {
                (text(middle(index, LEFT), TOP - 6.0, "middle", "small soft", name))
                (text(LEFT - 6.0, middle(index, TOP) + 4.0, "end", "small soft", name))
            }
        }
    }

    fn legend(&self, y: f64) -> Markup {
        let each = 12.0;
        let from = LEFT + 70.0;
        let end = from + each * SHADES as f64;
        html! {
            (text(from - 6.0, y + 12.0, "end", "small soft", &self.scale[0]))
            g class="filled" {
                @for shade in 0..SHADES {
                    rect class={ "v" (shade) } x=(at(from + each * shade as f64)) y=(at(y)) width=(at(each)) height="14" {}
                }
            }
            (text(end + 6.0, y + 12.0, "start", "small soft", &self.scale[2]))
            (text(f64::midpoint(from, end), y + 24.0, "middle", "small soft", &self.scale[1]))
        }
    }
}

/// Draws an invisible field with a tooltip, and its mirror image.
fn over(field: &TooltipArea) -> Markup {
    let ((top, bottom), (left, right)) = (field.rows, field.columns);
    let area = |x: (usize, usize), y: (usize, usize)| format!("M{} {}H{}V{}H{}z", x.0, y.0, x.1, y.1, x.0);
    html! {
        path class="over-all" d={ (area((left, right), (top, bottom))) (area((top, bottom), (left, right))) } {
            title { (field.title) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(count: usize, share: impl Fn(usize, usize) -> f64) -> String {
        let cells = (1..count).flat_map(|row| (0..row).map(move |column| (row, column)));
        let cell = |(row, column)| Cell {
            row,
            column,
            share: share(row, column),
            words: "48".to_owned(),
            title: format!("{column}-{row}: 48 ns"),
        };
        let grid = PairMatrix {
            id: "grid",
            label: "a grid",
            names: (0..count).map(|name| name.to_string()).collect(),
            cells: cells.map(cell).collect(),
            lines: vec![(count / 2, 1.0)],
            fields: Vec::new(),
            scale: ["1 ns", "2 ns", "4 ns"].map(str::to_owned),
        };
        grid.draw().into_string()
    }

    #[test]
    fn neighbours_of_one_colour_are_one_run() {
        let drawn = grid(100, |row, _| if row < 50 { 0.0 } else { 1.0 });
        assert!(drawn.contains("M0 99h99"), "{drawn}");
        assert_eq!(drawn.matches("<path").count(), 2);
        assert!(drawn.len() < 8000, "{}", drawn.len());
    }

    #[test]
    fn the_largest_grid_of_different_values_stays_small() {
        let size = grid(256, |row, column| (row * 7 + column * 13) as f64 % 16.0 / 16.0).len();
        assert!(size < 500_000, "{size}");
    }

    #[test]
    fn cells_of_small_grids_say_their_value() {
        let drawn = grid(4, |_, _| 0.5);
        assert!(drawn.contains("<title>0-3: 48 ns</title>"));
        assert_eq!(drawn.matches(">48<").count(), 12, "on both sides of the diagonal");
        assert!(!grid(40, |_, _| 0.5).contains(">48<"));
    }
}
