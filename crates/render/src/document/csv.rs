//! The tables of a document as CSV (RFC 4180).

use super::{Document, Part};
use crate::{table::Table, terminal::Mark};
use manycore_text::names::printable;

impl Document {
    /// Writes the tables, and the lists and fields as tables. A single table is written as it is. Several are
    /// separated by an empty line and begin with their title after `# `. Empty if there is nothing of that kind.
    pub fn csv(&self) -> String {
        match self.csv_tables().as_slice() {
            [(_, rows)] => lines(rows),
            _ => self.csv_with_titles(),
        }
    }

    /// As [`Self::csv`], but a single table has its title, too.
    pub fn csv_with_titles(&self) -> String {
        let tables = self.csv_tables();
        let blocks = tables.iter().map(|(title, rows)| match title.as_str() {
            "" => lines(rows),
            title => format!("# {}\n{}", printable(title), lines(rows)),
        });
        blocks.collect::<Vec<_>>().join("\n")
    }

    /// Returns title and rows of each table; neighbouring entries and fields make one table.
    fn csv_tables(&self) -> Vec<(String, Vec<Vec<String>>)> {
        let mut tables: Vec<(String, Vec<Vec<String>>)> = Vec::new();
        let mut heading = String::new();
        let mut was: Option<&[&str]> = None;
        for part in &self.parts {
            if let Some((head, row)) = entry(part) {
                if was != Some(head) {
                    tables.push((heading.clone(), vec![head.iter().map(|&name| name.to_owned()).collect()]));
                }
                if let Some((_, rows)) = tables.last_mut() {
                    rows.push(row);
                }
                was = Some(head);
                continue;
            }
            match part {
                // An empty line between entries does not end their table.
                Part::Gap => continue,
                Part::Heading(title) | Part::Paragraph(Some(Mark::Strong), _, title) => {
                    heading.clone_from(title);
                }
                Part::Table(table) => tables.push((title(&heading, table), rows(table))),
                _ => {}
            }
            was = None;
        }
        tables
    }
}

/// Returns head and row of an entry of a list, of a field and of a line of a tree.
fn entry(part: &Part) -> Option<(&'static [&'static str], Vec<String>)> {
    Some(match part {
        Part::Item(item) => {
            let detail = |(what, words): &(&str, String)| match *what {
                "" => words.clone(),
                what => format!("{what}: {words}"),
            };
            let details: Vec<String> = item.details.iter().map(detail).collect();
            (&["kind", "text", "details"], vec![item.label.clone(), item.words.clone(), details.join("; ")])
        }
        Part::Field(name, value) => (&["name", "value"], vec![name.clone(), value.clone()]),
        Part::Branch(label, beside) => {
            let label = label.trim_start_matches([' ', '│', '├', '└', '─']);
            (&["unit", "CPUs"], vec![label.to_owned(), beside.clone()])
        }
        _ => return None,
    })
}

fn title(heading: &str, table: &Table) -> String {
    match (heading, table.title.as_str()) {
        ("", title) | (title, "") => title.to_owned(),
        (heading, title) => format!("{heading}: {title}"),
    }
}

fn rows(table: &Table) -> Vec<Vec<String>> {
    let head = table.head.iter().map(|(name, _)| name.clone()).collect();
    std::iter::once(head).chain(table.rows.iter().cloned()).collect()
}

fn lines(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
    rows.iter().map(line).collect()
}

/// Quotes a cell where it contains a separator or a quote. Control characters are replaced.
fn quoted(cell: &str) -> String {
    let cell = printable(&cell.replace(['\n', '\r', '\t'], " "));
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document::Item, table::Align};

    #[test]
    fn one_table_is_plain_and_several_have_titles() {
        let mut document = Document::new();
        document.heading("Speed");
        document.paragraph("words are not in the tables");
        let mut table = Table::numeric("by name", ("name", Align::Left), &["x"]);
        table.rows.push(vec!["a, \"b\"".to_owned(), "1".to_owned()]);
        document.table(table);
        let one = "name,x\n\"a, \"\"b\"\"\",1\n";
        assert_eq!(document.csv(), one);
        document.heading("Findings");
        document.item(Item::new("risk", None, "it waits").with_detail("", "a").with_detail("fix", "b"));
        document.gap();
        document.item(Item::new("risk", None, "it stops"));
        assert_eq!(
            document.csv(),
            format!(
                "# Speed: by name\n{one}\n# Findings\nkind,text,details\nrisk,it waits,a; fix: b\nrisk,it stops,\n"
            )
        );
        assert_eq!(Document::new().csv(), "");
    }
}
