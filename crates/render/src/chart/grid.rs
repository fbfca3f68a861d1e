//! A square grid of cells, one for each pair of items, coloured by a value.
//!
//! Each cell has a tooltip. Larger machines are shown as a [`crate::chart::CellBlock`] of groups.

use crate::chart::{WIDTH, at, block::legend, line, svg, text};
use maud::{Markup, html};

const LEFT: f64 = 40.0;
const TOP: f64 = 22.0;
const RIGHT: f64 = 8.0;
const FOOT: f64 = 40.0;

/// Number of colours of the scale: classes `v0` (near) to `v15` (far) of the style sheet.
pub const SHADES: usize = 16;

/// Maximum number of items for which the cells contain their values.
const MAX_ITEMS_WITH_TEXT: usize = 16;

/// Maximum number of items of a grid. More are shown as a [`crate::chart::CellBlock`] of groups.
pub const MAX_ITEMS: usize = 64;

/// Maximum side of a cell: few figures are no reason for large areas of colour.
const MAX_STEP: f64 = 48.0;

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

impl Cell {
    pub(super) fn shade(&self) -> usize {
        ((self.share.clamp(0.0, 1.0) * SHADES as f64) as usize).min(SHADES - 1)
    }

    /// Returns the class of text that is readable on the cell's colour.
    pub(super) fn tone(&self) -> &'static str {
        if self.shade() < SHADES / 2 - 1 { "bright" } else { "dark" }
    }
}

impl PairMatrix<'_> {
    /// Draws the grid.
    pub fn draw(&self) -> Markup {
        let (side, step) = (self.side(), self.step());
        let place = format!("translate({} {}) scale({})", at(LEFT), at(TOP), (step * 1e4).round() / 1e4);
        let inside = html! {
            rect class="empty" x=(at(LEFT)) y=(at(TOP)) width=(at(side)) height=(at(side)) {}
            g transform=(place) shape-rendering="crispEdges" {
                (self.single())
            }
            @for &(before, width) in &self.lines { (self.rule(before, width)) }
            @if self.names.len() <= MAX_ITEMS_WITH_TEXT { (self.words()) }
            (self.axes())
            (legend(&self.scale, LEFT, TOP + side + 8.0))
        };
        svg(self.id, self.label, TOP + side + FOOT, &inside)
    }

    fn step(&self) -> f64 {
        ((WIDTH - LEFT - RIGHT) / self.names.len().max(1) as f64).min(MAX_STEP)
    }

    /// Length of the sides.
    fn side(&self) -> f64 {
        self.step() * self.names.len().max(1) as f64
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

    /// Draws a horizontal and a vertical line.
    fn rule(&self, before: usize, width: f64) -> Markup {
        let (near, end) = (before as f64 * self.step(), self.side());
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
                    @for (column, row) in [(cell.column, cell.row), (cell.row, cell.column)] {
                        (text(middle(column, LEFT), middle(row, TOP) + 4.0, "middle", cell.tone(), &cell.words))
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
            scale: ["1 ns", "2 ns", "4 ns"].map(str::to_owned),
        };
        grid.draw().into_string()
    }

    #[test]
    fn cells_of_small_grids_say_their_value() {
        let drawn = grid(4, |_, _| 0.5);
        assert!(drawn.contains("<title>0-3: 48 ns</title>"));
        assert_eq!(drawn.matches(">48<").count(), 12, "on both sides of the diagonal");
        assert!(!grid(40, |_, _| 0.5).contains(">48<"));
    }
}
