//! The map of CPUs: the machine as its topology, each CPU or unit coloured by a figure.

mod layout;
pub(super) mod levels;

use super::{
    metric::{CpuMetric, MetricValues},
    pen::{Pen, heat_letter},
};
use crate::picture::{CpuShares, Picture};
use layout::{CellStyle, MapCell, MapLayout, MapRoom};
use levels::MapLevels;
use manycore_topology::{CpuSet, Level};
use ratatui::{
    layout::Rect,
    style::{Modifier, Style},
};

/// Columns of the figure behind the name of a line.
const FIGURE: u16 = 6;

/// The map as it was drawn last.
#[derive(Debug, Default)]
pub(super) struct CpuMap {
    layout: Option<(MapRoom, MapLayout)>,
    /// Where it is on the screen.
    pub place: Rect,
}

/// What is drawn.
pub(super) struct MapContent<'a> {
    pub levels: &'a MapLevels,
    pub values: &'a MetricValues,
    pub picture: &'a Picture,
    /// CPUs to which the table is limited.
    pub chosen: Option<&'a CpuSet>,
}

impl CpuMap {
    /// Forgets the layout, after a change of the machine.
    pub fn clear(&mut self) {
        self.layout = None;
    }

    /// Returns the number of rows that the map needs, at most `rows`.
    pub fn rows(&mut self, levels: &MapLevels, width: u16, rows: u16) -> u16 {
        self.lay_out(levels, width, rows).rows.min(rows)
    }

    fn lay_out(&mut self, levels: &MapLevels, width: u16, rows: u16) -> &MapLayout {
        let units = levels.levels.iter().filter(|level| level.level.is_some());
        let longest =
            units.map(|level| level.unit_name(level.units.len() - 1).len()).max().unwrap_or(0) as u16;
        let figure = if width >= 60 { FIGURE } else { 0 };
        let room = MapRoom { width, rows, name: longest.min(12) + 1, figure };
        if self.layout.as_ref().is_none_or(|(old, _)| *old != room) {
            self.layout = Some((room, MapLayout::new(levels, room)));
        }
        let (_, layout) = self.layout.get_or_insert_with(|| (room, MapLayout::new(levels, room)));
        layout
    }

    /// Draws the map into the area, whose rows are those of [`CpuMap::rows`].
    pub fn draw(&mut self, pen: &mut Pen<'_>, content: &MapContent<'_>) {
        self.place = pen.area;
        let Some((_, layout)) = &self.layout else { return };
        draw_names(pen, layout, content);
        let level = &content.levels.levels[layout.cell_level];
        let rows = pen.area.height;
        for cell in layout.cells.iter().take_while(|cell| cell.at.1 < rows) {
            let cpus = &level.units[cell.unit];
            let is_chosen = content.chosen.is_some_and(|chosen| cpus.is_subset(chosen));
            draw_cell(pen, layout.style, cell, cpus, (content, is_chosen));
        }
        if layout.rows > pen.area.height {
            let hidden = layout.cells.iter().filter(|cell| cell.at.1 >= pen.area.height).count();
            let text = format!(" and {hidden} more");
            let (width, last) = (pen.area.width, pen.area.height.saturating_sub(1));
            pen.text_right(width, last, &text, width, pen.theme.warning());
        }
    }

    /// Returns the name of the cell's level, and how many CPUs the first cell has.
    pub fn cell_name<'a>(&self, levels: &'a MapLevels) -> Option<(&'a str, usize)> {
        let (_, layout) = self.layout.as_ref()?;
        let level = &levels.levels[layout.cell_level];
        Some((level.name(), level.units.first().map_or(0, CpuSet::len)))
    }

    /// Returns the levels that blanks and strokes separate on the map.
    pub fn separated<'a>(&self, levels: &'a MapLevels) -> Vec<&'a str> {
        let Some((_, layout)) = &self.layout else { return Vec::new() };
        let first = layout.line_level.map_or(0, |line| line + 1);
        let between = &levels.levels[first.min(layout.cell_level)..layout.cell_level];
        between
            .iter()
            .rev()
            .filter(|one| one.level != Some(Level::Core))
            .map(levels::MapLevel::name)
            .collect()
    }

    /// Returns whether cells are bars.
    pub fn has_bars(&self) -> bool {
        self.layout.as_ref().is_some_and(|(_, layout)| matches!(layout.style, CellStyle::Bar(_)))
    }

    /// Returns the name and CPUs of the unit that is drawn there: a cell, or the unit of a line's name.
    pub fn unit_at(&self, levels: &MapLevels, x: u16, y: u16) -> Option<(String, CpuSet)> {
        let (_, layout) = self.layout.as_ref().filter(|_| self.place.contains((x, y).into()))?;
        let (x, y) = (x - self.place.x, y - self.place.y);
        if x < layout.indent {
            let line = layout.line_rows.iter().rposition(|&row| row <= y)?;
            let level = levels.levels.get(layout.line_level?)?;
            return Some((level.unit_name(line), level.units.get(line)?.clone()));
        }
        let width = layout.style.width();
        let cell =
            layout.cells.iter().find(|cell| cell.at.1 == y && (cell.at.0..cell.at.0 + width).contains(&x))?;
        let level = &levels.levels[layout.cell_level];
        Some((level.unit_name(cell.unit), level.units[cell.unit].clone()))
    }
}

fn draw_names(pen: &mut Pen<'_>, layout: &MapLayout, content: &MapContent<'_>) {
    let Some(level) = layout.line_level.map(|line| &content.levels.levels[line]) else { return };
    let (label, dim) = (pen.theme.label(), pen.theme.dim());
    let figure = if layout.indent > FIGURE + 8 { FIGURE } else { 0 };
    let width = layout.indent.saturating_sub(1 + figure);
    for (unit, &row) in layout.line_rows.iter().enumerate() {
        let cpus = &level.units[unit];
        let is_chosen = content.chosen.is_some_and(|chosen| cpus.is_subset(chosen));
        let style = if is_chosen { pen.theme.selected() } else { label };
        pen.text_within(0, row, &level.unit_name(unit), width, style);
        if let Some(value) = content.values.of(cpus).filter(|_| figure > 0) {
            let text = unit_figure(content.values.metric, value, cpus.len());
            let heat = content.values.heat(value, cpus.len());
            let style = if heat < 0.05 { dim } else { pen.theme.heat_text(heat) };
            pen.text_right(layout.indent - 2, row, &text, figure, style);
        }
    }
}

/// Formats the figure of a unit: CPUs in use, tasks that wait, or the mean of frequency and temperature.
fn unit_figure(metric: CpuMetric, value: f64, cpus: usize) -> String {
    match metric {
        CpuMetric::Use | CpuMetric::Steal => {
            let sum = value * cpus as f64;
            // Beyond that, a decimal would touch the name.
            if sum < 99.95 { format!("{sum:.1}") } else { format!("{sum:.0}") }
        }
        _ => metric.short(value),
    }
}

fn draw_cell(
    pen: &mut Pen<'_>,
    style: CellStyle,
    cell: &MapCell,
    cpus: &CpuSet,
    (content, is_chosen): (&MapContent<'_>, bool),
) {
    let (x, y) = cell.at;
    if cell.has_stroke {
        pen.text(x - 1, y, "│", pen.theme.dim());
    }
    let value = content.values.of(cpus);
    let heat = value.map_or(0.0, |value| content.values.heat(value, cpus.len()));
    let mark = if is_chosen { Modifier::REVERSED } else { Modifier::empty() };
    match style {
        CellStyle::Letter => {
            let letter = value.map_or('?', |_| heat_letter(heat, pen.is_ascii));
            // ASCII characters do not fill their cell, so that their background has the colour.
            let is_on_color = pen.is_ascii && pen.theme.is_colored();
            let style = if is_on_color { pen.theme.heat_cell(heat) } else { pen.theme.heat_text(heat) };
            pen.text(x, y, letter.encode_utf8(&mut [0; 4]), style.add_modifier(mark));
        }
        CellStyle::Figure => {
            let text = value.map_or("-".to_owned(), |value| content.values.metric.short(value));
            let style = pen.theme.heat_cell(heat).add_modifier(mark);
            pen.text(x, y, &format!("{text:>4}"), style);
        }
        CellStyle::Bar(width) => draw_bar(pen, (x, y, width), cpus, (content, value, heat, mark)),
    }
}

/// Draws the number of a CPU, its bar and its figure.
fn draw_bar(
    pen: &mut Pen<'_>,
    (x, y, width): (u16, u16, u16),
    cpus: &CpuSet,
    (content, value, heat, mark): (&MapContent<'_>, Option<f64>, f64, Modifier),
) {
    let metric = content.values.metric;
    let number = cpus.first().map(|cpu| cpu.to_string()).unwrap_or_default();
    pen.text_right(x + 4, y, &number, 4, pen.theme.label().add_modifier(mark));
    let shares = cpus.first().and_then(|cpu| {
        let at = content.picture.cpus.binary_search_by_key(&cpu, |one| one.cpu).ok()?;
        content.picture.cpus[at].shares
    });
    let parts = match shares.filter(|_| metric == CpuMetric::Use) {
        Some(shares) => use_parts(&shares, pen.theme.parts()),
        None => vec![(heat, '#', pen.theme.heat_text(heat))],
    };
    pen.bar(x + 5, y, width - 10, &parts);
    let text = value.map_or("-".to_owned(), |value| metric.short(value));
    pen.text_right(x + width, y, &text, 4, pen.theme.heat_text(heat).add_modifier(mark));
}

/// Returns the parts of the time of a CPU in the order and with the characters of the legend.
fn use_parts(shares: &CpuShares, styles: [Style; 4]) -> Vec<(f64, char, Style)> {
    let [user, system, interrupts, steal] = styles;
    vec![
        (shares.user + shares.nice, '|', user),
        (shares.system, '#', system),
        (shares.irq + shares.softirq, '*', interrupts),
        (shares.steal, '!', steal),
    ]
}

/// Draws one row: the metric, its scale, and what separates cells. If no CPU has a value, `without_values` says why.
pub(super) fn draw_legend(pen: &mut Pen<'_>, map: &CpuMap, content: &MapContent<'_>, without_values: &str) {
    let (dim, label) = (pen.theme.dim(), pen.theme.label());
    let metric = content.values.metric;
    let x = pen.text(0, 0, metric.title(), label);
    if content.values.is_empty() {
        pen.text(x, 0, without_values, pen.theme.warning());
        return;
    }
    let mut x = if map.has_bars() && metric == CpuMetric::Use {
        draw_parts(pen, x + 2)
    } else {
        draw_scale(pen, x + 2, content.values)
    };
    let mut notes = Vec::new();
    match map.cell_name(content.levels) {
        Some((name, cpus)) if cpus > 1 => notes.push(format!("cell: {name} of {cpus} CPUs")),
        _ => {}
    }
    let separated = map.separated(content.levels);
    let all = separators(&separated, true);
    let needed = all.iter().chain(&notes).map(|note| note.chars().count() + 2).sum::<usize>();
    let is_wide = usize::from(x) + needed <= pen.area.width.into();
    notes.extend(if is_wide { all } else { separators(&separated, false) });
    for note in notes {
        x = pen.text(x + 2, 0, &note, dim);
    }
}

/// Returns what separates units of these levels, innermost first.
fn separators(levels: &[&str], is_wide: bool) -> Vec<String> {
    let between = if is_wide { " between" } else { ":" };
    let [blank, rest @ ..] = levels else { return Vec::new() };
    let rest: Vec<String> = rest.iter().map(|name| format!("{name}s")).collect();
    let mut notes = vec![format!("blank{between} {blank}s")];
    if !rest.is_empty() {
        notes.push(format!("│{between} {}", rest.join(" and ")));
    }
    notes
}

fn draw_scale(pen: &mut Pen<'_>, x: u16, values: &MetricValues) -> u16 {
    let (least, most) = values.scale;
    let dim = pen.theme.dim();
    let mut x = pen.text(x, 0, &format!("{} ", values.metric.short(least)), dim);
    let steps: u16 = if pen.is_ascii { 10 } else { 8 };
    for step in 0..steps {
        let share = (f64::from(step) + 0.5) / f64::from(steps);
        let letter = heat_letter(share, pen.is_ascii);
        x = pen.text(x, 0, letter.encode_utf8(&mut [0; 4]), pen.theme.heat_text(share));
    }
    pen.text(x, 0, &format!(" {}", values.metric.short(most)), dim)
}

fn draw_parts(pen: &mut Pen<'_>, mut x: u16) -> u16 {
    let styles = pen.theme.parts();
    let is_plain = pen.is_ascii || !pen.theme.is_colored();
    for ((name, letter), style) in
        [("user", '|'), ("system", '#'), ("irq", '*'), ("steal", '!')].into_iter().zip(styles)
    {
        let letter = if is_plain { letter } else { '■' };
        x = pen.text(x, 0, letter.encode_utf8(&mut [0; 4]), style);
        x = pen.text(x, 0, &format!(" {name}  "), pen.theme.dim());
    }
    x.saturating_sub(2)
}
