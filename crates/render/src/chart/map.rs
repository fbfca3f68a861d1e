//! Maps of cells, in which a stronger colour means a larger value.

use crate::chart::{WIDTH, line, rect, shortened, svg, text};
use maud::{Markup, html};

const LEFT: f64 = 54.0;
/// Space for text to the right of the cells.
const RIGHT: f64 = 62.0;
const TOP: f64 = 20.0;
const GAP: f64 = 10.0;
const FOOT: f64 = 24.0;
/// Maximum width of a cell: few figures are no reason for large areas of colour.
const MAX_STEP: f64 = 64.0;
/// Opacity of the smallest value, so that it differs from an empty cell.
const FAINTEST: f64 = 0.06;

/// A map of blocks of cells, one below the other.
pub struct HeatMap<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Headings above the names and above the notes of the blocks.
    pub heads: (&'a str, &'a str),
    /// Height of a cell.
    pub cell_height: f64,
    /// Space between blocks.
    pub space: f64,
    /// Names of single columns, above the cells: position and name.
    pub columns: Vec<(usize, String)>,
    /// Column before which there is a gap.
    pub gap_before: Option<usize>,
    /// Number of columns.
    pub width: usize,
    /// Blocks from top to bottom.
    pub blocks: Vec<HeatRow>,
    /// Texts for the smallest and largest value of the colours.
    pub ends: (String, String),
}

/// Cells that share a name, in one line or several.
pub struct HeatRow {
    /// Name, to the left of the cells.
    pub name: String,
    /// Lines of cells from 0 (faint) to 1 (strong).
    pub lines: Vec<Vec<f64>>,
    /// Texts in the cells of the first line; empty where cells are small.
    pub words: Vec<String>,
    /// Note, to the right of the cells.
    pub note: String,
}

impl HeatMap<'_> {
    /// Draws the map.
    pub fn draw(&self) -> Markup {
        let mut y = TOP;
        let mut rows = Vec::new();
        for block in &self.blocks {
            rows.push(self.block(block, y));
            y += block.lines.len() as f64 * self.cell_height + self.space;
        }
        let inside = html! {
            (text(LEFT - 6.0, TOP - 6.0, "end", "small soft", self.heads.0))
            (text(self.notes(), TOP - 6.0, "start", "small soft", self.heads.1))
            @for (column, name) in &self.columns {
                (text(self.across(*column) + self.step() / 2.0, TOP - 6.0, "middle", "small soft", name))
            }
            @for row in &rows { (row) }
            (self.legend(y + 6.0))
        };
        svg(self.id, self.label, y + 6.0 + FOOT, &inside)
    }

    fn step(&self) -> f64 {
        let gap = if self.gap_before.is_some() { GAP } else { 0.0 };
        ((WIDTH - LEFT - RIGHT - gap) / self.width.max(1) as f64).min(MAX_STEP)
    }

    /// Left end of the notes, to the right of the cells.
    fn notes(&self) -> f64 {
        self.across(self.width) + 6.0
    }

    fn across(&self, column: usize) -> f64 {
        let gap = if self.gap_before.is_some_and(|before| column >= before) { GAP } else { 0.0 };
        LEFT + column as f64 * self.step() + gap
    }

    fn block(&self, block: &HeatRow, y: f64) -> Markup {
        let height = block.lines.len() as f64 * self.cell_height;
        // Adjacent cells overlap slightly, so that no seam is visible between them when the drawing is
        // scaled.
        let width = self.step() - if self.step() > 6.0 { 1.0 } else { 0.3 };
        let tall = self.cell_height - if self.cell_height > 6.0 { 1.0 } else { 0.3 };
        html! {
            (text(LEFT - 6.0, y + height / 2.0 + 4.0, "end", "small", &shortened(&block.name, 9)))
            @for (line, cells) in block.lines.iter().enumerate() {
                @for (column, &share) in cells.iter().enumerate() {
                    @let corner = (self.across(column), y + line as f64 * self.cell_height);
                    @let opacity = FAINTEST + (1.0 - FAINTEST) * share.clamp(0.0, 1.0);
                    (rect("heat", corner, (width, tall), opacity))
                }
            }
            @for (column, words) in block.words.iter().enumerate() {
                (text(self.across(column) + self.step() / 2.0, y + self.cell_height / 2.0 + 4.0, "middle", "small", words))
            }
            (text(self.notes(), y + height / 2.0 + 4.0, "start", "small", &block.note))
        }
    }

    fn legend(&self, y: f64) -> Markup {
        const STEPS: usize = 5;
        let from = LEFT + 90.0;
        html! {
            (text(from - 6.0, y + 13.0, "end", "small soft", &self.ends.0))
            @for step in 0..STEPS {
                @let opacity = FAINTEST + (1.0 - FAINTEST) * step as f64 / (STEPS - 1) as f64;
                (rect("heat", (from + 22.0 * step as f64, y + 2.0), (22.0, 14.0), opacity))
            }
            (line("axis", (from, y + 16.0), (from + 22.0 * STEPS as f64, y + 16.0)))
            (text(from + 22.0 * STEPS as f64 + 6.0, y + 13.0, "start", "small soft", &self.ends.1))
        }
    }
}
