//! A document as Markdown, with tables as GitHub and others show them.

use super::{Document, Item, Part};
use crate::table::{Align, Table};
use manycore_text::names::{printable, printable_text};

impl Document {
    /// Writes the document as Markdown. All words are escaped: none of them is a link, an image or HTML.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let mut was: Option<&Part> = None;
        for part in &self.parts {
            if was.is_some_and(|was| !continues(was, part)) && !text.ends_with("\n\n") {
                text.push('\n');
            }
            write(part, &mut text);
            was = Some(part);
        }
        // Lines of a tree stand in one block.
        text.replace("```\n```text\n", "")
    }
}

/// Returns whether a part belongs to the list or the block of the part before it.
fn continues(was: &Part, part: &Part) -> bool {
    matches!(
        (was, part),
        (Part::Item(_), Part::Item(_))
            | (Part::Field(..), Part::Field(..))
            | (Part::Branch(..), Part::Branch(..))
    )
}

fn write(part: &Part, text: &mut String) {
    match part {
        Part::Heading(title) => text.push_str(&format!("## {}\n", escape(title))),
        Part::Paragraph(None, _, words) => text.push_str(&format!("{}\n", escape(words))),
        Part::Paragraph(Some(_), _, words) => text.push_str(&format!("{}\n", bold(words))),
        Part::Item(one) => item(one, text),
        Part::Field(name, value) => text.push_str(&format!("- {}: {}\n", bold(name), escape(value))),
        Part::Branch(label, beside) => {
            text.push_str(&format!("```text\n{}\n```\n", block(&format!("{label}  {beside}"))));
        }
        Part::Picture(widths) => {
            let widest = widths.first().map_or("", String::as_str);
            text.push_str(&format!("```text\n{}\n```\n", block(widest)));
        }
        Part::Table(one) => table(one, text),
        Part::Gap => {}
    }
}

fn item(item: &Item, text: &mut String) {
    text.push_str("- ");
    if !item.label.is_empty() {
        text.push_str(&format!("{} ", bold(&item.label)));
    }
    text.push_str(&if item.is_answer { bold(&item.words) } else { escape(&item.words) });
    text.push('\n');
    for (what, words) in &item.details {
        let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
        text.push_str(&format!("  - {what}{}\n", escape(words)));
    }
}

fn table(table: &Table, text: &mut String) {
    if !table.title.is_empty() {
        text.push_str(&format!("{}:\n\n", escape(&table.title)));
    }
    let line =
        |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    text.push_str(&line(&mut table.head.iter().map(|(name, _)| escape(name))));
    let rule = |align: &Align| if *align == Align::Right { "---:" } else { ":---" }.to_owned();
    text.push_str(&line(&mut table.head.iter().map(|(_, align)| rule(align))));
    for row in &table.rows {
        text.push_str(&line(&mut row.iter().map(|cell| escape(cell))));
    }
    for note in &table.notes {
        text.push_str(&format!("\n{}\n", escape(note)));
    }
}

fn bold(words: &str) -> String {
    let words = escape(words);
    if words.is_empty() { words } else { format!("**{words}**") }
}

/// Escapes what Markdown interprets, and puts the words on one line.
fn escape(words: &str) -> String {
    let mut text = String::new();
    for letter in printable(&words.split_whitespace().collect::<Vec<_>>().join(" ")).chars() {
        match letter {
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '&' => text.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => text.extend(['\\', letter]),
            letter => text.push(letter),
        }
    }
    text
}

/// Makes the lines of a block of code; none of them can end the block.
fn block(lines: &str) -> String {
    printable_text(lines.trim_matches('\n')).replace("```", "'''").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Mark;

    #[test]
    fn a_document_as_markdown() {
        let mut document = Document::new();
        document.heading("Findings");
        document.item(Item {
            is_answer: true,
            ..Item::new("ANSWER", Some(Mark::Strong), "B is better").with_detail("", "1.3 (95 %: 1.2 to 1.4)")
        });
        document.item(Item::new("found", None, "a | b <img> [x](y)"));
        document.gap();
        let mut table = Table::numeric("Speed", ("name", Align::Left), &["x"]);
        table.rows.push(vec!["\u{6570}\u{636e}\u{5e93}|".to_owned(), "1".to_owned()]);
        table.notes.push("How to read it.".to_owned());
        document.table(table);
        document.branch("package 0", "CPUs 0-3");
        document.branch("└─ core 0", "CPU 0");
        assert_eq!(
            document.markdown(),
            "\
## Findings

- **ANSWER** **B is better**
  - 1.3 (95 %: 1.2 to 1.4)
- **found** a \\| b &lt;img&gt; \\[x\\](y)

Speed:

| name | x |
| :--- | ---: |
| \u{6570}\u{636e}\u{5e93}\\| | 1 |

How to read it.

```text
package 0  CPUs 0-3
└─ core 0  CPU 0
```
"
        );
    }
}
