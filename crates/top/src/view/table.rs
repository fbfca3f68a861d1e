//! A table that is sorted by a column, scrolled, and has a selected row. Only the rows on the screen are formatted.

mod placing;

use super::pen::Pen;
use placing::{ColumnPlace, place_columns};
use ratatui::{layout::Rect, style::Modifier};
use std::cmp::Ordering;
use unicode_width::UnicodeWidthStr;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub title: String,
    /// Columns of the terminal, without the blank after it.
    pub width: u16,
    /// Columns that it can use beyond `width` if there is room.
    pub more: u16,
    pub is_left: bool,
    /// Which columns are left out first where room is short: those with the largest number. 0 stays.
    pub drop: u8,
    /// Whether small values come first when it is chosen.
    pub is_ascending: bool,
}

impl Column {
    /// Returns a column of figures, of which the largest come first.
    pub fn figure(title: &str, width: u16, drop: u8) -> Self {
        Self { title: title.to_owned(), width, more: 0, is_left: false, drop, is_ascending: false }
    }

    /// Returns a column of figures of which the smallest come first.
    pub fn id(title: &str, width: u16, drop: u8) -> Self {
        Self { is_ascending: true, ..Self::figure(title, width, drop) }
    }

    /// Returns a column of text, which can grow by `more`.
    pub fn text(title: &str, width: u16, more: u16, drop: u8) -> Self {
        Self { is_left: true, is_ascending: true, more, ..Self::figure(title, width, drop) }
    }
}

/// What rows are sorted by. Absent values are the smallest.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SortKey {
    Absent,
    Number(f64),
    Text(String),
}

impl SortKey {
    pub fn number(value: Option<f64>) -> Self {
        value.map_or(Self::Absent, Self::Number)
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Absent => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
        };
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// Rows of a table.
pub(super) trait TableRows {
    fn columns(&self) -> &[Column];
    fn count(&self) -> usize;
    /// Returns the text of a cell, printable.
    fn cell(&self, row: usize, column: usize) -> String;
    fn key(&self, row: usize, column: usize) -> SortKey;
    /// Returns how hot a cell is, from 0 to 1; absent if its colour has no meaning.
    fn heat(&self, row: usize, column: usize) -> Option<f64>;
    /// Returns whether a row has a text, which is in lower case.
    fn has(&self, row: usize, text: &str) -> bool;
}

/// The order, the place and the selected row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableState {
    /// The column that sorts; absent for the order of the rows.
    pub sort: Option<usize>,
    pub is_reversed: bool,
    /// Rows that are shown, in their order.
    pub order: Vec<u32>,
    /// Position of the first row on the screen.
    pub offset: usize,
    /// Position of the selected row.
    pub cursor: Option<usize>,
    /// Rows on the screen when it was drawn last.
    pub page: usize,
    /// Whether the screen follows the selected row: not after the wheel was turned.
    pub is_following: bool,
}

impl TableState {
    /// Returns a table that is sorted by a column.
    pub fn sorted_by(column: usize) -> Self {
        Self { sort: Some(column), ..Self::default() }
    }

    /// Chooses the rows with a text, and sorts them.
    pub fn arrange(&mut self, rows: &dyn TableRows, filter: &str) {
        let filter = filter.to_lowercase();
        let is_shown = |row: &u32| filter.is_empty() || rows.has(*row as usize, &filter);
        self.order = (0..rows.count() as u32).filter(is_shown).collect();
        if let Some(column) = self.sort {
            sort(&mut self.order, rows, column, self.is_reversed);
        }
        self.limit();
    }

    /// Keeps the selected row and the place within the table.
    pub fn limit(&mut self) {
        let count = self.order.len();
        self.cursor = self.cursor.map(|at| at.min(count.saturating_sub(1))).filter(|_| count > 0);
        self.offset = self.offset.min(count.saturating_sub(self.page.max(1)));
    }

    /// Sorts by a column; the same again reverses it.
    pub fn sort_by(&mut self, column: usize) {
        self.is_reversed = self.sort == Some(column) && !self.is_reversed;
        self.sort = Some(column);
    }

    /// Moves the selected row; selects the first one on the screen if there is none.
    pub fn move_cursor(&mut self, by: isize) {
        let last = self.order.len().saturating_sub(1);
        let to = match self.cursor {
            Some(at) => at.saturating_add_signed(by).min(last),
            None => self.offset,
        };
        self.cursor = (!self.order.is_empty()).then_some(to);
        self.is_following = true;
    }

    /// Scrolls without a change of the selected row.
    pub fn scroll(&mut self, by: isize) {
        self.offset = self.offset.saturating_add_signed(by);
        self.is_following = false;
        self.limit();
    }

    /// Returns the selected row.
    pub fn selected(&self) -> Option<usize> {
        self.cursor.and_then(|at| self.order.get(at)).map(|&row| row as usize)
    }

    /// Returns the position of the next row after the selected one that has a text, around the end.
    pub fn find(&self, rows: &dyn TableRows, text: &str, is_next: bool) -> Option<usize> {
        let text = text.to_lowercase();
        let count = self.order.len();
        let from = self.cursor.map_or(0, |at| at + usize::from(is_next));
        let places = (0..count).map(|step| (from + step) % count);
        let mut places = places.filter(|&at| rows.has(self.order[at] as usize, &text));
        places.next()
    }

    fn follow(&mut self) {
        self.limit();
        let Some(cursor) = self.cursor.filter(|_| self.is_following) else { return };
        self.offset = self.offset.clamp((cursor + 1).saturating_sub(self.page.max(1)), cursor);
    }
}

/// Sorts rows by a column; equal ones stay in their order.
pub(super) fn sort(order: &mut [u32], rows: &dyn TableRows, column: usize, is_reversed: bool) {
    let Some(shown) = rows.columns().get(column) else { return };
    let is_down = shown.is_ascending == is_reversed;
    let mut keys: Vec<(SortKey, u32)> =
        order.iter().map(|&row| (rows.key(row as usize, column), row)).collect();
    keys.sort_by(|(a, _), (b, _)| if is_down { b.compare(a) } else { a.compare(b) });
    for (place, (_, row)) in order.iter_mut().zip(keys) {
        *place = row;
    }
}

/// Where a table was drawn, for the mouse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TablePlace {
    /// The row of titles.
    pub head: Rect,
    pub columns: Vec<ColumnPlace>,
    pub body: Rect,
}

impl TablePlace {
    /// Returns the column whose title is there.
    pub fn column_at(&self, x: u16, y: u16) -> Option<usize> {
        let inside = self.head.contains((x, y).into());
        let at = x.saturating_sub(self.head.x);
        let place = self.columns.iter().find(|place| (place.x..=place.x + place.width).contains(&at))?;
        inside.then_some(place.column)
    }

    /// Returns the number of the row from the top that is there.
    pub fn row_at(&self, x: u16, y: u16) -> Option<usize> {
        self.body.contains((x, y).into()).then(|| usize::from(y - self.body.y))
    }
}

/// Draws the titles and the rows. `indent` returns what is written before the first text column of a row.
pub(super) fn draw(
    pen: &mut Pen<'_>,
    rows: &dyn TableRows,
    state: &mut TableState,
    indent: &dyn Fn(usize) -> String,
) -> TablePlace {
    let columns = place_columns(rows.columns(), pen.area.width);
    state.page = usize::from(pen.area.height.saturating_sub(1));
    state.follow();
    draw_titles(pen, rows.columns(), &columns, state);
    for line in 0..state.page {
        let position = state.offset + line;
        let Some(&row) = state.order.get(position) else { break };
        let y = line as u16 + 1;
        let is_selected = state.cursor == Some(position);
        if is_selected {
            pen.fill(y, pen.theme.selected());
        }
        let indent = indent(position);
        draw_row(pen, rows, row as usize, &columns, (y, is_selected, &indent));
    }
    let head = Rect { height: pen.area.height.min(1), ..pen.area };
    let body = Rect { y: pen.area.y + head.height, height: pen.area.height - head.height, ..pen.area };
    TablePlace { head, columns, body }
}

fn draw_titles(pen: &mut Pen<'_>, columns: &[Column], places: &[ColumnPlace], state: &TableState) {
    let (bar, chosen) = (pen.theme.bar(), pen.theme.chosen());
    pen.fill(0, bar);
    for place in places {
        let column = &columns[place.column];
        let is_sorting = state.sort == Some(place.column);
        let style = if is_sorting { chosen } else { bar.add_modifier(Modifier::BOLD) };
        let mark = match (is_sorting, column.is_ascending != state.is_reversed) {
            (false, _) => "",
            (true, true) => "▲",
            (true, false) => "▼",
        };
        let title = if column.title.len() + mark.len() / 3 > place.width.into() {
            column.title.clone()
        } else {
            format!("{}{mark}", column.title)
        };
        if column.is_left {
            pen.text_within(place.x, 0, &title, place.width, style);
        } else {
            pen.text_right(place.x + place.width, 0, &title, place.width, style);
        }
    }
}

fn draw_row(
    pen: &mut Pen<'_>,
    rows: &dyn TableRows,
    row: usize,
    places: &[ColumnPlace],
    (y, is_selected, indent): (u16, bool, &str),
) {
    let mut indent = indent;
    for place in places {
        let column = &rows.columns()[place.column];
        let text = rows.cell(row, place.column);
        let style = match rows.heat(row, place.column) {
            _ if is_selected => pen.theme.selected(),
            Some(heat) => pen.theme.heat_text(heat),
            None => ratatui::style::Style::new(),
        };
        if column.is_left {
            let dim = if is_selected { pen.theme.selected() } else { pen.theme.dim() };
            let end = pen.text_within(place.x, y, indent, place.width, dim);
            let used = end - place.x.min(end);
            let room = place.width.saturating_sub(used);
            pen.text_within(end, y, whole_parts(&text, room), room, style);
            indent = "";
        } else {
            pen.text_right(place.x + place.width, y, &text, place.width, style);
        }
    }
}

/// Returns the parts of a list, which two blanks separate, that fit into a number of columns: a part of a figure would be
/// another figure. A text without such parts is returned as it is.
fn whole_parts(text: &str, columns: u16) -> &str {
    if text.width() <= columns.into() {
        return text;
    }
    let ends = text.match_indices("  ").map(|(at, _)| &text[..at]);
    ends.filter(|part| part.width() <= columns.into()).last().unwrap_or(text)
}

/// A table whose cells are all formatted, for few rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<SheetCell>>,
}

/// A cell: its text, what it is sorted by, and its heat.
#[derive(Clone, Debug)]
pub(super) struct SheetCell {
    text: String,
    key: SortKey,
    heat: Option<f64>,
}

impl SheetCell {
    /// Returns a cell of text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { key: SortKey::Text(text.to_lowercase()), text, heat: None }
    }

    /// Returns a cell of a figure; `-` if it is absent.
    pub fn figure(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        Self { text: value.map_or_else(|| "-".to_owned(), show), key: SortKey::number(value), heat: None }
    }

    /// Colours the cell by a share of `most`.
    pub fn hot(mut self, most: f64) -> Self {
        if let SortKey::Number(value) = self.key {
            self.heat = Some((value / most).clamp(0.0, 1.0));
        }
        self
    }
}

impl TableRows for Sheet {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count(&self) -> usize {
        self.rows.len()
    }

    fn cell(&self, row: usize, column: usize) -> String {
        self.rows[row][column].text.clone()
    }

    fn key(&self, row: usize, column: usize) -> SortKey {
        self.rows[row][column].key.clone()
    }

    fn heat(&self, row: usize, column: usize) -> Option<f64> {
        self.rows[row][column].heat
    }

    fn has(&self, row: usize, text: &str) -> bool {
        self.rows[row].iter().any(|cell| cell.text.to_lowercase().contains(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_between_their_parts() {
        let list = "31: 12%  8: 11%  47: 9%";
        let cut = |columns| whole_parts(list, columns);
        assert_eq!(
            [cut(30), cut(23), cut(22), cut(15), cut(14)],
            [list, list, "31: 12%  8: 11%", "31: 12%  8: 11%", "31: 12%"]
        );
        assert_eq!((cut(5), whole_parts("one part", 3)), (list, "one part"));
    }
}
