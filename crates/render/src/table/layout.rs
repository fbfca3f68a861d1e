//! Layout of a table as text.

use super::{Align, Table};
use crate::{
    terminal::{Mark, Terminal},
    wrap::wrap,
};
use unicode_width::UnicodeWidthStr;

/// Space between columns.
const GAP: usize = 2;

/// Minimum width to which a column of words is wrapped.
const MIN_WORD_COLUMN: usize = 22;

/// End of the head of a column that means nothing without the column before it.
const INTERVAL: &str = "95 % interval";

/// A table, and the widths of its columns.
struct Layout<'a> {
    table: &'a Table,
    widths: Vec<usize>,
    terminal: Terminal,
}

/// Renders head and rows.
pub(super) fn text(table: &Table, terminal: Terminal) -> String {
    let layout = Layout { table, widths: widths(table, terminal.columns()), terminal };
    let mut text = String::new();
    let keys = layout.keys();
    let mut from = keys;
    while from < table.head.len().max(keys + 1) {
        let upto = layout.last_that_fits(keys, from);
        let columns: Vec<usize> = (0..keys).chain(from..upto).collect();
        if from > keys {
            text.push('\n');
        }
        let head: Vec<&str> = table.head.iter().map(|(name, _)| name.as_str()).collect();
        layout.row(&head, &columns, |_, _| Some(Mark::Strong), &mut text);
        for row in &table.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            let mark = |column: usize, cell: &str| {
                table
                    .verdict_column
                    .filter(|verdicts| *verdicts == column)
                    .and_then(|_| Mark::of_verdict(cell))
            };
            layout.row(&cells, &columns, mark, &mut text);
        }
        from = upto;
    }
    text
}

fn widths(table: &Table, limit: usize) -> Vec<usize> {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.chain([&table.head[column].0]).map(|cell| cell.width()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(limit / 5 * 2);
    }
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len() + GAP;
    let mut words: Vec<usize> =
        (1..table.head.len()).filter(|&column| table.head[column].1 == Align::Left).collect();
    let over = total(&widths).saturating_sub(limit);
    if over > 0 {
        let mut room: usize = words.iter().map(|&column| widths[column]).sum::<usize>().saturating_sub(over);
        // Narrow columns keep their width, and wide ones share the remaining space.
        words.sort_by_key(|&column| widths[column]);
        for (at, &column) in words.iter().enumerate() {
            let least = MIN_WORD_COLUMN.max(longest_word(table, column));
            widths[column] = widths[column].min((room / (words.len() - at)).max(least));
            room = room.saturating_sub(widths[column]);
        }
    }
    let first = widths.first().copied().unwrap_or(0);
    widths.iter().map(|&width| width.min(limit - first - 3 * GAP)).collect()
}

/// Returns the width of the longest word of a column: a command must not be cut.
fn longest_word(table: &Table, column: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    cells.flat_map(|cell| cell.split_whitespace()).map(UnicodeWidthStr::width).max().unwrap_or(0)
}

impl Layout<'_> {
    /// Returns how many columns name a row; only the first one where all of them leave no room for another one.
    fn keys(&self) -> usize {
        let keys = self.table.key_columns.clamp(1, self.table.head.len().max(2) - 1);
        let (names, others) = self.widths.split_at(keys.min(self.widths.len()));
        let widest = others.iter().max().copied().unwrap_or(0);
        let used = 2 * GAP + names.iter().map(|width| width + GAP).sum::<usize>() + widest;
        if used > self.terminal.columns() { 1 } else { keys }
    }

    /// Returns the end of the columns from `from` on that fit beside those that name a row; at least one.
    fn last_that_fits(&self, keys: usize, from: usize) -> usize {
        let widths = &self.widths;
        let mut used = GAP + widths.iter().take(keys).map(|width| width + GAP).sum::<usize>();
        let mut upto = from;
        while upto < widths.len() && (upto == from || used + widths[upto] + GAP <= self.terminal.columns()) {
            used += widths[upto] + GAP;
            upto += 1;
        }
        // What belongs to the column before it goes below with that column, where the terminal has room for both.
        let whole = (from + 1..=upto).rev().find(|&end| !self.belongs_to_previous(end));
        whole.unwrap_or(upto).max(from + 1)
    }

    /// Returns whether a column means nothing without the one before it: an interval, or the verdict about it.
    fn belongs_to_previous(&self, column: usize) -> bool {
        let is_interval = |(name, _): &(String, Align)| name.ends_with(INTERVAL);
        self.table.head.get(column).is_some_and(|head| {
            is_interval(head)
                || self.table.verdict_column == Some(column)
                    && self.table.head[..column].iter().any(is_interval)
        })
    }

    /// Appends one row, over as many lines as its longest wrapped cell needs.
    fn row(
        &self,
        cells: &[&str],
        columns: &[usize],
        mark: impl Fn(usize, &str) -> Option<Mark>,
        text: &mut String,
    ) {
        let wrapped: Vec<(usize, Option<Mark>, Vec<String>)> = columns
            .iter()
            .filter_map(|&column| {
                let cell = cells.get(column)?;
                Some((column, mark(column, cell), wrap(cell, self.widths[column])))
            })
            .collect();
        let height = wrapped.iter().map(|(.., lines)| lines.len()).max().unwrap_or(0);
        for line in 0..height {
            let mut out = String::new();
            // Spaces are written before the next word only, so that no line ends with them.
            let mut spaces = 0;
            for (column, mark, lines) in &wrapped {
                let cell = lines.get(line).map_or("", String::as_str);
                let padding = self.widths[*column].saturating_sub(cell.width());
                let (before, after) = match self.table.head[*column].1 {
                    Align::Left => (GAP, padding),
                    Align::Right => (GAP + padding, 0),
                };
                if cell.is_empty() {
                    spaces += before + after;
                    continue;
                }
                out.push_str(&" ".repeat(spaces + before));
                out.push_str(&self.terminal.paint(*mark, cell));
                spaces = after;
            }
            text.push_str(&out);
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_columns_that_name_a_row_are_repeated() {
        let text = |heads: [&str; 2]| {
            let mut table = Table::numeric("t", ("command", Align::Left), &["pid", heads[0], heads[1]]);
            table.key_columns = 2;
            table.rows.push(["sh", "12345", "1", "2"].map(str::to_owned).to_vec());
            table.text(Terminal::new(60, false))
        };
        assert_eq!(
            text(["the-first-of-the-two-figures", "the-second-of-the-two-figures"]),
            "  command    pid  the-first-of-the-two-figures
  sh       12345                             1

  command    pid  the-second-of-the-two-figures
  sh       12345                              2
"
        );
        // All of them would leave no room.
        let wide = text(["a-head-that-is-almost-as-wide-as-the-whole-terminal", "next"]);
        assert_eq!((wide.matches("command").count() > 1, wide.matches("12345").count()), (true, 1), "{wide}");
    }

    #[test]
    fn columns_that_do_not_fit_are_set_below() {
        let names: Vec<String> = (0..12).map(|n| format!("record-number-{n}")).collect();
        let heads: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = Table::numeric("t", ("workers", Align::Right), &heads);
        table.rows.push(std::iter::repeat_n("1".to_owned(), 13).collect());
        for (columns, blocks) in [(60, 6), (100, 3), (200, 2)] {
            let text = table.text(Terminal::new(columns, false));
            assert!(text.lines().all(|line| line.width() <= columns), "{text}");
            assert!(names.iter().all(|name| text.contains(name)));
            assert_eq!(text.matches("workers").count(), blocks, "{text}");
        }
    }

    #[test]
    fn an_interval_stays_with_its_figure() {
        let heads = ["speed-up", INTERVAL, "efficiency", INTERVAL];
        let mut table = Table::numeric("t", ("a rather long name", Align::Left), &heads);
        table.rows.push(["x", "1.96x", "1.94 to 1.98", "98.2 %", "97.0 to 99.2"].map(str::to_owned).to_vec());
        let heads: Vec<String> = table
            .text(Terminal::new(60, false))
            .lines()
            .filter(|line| line.contains("name"))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            heads,
            ["a rather long name speed-up 95 % interval", "a rather long name efficiency 95 % interval"]
        );
    }

    /// Regression test: the verdict stood alone below the table.
    #[test]
    fn a_verdict_stays_with_its_ratio_and_interval() {
        let heads = ["A", INTERVAL, "B", INTERVAL, "B over A", INTERVAL, "B is"];
        let mut table = Table::numeric("t", ("metric", Align::Left), &heads);
        table.verdict_column = Some(7);
        let row =
            ["requests in requests/s", "96,409", "70,671 to 129,032", "13,865", "12,979 to 15,106", "0.150"];
        table.rows.push(row.into_iter().chain(["0.117 to 0.195", "worse"]).map(str::to_owned).collect());
        for columns in 60..160 {
            let text = table.text(Terminal::new(columns, false));
            let head = text.lines().find(|line| line.contains("B is")).unwrap();
            assert!(head.contains("B over A"), "{columns}: {text}");
        }
    }

    #[test]
    fn columns_are_aligned_whatever_the_script_of_a_name() {
        let mut table = Table::numeric("t", ("name", Align::Left), &["figure"]);
        // Two columns for each letter; letters with a combining mark; one column for each letter; an emoji.
        for name in
            ["\u{65e5}\u{672c}\u{8a9e}", "e\u{301}te\u{301}", "\u{fc}ber", "\u{1f600}", "\u{6570}\u{636e}"]
        {
            table.rows.push(vec![name.to_owned(), "7".to_owned()]);
        }
        let text = table.text(Terminal::default());
        let ends: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(ends, [16; 6], "{text}");
    }

    /// Regression test: `sysctl -w kernel.threads-max=385460` was cut within the last word on 60 columns.
    #[test]
    fn words_of_a_wrapped_column_stay_whole() {
        let heads = ["runtime", "limit", "how to raise it"].map(|head| (head, Align::Left));
        let mut table = Table::new("", &heads);
        let word = "kernel.threads-max=385460";
        table.rows.push(
            ["processes", "kernel.threads-max", &format!("sysctl -w {word}")].map(str::to_owned).to_vec(),
        );
        for columns in 60..100 {
            let text = table.text(Terminal::new(columns, false));
            assert!(text.contains(word), "{columns}: {text}");
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}: {text}");
        }
    }

    #[test]
    fn only_the_column_of_verdicts_is_colored() {
        let mut table = Table::new("", &[("name", Align::Left), ("B is", Align::Left)]);
        table.verdict_column = Some(1);
        table.rows.push(vec!["worse".to_owned(), "better".to_owned()]);
        let text = table.text(Terminal::new(80, true));
        let row = text.lines().last().unwrap_or_default();
        assert_eq!(row, "  worse  \u{1b}[1m\u{1b}[38;5;28mbetter\u{1b}[0m");
    }

    proptest! {
        #[test]
        fn no_line_is_too_long(
            cells in prop::collection::vec("\\PC{0,160}", 1..9),
            align in any::<bool>(),
            columns in 0usize..300,
        ) {
            let align = if align { Align::Left } else { Align::Right };
            let head: Vec<(&str, Align)> = cells.iter().map(|_| ("head", align)).collect();
            let table = Table::new("", &head).with_rows(vec![cells]);
            let terminal = Terminal::new(columns, false);
            for line in table.text(terminal).lines() {
                prop_assert!(line.width() <= terminal.columns(), "{line}");
                prop_assert!(!line.ends_with(' '));
            }
        }
    }
}
