//! What a subcommand prints: parts without a layout. A document is laid out as text for a terminal ([`text`]), or
//! written as Markdown ([`markdown`]) or CSV ([`csv`]). Control characters never reach any of them.
//!
//! [`text`]: Document::text
//! [`markdown`]: Document::markdown
//! [`csv`]: Document::csv

mod csv;
mod markdown;
mod text;

use crate::{
    table::Table,
    terminal::{Mark, Terminal},
    wrap::columns_of,
};
use manycore_text::{names::printable, units::counted};
use std::fmt::{self, Display, Formatter};

/// How much of a result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent<'a> {
    /// Everything, also the tables of details.
    Full,
    /// The most important findings. The hint says how to get the others.
    Brief {
        /// Ends the sentence that counts what was left out.
        hint: &'a str,
    },
}

impl Extent<'_> {
    /// Number of findings of a brief result.
    const BRIEF_FINDINGS: usize = 5;

    /// Returns the maximum number of findings.
    pub fn findings(self) -> usize {
        match self {
            Self::Full => usize::MAX,
            Self::Brief { .. } => Self::BRIEF_FINDINGS,
        }
    }
}

/// A document.
#[derive(Clone, Debug, Default)]
pub struct Document {
    parts: Vec<Part>,
}

/// A part of a document.
#[derive(Clone, Debug)]
enum Part {
    /// A title of what follows.
    Heading(String),
    /// Sentences; the second field is the indentation, in columns.
    Paragraph(Option<Mark>, usize, String),
    /// An entry of a list.
    Item(Item),
    /// A name and its value; neighbours are aligned.
    Field(String, String),
    /// A line of a tree, and what stands beside it; neighbours are aligned.
    Branch(String, String),
    /// The same picture in several widths, the widest first.
    Picture(Vec<String>),
    Table(Table),
    /// An empty line.
    Gap,
}

/// An entry of a list: a label, what it says, and details below it.
#[derive(Clone, Debug)]
pub struct Item {
    /// The label, such as a kind of finding.
    pub label: String,
    /// The weight of the label.
    pub mark: Option<Mark>,
    /// Whether the words have the weight of an answer, too.
    pub is_answer: bool,
    /// What it says.
    pub words: String,
    /// Details, each with what it is: empty for evidence, or `fix`.
    pub details: Vec<(&'static str, String)>,
    /// Indentation, in columns.
    pub indent: usize,
    /// Width of the column of labels.
    pub label_columns: usize,
}

impl Item {
    /// Returns an entry without details.
    pub fn new(label: impl Into<String>, mark: Option<Mark>, words: impl Into<String>) -> Self {
        let label = label.into();
        Self {
            label_columns: columns_of(&label),
            label,
            mark,
            is_answer: false,
            words: words.into(),
            details: Vec::new(),
            indent: 0,
        }
    }

    /// Returns the entry with a detail, which is shown below it.
    pub fn with_detail(mut self, what: &'static str, words: impl Into<String>) -> Self {
        self.details.push((what, words.into()));
        self
    }
}

impl Document {
    /// Returns an empty document.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a title.
    pub fn heading(&mut self, title: impl Into<String>) {
        self.parts.push(Part::Heading(title.into()));
    }

    /// Adds sentences.
    pub fn paragraph(&mut self, words: impl Into<String>) {
        self.indented(0, words);
    }

    /// Adds sentences that are indented by so many columns.
    pub fn indented(&mut self, indent: usize, words: impl Into<String>) {
        self.parts.push(Part::Paragraph(None, indent, words.into()));
    }

    /// Adds a title whose letters stay as they are.
    pub fn strong(&mut self, title: impl Into<String>) {
        self.marked(Mark::Strong, title);
    }

    /// Adds sentences with a weight.
    pub fn marked(&mut self, mark: Mark, words: impl Into<String>) {
        self.parts.push(Part::Paragraph(Some(mark), 0, words.into()));
    }

    /// Adds an entry of a list.
    pub fn item(&mut self, item: Item) {
        self.parts.push(Part::Item(item));
    }

    /// Adds a name and its value.
    pub fn field(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.parts.push(Part::Field(printable(&name.into()), value.into()));
    }

    /// Adds a line of a tree, and what stands beside it.
    pub fn branch(&mut self, label: impl Into<String>, beside: impl Into<String>) {
        self.parts.push(Part::Branch(printable(&label.into()), printable(&beside.into())));
    }

    /// Adds lines that are not wrapped: the same picture in several widths, the widest first.
    pub fn picture(&mut self, widths: Vec<String>) {
        self.parts.push(Part::Picture(widths));
    }

    /// Adds a table. One without rows is added, too.
    pub fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.parts.push(Part::Gap);
    }

    /// Says how many of so many findings were left out, if any.
    pub fn left_out(&mut self, findings: usize, extent: Extent) {
        let Extent::Brief { hint } = extent else { return };
        let count = findings.saturating_sub(extent.findings());
        if count > 0 {
            self.gap();
            self.paragraph(format!("{}: {hint}", counted(count, "more finding")));
        }
    }

    /// Adds the parts of another document.
    pub fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Returns whether it has no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Display for Document {
    /// Writes the text of a file: 100 columns, no colours.
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        out.write_str(&self.text(Terminal::default()))
    }
}
