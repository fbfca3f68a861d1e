//! Folds the CPUs of a machine into some rows of the screen.
//!
//! A cell is a CPU, or a unit if CPUs do not fit; its width follows from the room. Lines begin at units of one level,
//! the line level, and units of the levels between are separated by blanks and strokes.

use super::levels::MapLevels;
use manycore_topology::Level;

/// What a cell has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStyle {
    /// Number of the CPU, a bar and a figure, in so many columns.
    Bar(u16),
    /// A figure.
    Figure,
    /// One character.
    Letter,
}

/// Widths of bars, best first.
const BARS: [u16; 6] = [58, 44, 34, 26, 20, 16];

/// Rows up to which lines may be units further inside than needed; letters take half of the room at most.
const FEW_ROWS: u16 = 8;

impl CellStyle {
    pub(super) fn width(self) -> u16 {
        match self {
            Self::Bar(width) => width,
            Self::Figure => 4,
            Self::Letter => 1,
        }
    }

    /// Returns the columns between two cells that are in different units of the `rank`-th separated level from inside;
    /// no rank means cells of one unit.
    fn gap(self, rank: Option<usize>) -> u16 {
        match (self, rank) {
            (Self::Bar(_), _) | (Self::Figure, Some(1..)) => 2,
            (_, None) => 0,
            (_, Some(_)) => 1,
        }
    }
}

/// A cell on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapCell {
    /// Index of the unit in the cells' level.
    pub unit: usize,
    /// Column and row, from the corner of the map.
    pub at: (u16, u16),
    /// Whether a stroke separates it from the cell to its left, in the column before it.
    pub has_stroke: bool,
}

/// Where everything is on the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapLayout {
    pub style: CellStyle,
    /// Index of the cells' level.
    pub cell_level: usize,
    /// Index of the level whose units begin lines, if it is not the whole machine.
    pub line_level: Option<usize>,
    /// Columns before the cells, for the names of the lines.
    pub indent: u16,
    pub cells: Vec<MapCell>,
    /// Row at which each unit of the line level begins.
    pub line_rows: Vec<u16>,
    pub rows: u16,
}

/// The room for a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapRoom {
    pub width: u16,
    pub rows: u16,
    /// Columns for the name of a line, if there are names.
    pub name: u16,
    /// Columns for a figure behind the name.
    pub figure: u16,
}

impl MapLayout {
    /// Returns the best layout: cells as far inside as possible, lines with names before those without, then cells as
    /// wide as possible. If none fits, that of the outermost cells, with more rows than there are.
    pub fn new(levels: &MapLevels, room: MapRoom) -> Self {
        let innermost = levels.levels.len() - 1;
        for cell_level in (0..=innermost).rev() {
            let bars = if cell_level == innermost { &BARS[..] } else { &[] };
            let bars = bars.iter().map(|&width| CellStyle::Bar(width));
            let styles: Vec<CellStyle> = bars.chain([CellStyle::Figure, CellStyle::Letter]).collect();
            let named = styles.iter().filter_map(|&style| best_lines(levels, cell_level, style, room));
            // A name alone, where there is no room for its figure.
            let narrow = MapRoom { figure: 0, ..room };
            let narrow = best_lines(levels, cell_level, CellStyle::Letter, narrow);
            let unnamed = styles.iter().map(|&style| lay_out(levels, cell_level, style, None, room));
            let fits = |layout: &Self| layout.rows <= room.rows && layout.columns() <= room.width;
            if let Some(best) = named.chain(narrow).chain(unnamed).find(fits) {
                return best;
            }
        }
        lay_out(levels, 0, CellStyle::Letter, None, room)
    }

    /// Returns the columns that its widest row takes.
    fn columns(&self) -> u16 {
        self.cells.iter().map(|cell| cell.at.0 + self.style.width()).max().unwrap_or(0)
    }
}

/// Returns the layout whose lines are the innermost units that take few rows, or no more than any other units; `None`
/// if there are no units.
fn best_lines(levels: &MapLevels, cell_level: usize, style: CellStyle, room: MapRoom) -> Option<MapLayout> {
    let is_line = |level: &usize| {
        let is_core = levels.levels[*level].level == Some(Level::Core);
        !is_core || matches!(style, CellStyle::Bar(_))
    };
    let few = if style == CellStyle::Letter { (room.rows / 2).min(FEW_ROWS) } else { FEW_ROWS };
    let lines = (0..cell_level).filter(is_line);
    let mut layouts: Vec<MapLayout> =
        lines.map(|line_level| lay_out(levels, cell_level, style, Some(line_level), room)).collect();
    let fewest = layouts.iter().map(|layout| layout.rows).min()?;
    let most = fewest.max(few.min(room.rows * 3 / 4));
    let best = layouts.iter().rposition(|layout| layout.rows <= most)?;
    Some(layouts.swap_remove(best))
}

fn lay_out(
    levels: &MapLevels,
    cell_level: usize,
    style: CellStyle,
    line_level: Option<usize>,
    room: MapRoom,
) -> MapLayout {
    let indent = if line_level.is_some() { (room.name + room.figure).min(room.width / 3) } else { 0 };
    let width = room.width.saturating_sub(indent).max(style.width());
    let separated = separated_levels(levels, cell_level, line_level);
    let outers: Vec<Vec<usize>> =
        separated.iter().map(|&outer| levels.outer_units(cell_level, outer)).collect();
    let core = levels.levels[..cell_level].iter().position(|level| level.level == Some(Level::Core));
    let cores = core.map(|core| levels.outer_units(cell_level, core));
    let lines = line_level.map(|outer| levels.outer_units(cell_level, outer));
    let count = levels.levels[cell_level].units.len();
    let mut packer =
        Packer { style, width, x: 0, row: 0, cells: Vec::with_capacity(count), separated: outers, cores };
    let mut line_rows = Vec::new();
    let mut at = 0;
    while at < count {
        let line = lines.as_ref().map(|lines| lines[at]);
        let end = lines
            .as_ref()
            .map_or(count, |lines| at + lines[at..].iter().take_while(|&&one| Some(one) == line).count());
        packer.begin_line();
        line_rows.push(packer.row);
        packer.pack(at, end);
        at = end;
    }
    let rows = packer.row + 1;
    let cells = packer.cells.into_iter().map(|cell| MapCell { at: (cell.at.0 + indent, cell.at.1), ..cell });
    MapLayout { style, cell_level, line_level, indent, cells: cells.collect(), line_rows, rows }
}

/// Returns the levels between lines and cells, innermost first, without cores.
fn separated_levels(levels: &MapLevels, cell_level: usize, line_level: Option<usize>) -> Vec<usize> {
    let first = line_level.map_or(0, |line| line + 1);
    (first..cell_level).rev().filter(|&at| levels.levels[at].level != Some(Level::Core)).collect()
}

/// Puts cells into rows.
struct Packer {
    style: CellStyle,
    width: u16,
    x: u16,
    row: u16,
    cells: Vec<MapCell>,
    /// For each separated level, innermost first, the unit of each cell.
    separated: Vec<Vec<usize>>,
    cores: Option<Vec<usize>>,
}

impl Packer {
    fn begin_line(&mut self) {
        if self.x > 0 {
            self.row = self.row.saturating_add(1);
            self.x = 0;
        }
    }

    /// Returns the rank of the outermost separated level at which a cell differs from that before it.
    fn rank(&self, cell: usize) -> Option<usize> {
        self.separated.iter().rposition(|of| of[cell] != of[cell - 1])
    }

    fn gap(&self, cell: usize) -> u16 {
        let rank = self.rank(cell);
        let other_core = self.cores.as_ref().is_some_and(|of| of[cell] != of[cell - 1]);
        let core_gap = u16::from(self.style == CellStyle::Figure && other_core);
        self.style.gap(rank).max(core_gap)
    }

    /// Puts cells from `at` to `end` into the line. Units of the outermost separated level that do not fit into the rest
    /// of the row begin a new one; units that are wider than a row are broken at those within.
    fn pack(&mut self, at: usize, end: usize) {
        let mut from = at;
        while from < end {
            let to = self.fitting_end(from, end);
            let needed = self.width_of(from, to);
            let gap = if self.x == 0 { 0 } else { self.gap(from) };
            if self.x > 0 && self.x + gap + needed > self.width {
                self.begin_line();
            }
            for cell in from..to {
                self.put(cell);
            }
            from = to;
        }
    }

    /// Returns the end of the largest unit from cell `from` on that fits into a row.
    fn fitting_end(&self, from: usize, end: usize) -> usize {
        for of in self.separated.iter().rev().chain(self.cores.as_ref()) {
            // The rest of a unit that was broken is no unit.
            if from > 0 && of[from] == of[from - 1] {
                continue;
            }
            let to = from + of[from..end].iter().take_while(|&&one| one == of[from]).count();
            if self.width_of(from, to) <= self.width {
                return to;
            }
        }
        from + 1
    }

    fn width_of(&self, from: usize, to: usize) -> u16 {
        let gaps: u32 = (from + 1..to).map(|cell| u32::from(self.gap(cell))).sum();
        let cells = (to - from) as u32 * u32::from(self.style.width());
        u16::try_from(gaps + cells).unwrap_or(u16::MAX)
    }

    fn put(&mut self, cell: usize) {
        let gap = if self.x == 0 { 0 } else { self.gap(cell) };
        if self.x > 0 && self.x + gap + self.style.width() > self.width {
            self.begin_line();
            return self.put(cell);
        }
        let has_stroke = self.x > 0 && self.rank(cell).is_some_and(|rank| rank > 0);
        self.cells.push(MapCell { unit: cell, at: (self.x + gap, self.row), has_stroke });
        self.x += gap + self.style.width();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::{SysTree, read, synthetic::MachineSpec};
    use proptest::prelude::*;

    fn levels(spec: &MachineSpec) -> MapLevels {
        MapLevels::new(&read(&SysTree::from_capture(spec.capture())).unwrap())
    }

    fn layout(spec: &MachineSpec, width: u16, rows: u16) -> MapLayout {
        MapLayout::new(&levels(spec), MapRoom { width, rows, name: 8, figure: 6 })
    }

    #[test]
    fn few_cpus_are_bars_and_many_are_letters() {
        let spec = |nodes, cores| MachineSpec { nodes, cores, ..MachineSpec::default() };
        assert_eq!(layout(&spec(1, 2), 140, 10).style, CellStyle::Bar(58));
        assert_eq!(layout(&spec(1, 16), 80, 8).style, CellStyle::Bar(34));
        assert_eq!(layout(&spec(4, 16), 80, 9).style, CellStyle::Figure);
        let many = layout(&spec(8, 64), 80, 11);
        assert_eq!((many.style, many.rows, many.cells.len()), (CellStyle::Letter, 8, 512));
        assert_eq!((many.indent, many.line_rows.len()), (14, 8));
        let narrow = layout(&spec(8, 64), 75, 11);
        assert_eq!((narrow.style, narrow.indent, narrow.line_rows.len()), (CellStyle::Letter, 8, 8));
    }

    #[test]
    fn nodes_are_lines_where_there_is_room_for_their_names() {
        let spec = MachineSpec { packages: 2, nodes: 2, clusters: 32, cores: 4, ..MachineSpec::default() };
        let found = layout(&spec, 140, 18);
        assert_eq!((found.style, found.rows, found.line_rows.len()), (CellStyle::Letter, 8, 4));
    }

    #[test]
    fn more_cpus_than_letters_become_units() {
        let giant = levels(&MachineSpec::giant());
        let folded = MapLayout::new(&giant, MapRoom { width: 80, rows: 11, name: 8, figure: 6 });
        assert_eq!(giant.levels[folded.cell_level].level, Some(Level::Llc));
        let wide = MapLayout::new(&giant, MapRoom { width: 400, rows: 40, name: 8, figure: 6 });
        assert_eq!(giant.levels[wide.cell_level].level, None);
    }

    proptest! {
        #[test]
        fn each_cell_is_there_once_and_none_overlaps(
            packages in 1..3_u32, nodes in 1..4_u32, caches in 1..3_u32, clusters in 0..3_u32, cores in 1..9_u32,
            threads in 1..3_u32, width in 1..200_u16, rows in 1..40_u16,
        ) {
            let spec = MachineSpec { packages, nodes, caches, clusters, cores, threads, ..MachineSpec::default() };
            let levels = levels(&spec);
            let found = MapLayout::new(&levels, MapRoom { width, rows, name: 8, figure: 6 });
            let units: Vec<usize> = found.cells.iter().map(|cell| cell.unit).collect();
            prop_assert_eq!(units, (0..levels.levels[found.cell_level].units.len()).collect::<Vec<_>>());
            for pair in found.cells.windows(2) {
                let (a, b) = (pair[0].at, pair[1].at);
                prop_assert!(a.1 < b.1 || a.1 == b.1 && a.0 + found.style.width() <= b.0, "{:?}", pair);
            }
            if found.rows <= rows && found.columns() <= width {
                let fits = |cell: &MapCell| cell.at.0 + found.style.width() <= width && cell.at.1 < rows;
                prop_assert!(found.cells.iter().all(fits));
            }
        }
    }
}
