//! Tables as data, and their layout as text. Widths are columns of a terminal: a letter of an East Asian
//! script takes two, a combining mark none.

use manycore_text::names::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum width of a line of a text report, in columns of a terminal.
pub const WIDTH: usize = 100;

/// Space between columns.
const GAP: usize = 2;

/// Minimum width to which a column of words is wrapped.
const MIN_WORD_COLUMN: usize = 22;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words; long ones are wrapped.
    Left,
    /// For figures.
    Right,
}

/// One table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows, with the unit; empty where the heading of the section is enough.
    pub title: String,
    /// Heads of the columns. The first column holds the name of the row.
    pub head: Vec<(String, Align)>,
    /// Cells, as many in each row as there are heads.
    pub rows: Vec<Vec<String>>,
    /// How to read it, or what is special about single rows.
    pub notes: Vec<String>,
    /// Whether it holds details: collapsed on a page, omitted from text.
    pub is_detail: bool,
}

impl Table {
    /// Returns a table of figures whose first column is `first`.
    pub fn numeric(title: impl Into<String>, first: (&str, Align), columns: &[&str]) -> Self {
        let numeric = columns.iter().map(|&column| (column.to_owned(), Align::Right));
        let head = std::iter::once((first.0.to_owned(), first.1)).chain(numeric).collect();
        Self { title: title.into(), head, rows: Vec::new(), notes: Vec::new(), is_detail: false }
    }

    /// Renders lines of at most [`WIDTH`] characters. Words are wrapped, and columns that do not fit are set
    /// below.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let mut from = 1;
        while from < self.head.len().max(2) {
            let upto = last_that_fits(&widths, from);
            let columns: Vec<usize> = std::iter::once(0).chain(from..upto).collect();
            if from > 1 {
                text.push('\n');
            }
            let head: Vec<&str> = self.head.iter().map(|(name, _)| name.as_str()).collect();
            self.row(&head, &columns, &widths, &mut text);
            for row in &self.rows {
                let cells: Vec<&str> = row.iter().map(String::as_str).collect();
                self.row(&cells, &columns, &widths, &mut text);
            }
            from = upto;
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain([&self.head[column].0]).map(|cell| cell.width()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let first_limit = WIDTH / 5 * 2;
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(first_limit);
        }
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len() + GAP;
        let mut words: Vec<usize> =
            (1..self.head.len()).filter(|&column| self.head[column].1 == Align::Left).collect();
        let over = total(&widths).saturating_sub(WIDTH);
        if over > 0 {
            let mut room: usize =
                words.iter().map(|&column| widths[column]).sum::<usize>().saturating_sub(over);
            // Narrow columns keep their width, and wide ones share the remaining space.
            words.sort_by_key(|&column| widths[column]);
            for (at, &column) in words.iter().enumerate() {
                widths[column] = widths[column].min((room / (words.len() - at)).max(MIN_WORD_COLUMN));
                room = room.saturating_sub(widths[column]);
            }
        }
        let first = widths.first().copied().unwrap_or(0);
        widths.iter().map(|&width| width.min(WIDTH - first - 3 * GAP)).collect()
    }

    /// Appends one row, over as many lines as its longest wrapped cell needs.
    fn row(&self, cells: &[&str], columns: &[usize], widths: &[usize], text: &mut String) {
        let wrapped: Vec<(usize, Vec<String>)> = columns
            .iter()
            .filter_map(|&column| Some((column, wrap(cells.get(column)?, widths[column]))))
            .collect();
        let height = wrapped.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
        for line in 0..height {
            let mut out = String::new();
            for (column, lines) in &wrapped {
                let (width, empty) = (widths[*column], String::new());
                let cell = lines.get(line).unwrap_or(&empty);
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                out.push_str(&" ".repeat(GAP));
                match self.head[*column].1 {
                    Align::Left => out.extend([cell.as_str(), &padding]),
                    Align::Right => out.extend([&padding, cell.as_str()]),
                }
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
    }
}

/// Returns the end of the columns from `from` on that fit beside the first one; at least one.
fn last_that_fits(widths: &[usize], from: usize) -> usize {
    let mut used = 2 * GAP + widths.first().copied().unwrap_or(0);
    let mut upto = from;
    while upto < widths.len() && (upto == from || used + widths[upto] + GAP <= WIDTH) {
        used += widths[upto] + GAP;
        upto += 1;
    }
    upto.max(from + 1)
}

/// Breaks `text` between words into lines of at most `width` columns. Longer words are cut. A letter that
/// is wider than the line has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace().map(printable) {
        if used > 0 && used + 1 + word.width() > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut().filter(|_| used > 0) {
            line.push(' ');
            used += 1;
        }
        for letter in word.chars() {
            let columns = letter.width().unwrap_or(0);
            if used > 0 && used + columns > width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(letter);
            }
            used += columns;
        }
    }
    lines
}

/// Appends `words` after `lead`, wrapped, with all lines below the first word.
pub fn paragraph(lead: &str, words: &str, indent: usize, text: &mut String) {
    let within = indent + lead.width();
    for (index, line) in wrap(words, WIDTH - within).iter().enumerate() {
        let lead = if index == 0 { format!("{:indent$}{lead}", "") } else { " ".repeat(within) };
        text.push_str(&format!("{lead}{line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_that_do_not_fit_are_set_below() {
        let names: Vec<String> = (0..12).map(|n| format!("record-number-{n}")).collect();
        let heads: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = Table::numeric("t", ("workers", Align::Right), &heads);
        table.rows.push(std::iter::repeat_n("1".to_owned(), 13).collect());
        let text = table.text();
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        assert!(names.iter().all(|name| text.contains(name)));
        assert_eq!(text.matches("workers").count(), 3);
    }

    #[test]
    fn columns_are_aligned_whatever_the_script_of_a_name() {
        let mut table = Table::numeric("t", ("name", Align::Left), &["figure"]);
        // Two columns for each letter; letters with a combining mark; one column for each letter.
        for name in ["\u{65e5}\u{672c}\u{8a9e}", "e\u{301}te\u{301}", "\u{fc}ber"] {
            table.rows.push(vec![name.to_owned(), "7".to_owned()]);
        }
        let text = table.text();
        let ends: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(ends, [16; 4], "{text}");
        assert_eq!(wrap("\u{65e5}\u{672c}\u{8a9e}", 5), ["\u{65e5}\u{672c}", "\u{8a9e}"]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_long(
            cells in prop::collection::vec("\\PC{0,160}", 1..9),
            align in any::<bool>(),
        ) {
            let align = if align { Align::Left } else { Align::Right };
            let head = cells.iter().map(|_| ("head".to_owned(), align)).collect();
            let table = Table { title: String::new(), head, rows: vec![cells], notes: vec![], is_detail: false };
            for line in table.text().lines() {
                prop_assert!(line.width() <= WIDTH, "{line}");
            }
        }

        #[test]
        fn wrapped_text_has_no_control_characters(text in "[a \u{1b}\u{202e}\u{200b}\n]{0,40}") {
            prop_assert!(wrap(&text, 10).concat().chars().all(manycore_text::names::is_shown));
        }

        #[test]
        fn wrapping_keeps_every_word(text in "[a-z ]{0,200}", width in 10usize..80) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.width() <= width));
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
