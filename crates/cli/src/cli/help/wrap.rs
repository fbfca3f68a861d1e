//! Wrapping of help texts that have lists and samples in them.

/// A description that begins further to the right than this is not the indentation of its further lines.
const MAX_HANGING: usize = 32;

/// Breaks the lines of a text at `width` columns. Further lines of a paragraph begin below its first word, those of an
/// entry (a term, two or more spaces, a description) below its description.
pub fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        wrap_line(line, width, &mut out);
    }
    out
}

fn wrap_line(line: &str, width: usize, out: &mut String) {
    if line.chars().count() <= width {
        out.push_str(line.trim_end());
        out.push('\n');
        return;
    }
    let hanging = hanging(line);
    // Up to the description, the spaces of an entry are kept.
    let (lead, rest) = line.split_at(hanging);
    let mut current = lead.to_owned();
    for word in rest.split_whitespace() {
        let is_empty = current.chars().count() <= hanging;
        if !is_empty && current.chars().count() + 1 + word.chars().count() > width {
            out.push_str(current.trim_end());
            out.push('\n');
            current = " ".repeat(hanging);
        } else if !is_empty {
            current.push(' ');
        }
        current += word;
    }
    out.push_str(current.trim_end());
    out.push('\n');
}

/// Returns the column of the description of an entry, or else that of the first word.
fn hanging(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    let description = line[indent..].find("  ").map(|gap| {
        let after = indent + gap;
        after + line[after..].len() - line[after..].trim_start().len()
    });
    description.filter(|&column| indent > 0 && column <= MAX_HANGING).unwrap_or(indent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_and_entries_keep_their_indentation() {
        let text = "one two three four\n  a  b c d e f g h i j\n    indented words here\n\nshort\n";
        assert_eq!(
            wrap(text, 12),
            "one two\nthree four\n  a  b c d e\n     f g h i\n     j\n    indented\n    words\n    here\n\nshort\n"
        );
    }

    #[test]
    fn words_longer_than_a_line_are_kept() {
        assert_eq!(wrap("a bbbbbbbbbb c", 5), "a\nbbbbbbbbbb\nc\n");
        assert_eq!(wrap("", 5), "");
    }
}
