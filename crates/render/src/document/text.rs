//! A document as text for a terminal.

use super::{Document, Item, Part};
use crate::{
    table::Table,
    terminal::{Mark, Terminal, padded},
    wrap::wrap,
};
use manycore_text::names::printable_text;
use unicode_width::UnicodeWidthStr;

/// Minimum width of the words beside a name or in a tree, however long the name is.
const MIN_WORDS: usize = 24;

/// Longest label that words stand beside.
const MAX_LABEL: usize = 14;

/// Space between columns.
const GAP: usize = 2;

impl Document {
    /// Lays the document out in lines that fit the terminal. Only pictures may be wider, in a terminal of less than
    /// their smallest width.
    pub fn text(&self, terminal: Terminal) -> String {
        let mut text = String::new();
        let mut rest = self.parts.as_slice();
        while let Some(first) = rest.first() {
            // Fields, and lines of a tree, are aligned with those next to them.
            let count = rest.iter().take_while(|part| is_aligned_with(first, part)).count().max(1);
            let (parts, after) = rest.split_at(count);
            match first {
                Part::Field(..) => fields(parts, terminal, &mut text),
                Part::Branch(..) => tree(parts, terminal, &mut text),
                part => one(part, terminal, &mut text),
            }
            rest = after;
        }
        text
    }
}

fn is_aligned_with(first: &Part, next: &Part) -> bool {
    matches!((first, next), (Part::Field(..), Part::Field(..)) | (Part::Branch(..), Part::Branch(..)))
}

fn one(part: &Part, terminal: Terminal, text: &mut String) {
    match part {
        Part::Heading(title) => {
            paragraph(terminal, Some(Mark::Strong), 0, &title.to_uppercase(), text);
        }
        Part::Paragraph(mark, indent, words) => paragraph(terminal, *mark, *indent, words, text),
        Part::Item(item_) => item(item_, terminal, text),
        Part::Picture(widths) => picture(widths, terminal, text),
        Part::Table(table) => table_text(table, terminal, text),
        Part::Gap => text.push('\n'),
        Part::Field(..) | Part::Branch(..) => {}
    }
}

fn paragraph(terminal: Terminal, mark: Option<Mark>, indent: usize, words: &str, text: &mut String) {
    for line in wrap(words, terminal.sentence_columns() - indent) {
        push(text, indent, &terminal.paint(mark, &line));
    }
}

/// Appends a line, without spaces at its end.
fn push(text: &mut String, indent: usize, line: &str) {
    if !line.is_empty() {
        text.push_str(&" ".repeat(indent));
        text.push_str(line);
    }
    text.push('\n');
}

fn item(item: &Item, terminal: Terminal, text: &mut String) {
    let inner = if item.label_columns > MAX_LABEL {
        item_beginning_with_label(item, terminal, text)
    } else {
        item_beside_label(item, terminal, text)
    };
    for (what, words) in &item.details {
        let lead = if what.is_empty() { "- ".to_owned() } else { format!("{what}: ") };
        for (index, line) in wrap(words, terminal.sentence_columns() - inner - lead.len()).iter().enumerate()
        {
            let lead = if index == 0 { lead.clone() } else { " ".repeat(lead.len()) };
            push(text, inner, &format!("{lead}{line}"));
        }
    }
}

/// Writes the words beside the label, and returns the column where they begin.
fn item_beside_label(item: &Item, terminal: Terminal, text: &mut String) -> usize {
    let Item { indent, label_columns, .. } = *item;
    let inner = indent + label_columns + 1;
    let strong = item.is_answer.then_some(Mark::Strong);
    for (index, line) in wrap(&item.words, terminal.sentence_columns() - inner).iter().enumerate() {
        let label = if index == 0 { wrap(&item.label, usize::MAX).concat() } else { String::new() };
        let spaces = " ".repeat((label_columns + 1).saturating_sub(label.width()).max(1));
        let line = terminal.paint(strong, line);
        push(text, indent, &format!("{}{spaces}{line}", terminal.paint(item.mark, &label)));
    }
    inner
}

/// Writes a long label and the words as one paragraph, and returns the column where its second line begins.
fn item_beginning_with_label(item: &Item, terminal: Terminal, text: &mut String) -> usize {
    let inner = item.indent + GAP;
    let label = wrap(&item.label, usize::MAX).concat();
    let lines = wrap(&format!("{label} {}", item.words), terminal.sentence_columns() - inner);
    for (index, line) in lines.iter().enumerate() {
        match line.strip_prefix(&label).filter(|_| index == 0) {
            Some(rest) => push(text, item.indent, &format!("{}{rest}", terminal.paint(item.mark, &label))),
            None if index == 0 => push(text, item.indent, line),
            None => push(text, inner, line),
        }
    }
    inner
}

fn fields(parts: &[Part], terminal: Terminal, text: &mut String) {
    let rows = || {
        parts.iter().filter_map(|part| match part {
            Part::Field(name, value) => Some((name, value)),
            _ => None,
        })
    };
    let limit = terminal.sentence_columns() - MIN_WORDS;
    let width = rows().map(|(name, _)| name.width()).max().unwrap_or(0).min(limit);
    for (name, value) in rows() {
        let names = wrap_keeping_indent(name, width);
        let values = wrap(value, terminal.sentence_columns() - width - GAP);
        for at in 0..names.len().max(values.len()) {
            let name = padded(names.get(at).map_or("", String::as_str), width);
            let value = values.get(at).map_or("", String::as_str);
            push(text, 0, format!("{name}{:GAP$}{value}", "").trim_end());
        }
    }
}

/// Lines of a tree: what stands beside is aligned, and lists that are too long continue below their start. Where even
/// that is too wide, labels are wrapped, too.
fn tree(parts: &[Part], terminal: Terminal, text: &mut String) {
    let rows = || {
        parts.iter().filter_map(|part| match part {
            Part::Branch(label, beside) => Some((label, beside)),
            _ => None,
        })
    };
    let both = || rows().filter(|(_, beside)| !beside.is_empty());
    let columns = terminal.columns();
    let besides = both().map(|(_, beside)| beside.width()).max().unwrap_or(0);
    let limit = columns.saturating_sub(besides + GAP).max(columns - MIN_WORDS - GAP);
    let width = both().map(|(label, _)| label.width()).max().unwrap_or(0).min(limit);
    for (label, beside) in rows() {
        let room = if beside.is_empty() { columns } else { width };
        let labels = wrap_keeping_indent(label, room);
        let besides = wrap_list(beside, columns - width - GAP);
        for at in 0..labels.len().max(besides.len()) {
            let stem = stem(label);
            let label = labels.get(at).map_or(stem.as_str(), String::as_str);
            let line = match besides.get(at) {
                Some(beside) if !beside.is_empty() => format!("{}{:GAP$}{beside}", padded(label, width), ""),
                _ => label.to_owned(),
            };
            push(text, 0, line.trim_end());
        }
    }
}

/// Returns the part of a tree's line that continues below it: `│  ├─ core` continues as `│  │  `.
fn stem(label: &str) -> String {
    let drawn = label.chars().take_while(|letter| matches!(letter, ' ' | '│' | '├' | '└' | '─'));
    drawn.map(|letter| if matches!(letter, '│' | '├') { '│' } else { ' ' }).collect()
}

/// Wraps the words of a label; further lines are indented as the first one is.
fn wrap_keeping_indent(label: &str, width: usize) -> Vec<String> {
    if label.width() <= width {
        return vec![printable_text(label)];
    }
    let stem = stem(label);
    let drawn: String = label.chars().take(stem.chars().count()).collect();
    let words = &label[drawn.len()..];
    let lines = wrap(words, width.saturating_sub(stem.width()).max(MIN_WORDS / 2));
    lines
        .iter()
        .enumerate()
        .map(|(at, line)| format!("{}{line}", if at == 0 { &drawn } else { &stem }))
        .collect()
}

/// Wraps a list of CPUs after commas, and other words between them.
fn wrap_list(words: &str, width: usize) -> Vec<String> {
    if words.width() <= width {
        return wrap(words, width);
    }
    let lines = wrap(&words.replace(',', ", "), width);
    lines.iter().map(|line| line.replace(", ", ",")).collect()
}

fn picture(widths: &[String], terminal: Terminal, text: &mut String) {
    let width = |picture: &str| picture.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
    let fits = widths.iter().find(|picture| width(picture) <= terminal.columns());
    if let Some(picture) = fits.or(widths.last()) {
        text.push_str(&printable_text(picture));
    }
}

fn table_text(table: &Table, terminal: Terminal, text: &mut String) {
    if !table.title.is_empty() {
        paragraph(terminal, None, GAP, &format!("{}:", table.title), text);
    }
    text.push_str(&table.text(terminal));
    for note in &table.notes {
        paragraph(terminal, None, GAP, note, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Align;
    use proptest::prelude::*;

    fn sample() -> Document {
        let mut document = Document::new();
        document.heading("Findings");
        document.item(Item {
            is_answer: true,
            indent: 2,
            label_columns: 9,
            ..Item::new("ANSWER", Some(Mark::Strong), "B is better than A.")
                .with_detail("", "1.31 (95 %: 1.2 to 1.4)")
        });
        document.item(Item::new("risk", Some(Mark::Warning), "it waits").with_detail("fix", "do not wait"));
        document.gap();
        document.field("Host", "\u{6570}\u{636e}\u{5e93}");
        document.field("\u{6570}\u{636e}\u{5e93}", "b");
        document.branch("package 0", "CPUs 0-3");
        document.branch("├─ 2 × core of 2 CPUs", "CPUs 0-3");
        document
    }

    #[test]
    fn parts_are_aligned_and_painted() {
        let plain = "\
FINDINGS
  ANSWER    B is better than A.
            - 1.31 (95 %: 1.2 to 1.4)
risk it waits
     fix: do not wait

Host    \u{6570}\u{636e}\u{5e93}
\u{6570}\u{636e}\u{5e93}  b
package 0              CPUs 0-3
├─ 2 × core of 2 CPUs  CPUs 0-3
";
        assert_eq!(sample().text(Terminal::new(80, false)), plain);
        let colored = sample().text(Terminal::new(80, true));
        assert!(
            colored.starts_with("\u{1b}[1mFINDINGS\u{1b}[0m\n  \u{1b}[1mANSWER\u{1b}[0m    \u{1b}[1mB is")
        );
        assert!(colored.contains("\u{1b}[38;5;130mrisk\u{1b}[0m it waits"));
    }

    #[test]
    fn a_tree_keeps_its_lines_in_a_narrow_terminal() {
        let mut document = Document::new();
        document.branch("package 0", "CPUs 0-6,8-15,32-38,40-47,50-54,60-70,80-90");
        document
            .branch("├─ 7 × performance core of 2 CPUs: L2 2 MiB, L1d 48 KiB, L1i 32 KiB", "CPUs 0-6,32-38");
        document.branch("│  └─ last", "CPUs 1");
        let text = document.text(Terminal::new(60, false));
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert!(text.lines().skip(1).take(2).all(|line| line.starts_with(['│', '├', ' '])), "{text}");
    }

    #[test]
    fn the_widest_picture_that_fits_is_shown() {
        let mut document = Document::new();
        document.picture(vec!["x".repeat(90) + "\n", "y".repeat(70) + "\n", "z".repeat(50) + "\n"]);
        let first = |columns| document.text(Terminal::new(columns, false)).chars().next();
        assert_eq!([60, 80, 140].map(first), [Some('z'), Some('y'), Some('x')]);
    }

    proptest! {
        #[test]
        fn no_part_is_wider_than_the_terminal(words in "\\PC{0,200}", columns in 0usize..250) {
            let mut document = Document::new();
            document.heading(words.clone());
            document.paragraph(words.clone());
            document.item(Item::new("label", None, words.clone()).with_detail("fix", words.clone()));
            document.field(words.clone(), words.clone());
            document.branch(words.clone(), words.clone());
            let table = Table::new(words.clone(), &[(words.as_str(), Align::Left), ("b", Align::Right)]);
            document.table(table.with_rows(vec![vec![words.clone(), words.clone()]]));
            let terminal = Terminal::new(columns, false);
            for line in document.text(terminal).lines() {
                prop_assert!(line.width() <= terminal.columns(), "{line:?}");
            }
        }

        #[test]
        fn control_characters_never_pass(words in "[a \u{1b}\u{9b}\u{7}\u{202e}\n,]{0,60}") {
            let mut document = Document::new();
            document.heading(words.clone());
            document.paragraph(words.clone());
            document.item(Item::new(words.clone(), None, words.clone()).with_detail("", words.clone()));
            document.field(words.clone(), words.clone());
            document.branch(words.clone(), words.clone());
            document.picture(vec![words.clone()]);
            document.table(Table::new(words.clone(), &[(&words, Align::Left)]).with_rows(vec![vec![words.clone()]]));
            let text = document.text(Terminal::default()) + &document.markdown();
            let is_safe = |letter: char| letter == '\n' || manycore_text::names::is_shown(letter);
            prop_assert!(text.chars().all(is_safe), "{text:?}");
        }
    }
}
