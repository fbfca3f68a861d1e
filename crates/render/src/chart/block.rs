//! A rectangle of cells, one for each pair of a row and a column, coloured by a value: all pairs of items, the pairs
//! between two groups of items, or a large grid of groups.
//!
//! Each cell of a small block has a tooltip. In a large one, adjacent cells of one colour are drawn as one line: a block
//! of 80 x 80 different values takes about 60 kB; a rectangle for each cell would take 600 kB.

use crate::chart::{WIDTH, at, line, svg, text};
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

const LEFT: f64 = 44.0;
const TOP: f64 = 22.0;
const RIGHT: f64 = 8.0;
const FOOT: f64 = 40.0;

/// Maximum side of a cell.
const MAX_STEP: f64 = 40.0;

/// Minimum side of a cell that contains its value.
const MIN_STEP_WITH_TEXT: f64 = 22.0;

/// Minimum distance of the names along an axis.
const NAME_STEP: f64 = 26.0;

/// Maximum number of cells that have a tooltip each: those of all pairs of [`MAX_ITEMS`] items.
const MAX_TOOLTIPS: usize = MAX_ITEMS * (MAX_ITEMS - 1) / 2;

/// Maximum number of items whose pairs are shown one by one. The pairs of more items are shown as those of groups.
pub const MAX_ITEMS: usize = 64;

/// Number of colours of the scale: classes `v0` (near) to `v15` (far) of the style sheet.
pub(super) const SHADES: usize = 16;

/// A rectangle of cells.
pub struct CellBlock<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// Names of the columns, from left to right.
    pub columns: Vec<String>,
    /// The cells. Missing ones stay empty.
    pub cells: Vec<Cell>,
    /// Whether each cell has a mirror image beyond the diagonal, which is drawn with it.
    pub is_symmetric: bool,
    /// Lines between rows: the row before which a line is drawn, and its width.
    pub row_lines: Vec<(usize, f64)>,
    /// Lines between columns.
    pub column_lines: Vec<(usize, f64)>,
    /// Rectangles that lead to other places of the page.
    pub links: Vec<BlockLink>,
    /// Texts for the smallest, middle and largest value of the colours.
    pub scale: [String; 3],
}

/// The value of a pair of a row and a column.
pub struct Cell {
    /// The row.
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
    fn shade(&self) -> usize {
        shade(self.share)
    }

    /// Returns the class of text that is readable on the cell's colour.
    fn tone(&self) -> &'static str {
        if self.shade() < SHADES / 2 - 1 { "bright" } else { "dark" }
    }
}

/// A rectangle of cells that leads to another place of the page.
pub struct BlockLink {
    /// First row, and the row after the last.
    pub rows: (usize, usize),
    /// First column, and the column after the last.
    pub columns: (usize, usize),
    /// Id of the place.
    pub target: String,
    /// The tooltip.
    pub title: String,
}

impl CellBlock<'_> {
    /// Draws the block.
    pub fn draw(&self) -> Markup {
        let step = self.step();
        let (wide, tall) = (step * self.columns.len() as f64, step * self.rows.len() as f64);
        let place = format!("translate({} {}) scale({})", at(LEFT), at(TOP), (step * 1e4).round() / 1e4);
        let inside = html! {
            rect class="empty" x=(at(LEFT)) y=(at(TOP)) width=(at(wide)) height=(at(tall)) {}
            g transform=(place) shape-rendering="crispEdges" {
                @if self.cells.len() <= MAX_TOOLTIPS { (self.single()) } @else { (self.joined()) }
            }
            @for &(before, width) in &self.column_lines {
                @let x = LEFT + before as f64 * step;
                g stroke-width=(at(width)) { (line("rule", (x, TOP), (x, TOP + tall))) }
            }
            @for &(before, width) in &self.row_lines {
                @let y = TOP + before as f64 * step;
                g stroke-width=(at(width)) { (line("rule", (LEFT, y), (LEFT + wide, y))) }
            }
            @if step >= MIN_STEP_WITH_TEXT { (self.words()) }
            (self.axes())
            (legend(&self.scale, TOP + tall + 8.0))
            g transform=(place) { @for link in &self.links { (over(link)) } }
        };
        svg(self.id, self.label, TOP + tall + FOOT, &inside)
    }

    fn step(&self) -> f64 {
        let most = self.columns.len().max(self.rows.len()).max(1);
        ((WIDTH - LEFT - RIGHT) / most as f64).min(MAX_STEP)
    }

    /// Returns the places of a cell, as row and column: its own, and that of its mirror image.
    fn places(&self, cell: &Cell) -> impl Iterator<Item = (usize, usize)> + use<> {
        let mirrored = (self.is_symmetric && cell.row != cell.column).then_some((cell.column, cell.row));
        std::iter::once((cell.row, cell.column)).chain(mirrored)
    }

    /// Draws a square for each place of a cell, with a tooltip.
    fn single(&self) -> Markup {
        html! {
            g class="filled" {
                @for cell in &self.cells {
                    path class={ "v" (cell.shade()) }
                        d={ @for (row, column) in self.places(cell) { "M" (column) " " (row) "h1v1h-1z" } } {
                        title { (cell.title) }
                    }
                }
            }
        }
    }

    /// Draws one path for each shade, made of lines along rows.
    fn joined(&self) -> Markup {
        html! {
            g transform="translate(0 .5)" fill="none" stroke-width="1" {
                @for (shade, path) in self.runs().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                    path class={ "v" (shade) } stroke="currentColor" d=(PreEscaped(path)) {}
                }
            }
        }
    }

    /// Returns the path of each shade, made of its runs of adjacent cells.
    fn runs(&self) -> [String; SHADES] {
        let of = |cell: &Cell| {
            let shade = cell.shade();
            self.places(cell).map(move |(row, column)| (row, column, shade))
        };
        let mut cells: Vec<(usize, usize, usize)> = self.cells.iter().flat_map(of).collect();
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

    fn words(&self) -> Markup {
        let middle = |index: usize, start: f64| start + (index as f64 + 0.5) * self.step();
        html! {
            g class="values" {
                @for cell in &self.cells {
                    @for (row, column) in self.places(cell) {
                        (text(middle(column, LEFT), middle(row, TOP) + 4.0, "middle", cell.tone(), &cell.words))
                    }
                }
            }
        }
    }

    fn axes(&self) -> Markup {
        let every = (NAME_STEP / self.step()).ceil().max(1.0) as usize;
        let middle = |index: usize, start: f64| start + (index as f64 + 0.5) * self.step();
        html! {
            @for (index, name) in self.columns.iter().enumerate().step_by(every) {
                (text(middle(index, LEFT), TOP - 6.0, "middle", "small soft", name))
            }
            @for (index, name) in self.rows.iter().enumerate().step_by(every) {
                (text(LEFT - 6.0, middle(index, TOP) + 4.0, "end", "small soft", name))
            }
        }
    }
}

/// Returns the index of the colour of a share.
pub(super) fn shade(share: f64) -> usize {
    ((share.clamp(0.0, 1.0) * SHADES as f64) as usize).min(SHADES - 1)
}

/// Draws the scale of the colours below the cells.
pub(super) fn legend(scale: &[String; 3], y: f64) -> Markup {
    let each = 10.0;
    let from = LEFT + 60.0;
    let end = from + each * SHADES as f64;
    html! {
        (text(from - 6.0, y + 12.0, "end", "small soft", &scale[0]))
        g class="filled" {
            @for shade in 0..SHADES {
                rect class={ "v" (shade) } x=(at(from + each * shade as f64)) y=(at(y)) width=(at(each)) height="14" {}
            }
        }
        (text(end + 6.0, y + 12.0, "start", "small soft", &scale[2]))
        (text(f64::midpoint(from, end), y + 26.0, "middle", "small soft", &scale[1]))
    }
}

/// Draws an invisible rectangle that leads to another place. The page lists the same places as text, so the
/// rectangles are left out of the order of the Tab key.
fn over(link: &BlockLink) -> Markup {
    let ((top, bottom), (left, right)) = (link.rows, link.columns);
    html! {
        a href={ "#" (link.target) } tabindex="-1" {
            path class="over-all" d={ "M" (left) " " (top) "H" (right) "V" (bottom) "H" (left) "z" } {
                title { (link.title) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws a block of all pairs of rows and columns, or of those below the diagonal with their mirror images.
    fn pairs(count: usize, is_symmetric: bool, share: impl Fn(usize, usize) -> f64) -> String {
        let below = |row: usize| if is_symmetric { row } else { count };
        let cells = (0..count).flat_map(|row| (0..below(row)).map(move |column| (row, column)));
        let cell = |(row, column)| Cell {
            row,
            column,
            share: share(row, column),
            words: "48".to_owned(),
            title: format!("{column}-{row}: 48 ns"),
        };
        let names: Vec<String> = (0..count).map(|name| name.to_string()).collect();
        let block = CellBlock {
            id: "block",
            label: "a block",
            rows: names.clone(),
            columns: names,
            cells: cells.map(cell).collect(),
            is_symmetric,
            row_lines: vec![(count / 2, 1.0)],
            column_lines: vec![(count / 2, 1.0)],
            links: vec![BlockLink {
                rows: (0, 1),
                columns: (0, 1),
                target: "there".to_owned(),
                title: "zoom".to_owned(),
            }],
            scale: ["1 ns", "2 ns", "4 ns"].map(str::to_owned),
        };
        block.draw().into_string()
    }

    fn block(count: usize, share: impl Fn(usize, usize) -> f64) -> String {
        pairs(count, false, share)
    }

    #[test]
    fn neighbours_of_one_colour_are_one_run() {
        let drawn = block(100, |row, _| if row < 50 { 0.0 } else { 1.0 });
        assert!(drawn.contains("M0 99h100"), "{drawn}");
        assert_eq!(drawn.matches("<path").count(), 3, "two colours and a link");
        assert!(drawn.len() < 8000, "{}", drawn.len());
    }

    #[test]
    fn a_large_block_of_different_values_stays_small() {
        let size = block(80, |row, column| (row * 7 + column * 13) as f64 % 16.0 / 16.0).len();
        assert!(size < 80_000, "{size}");
    }

    #[test]
    fn all_pairs_of_many_items_have_tooltips_and_more_have_none() {
        let titles = |count: usize| pairs(count, true, |_, _| 0.5).matches("ns</title>").count();
        assert_eq!(titles(MAX_ITEMS), MAX_ITEMS * (MAX_ITEMS - 1) / 2);
        assert_eq!(titles(MAX_ITEMS + 1), 0);
        let joined = pairs(100, true, |_, _| 0.5);
        assert!(joined.contains("M0 99h99") && joined.contains("M1 0h99"), "both sides of the diagonal");
    }

    #[test]
    fn cells_of_small_blocks_say_their_value() {
        let drawn = block(4, |_, _| 0.5);
        assert!(drawn.contains("<title>0-3: 48 ns</title>"));
        assert_eq!(drawn.matches(">48<").count(), 16);
        assert!(!block(40, |_, _| 0.5).contains(">48<"));
        let mirrored = pairs(4, true, |_, _| 0.5);
        assert!(mirrored.contains("<title>0-3: 48 ns</title>"));
        assert_eq!(mirrored.matches(">48<").count(), 12, "on both sides of the diagonal");
        assert!(drawn.contains("href=\"#there\""));
    }
}
