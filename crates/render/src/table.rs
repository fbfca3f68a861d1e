//! Tables as data. `layout` sets them for a terminal; [`crate::document`] writes them as Markdown and as CSV.

mod layout;

use crate::terminal::Terminal;

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
    /// Whether it holds details: collapsed on a page, omitted from a brief text.
    pub is_detail: bool,
    /// Number of the first columns that name a row: they are repeated where columns are set below.
    pub key_columns: usize,
    /// The column of verdicts, whose words have a weight and a colour ([`crate::terminal::Mark::of_verdict`]).
    pub verdict_column: Option<usize>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(title: impl Into<String>, head: &[(&str, Align)]) -> Self {
        let head = head.iter().map(|&(name, align)| (name.to_owned(), align)).collect();
        Self {
            title: title.into(),
            head,
            rows: Vec::new(),
            notes: Vec::new(),
            is_detail: false,
            key_columns: 1,
            verdict_column: None,
        }
    }

    /// Returns a table of figures whose first column is `first`.
    pub fn numeric(title: impl Into<String>, first: (&str, Align), columns: &[&str]) -> Self {
        let numeric = columns.iter().map(|&column| (column, Align::Right));
        Self::new(title, &std::iter::once(first).chain(numeric).collect::<Vec<_>>())
    }

    /// Returns the table with these rows.
    pub fn with_rows(self, rows: Vec<Vec<String>>) -> Self {
        Self { rows, ..self }
    }

    /// Renders head and rows in lines that fit the terminal. Words are wrapped. Columns that do not fit are set
    /// below, after those that name a row: nothing is left out. An interval stays with its figure.
    pub fn text(&self, terminal: Terminal) -> String {
        layout::text(self, terminal)
    }
}
