//! Examples in help texts: a command, and what it is for.

use super::wrap::wrap;

/// Indentation of a command, and of what is below it.
const INDENT: usize = 2;
const INDENT_BELOW: usize = 6;

/// One example.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Example<'a> {
    /// The command, without line breaks.
    pub(super) command: String,
    /// What it is for; may be empty.
    purpose: &'a str,
}

/// Parses lines of a command, two or more spaces, and its purpose. A backslash continues a command on the next line.
pub(super) fn parse(text: &str) -> Vec<Example<'_>> {
    let mut examples = Vec::new();
    let mut begun = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(start) = line.strip_suffix('\\') {
            begun += start;
            continue;
        }
        let (command, purpose) = line.split_once("  ").unwrap_or((line, ""));
        examples.push(Example { command: std::mem::take(&mut begun) + command, purpose: purpose.trim() });
    }
    examples
}

/// Lays out examples: purposes beside the commands if all fit, or else below them.
pub(super) fn section(heading: &str, examples: &[Example], width: usize) -> String {
    let longest = examples.iter().map(|example| example.command.len()).max().unwrap_or(0);
    let beside = INDENT + longest + 2;
    let fits = examples.iter().all(|example| beside + example.purpose.chars().count() <= width);
    let lines = examples.iter().map(|example| {
        if fits {
            return format!("{:INDENT$}{:<longest$}  {}", "", example.command, example.purpose)
                .trim_end()
                .to_owned();
        }
        let command = broken(&example.command, width);
        if example.purpose.is_empty() {
            return command;
        }
        format!("{command}\n{}", wrap(&format!("{:INDENT_BELOW$}{}", "", example.purpose), width).trim_end())
    });
    format!("{heading}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

/// Breaks a command into lines of a shell that fit, at spaces outside of quotes.
fn broken(command: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = " ".repeat(INDENT);
    for word in words(command) {
        let is_first = line.trim().is_empty();
        // Two more for the space and the backslash at the end.
        if !is_first && line.len() + 1 + word.len() + 2 > width {
            lines.push(format!("{line} \\"));
            line = " ".repeat(INDENT_BELOW);
        } else if !is_first {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines.join("\n")
}

/// Splits a command at spaces outside of quotes and of `$(...)`.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quote, mut depth) = (0, None, 0);
    for (at, letter) in command.char_indices() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            (' ', None) if depth == 0 => {
                words.push(&command[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&command[start..]);
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_purposes_are_told_apart() {
        let text = "  manycore eval      all of it\n  manycore compare --a free \\\n      --b close -- x\n";
        let examples = parse(text);
        assert_eq!(examples[0], Example { command: "manycore eval".to_owned(), purpose: "all of it" });
        assert_eq!(examples[1].command, "manycore compare --a free --b close -- x");
        assert_eq!(examples[1].purpose, "");
    }

    #[test]
    fn purposes_are_beside_the_commands_or_below_them() {
        let examples = parse("  manycore eval   all of it\n  manycore topo   the machine\n");
        assert_eq!(
            section("Examples:", &examples, 40),
            "Examples:\n  manycore eval  all of it\n  manycore topo  the machine\n"
        );
        assert_eq!(
            section("Examples:", &examples, 20),
            "Examples:\n  manycore eval\n      all of it\n  manycore topo\n      the machine\n"
        );
    }

    #[test]
    fn long_commands_are_broken_outside_of_quotes() {
        assert_eq!(
            broken("manycore x 'a b c d e f' --g $(h i j)", 26),
            "  manycore x \\\n      'a b c d e f' --g \\\n      $(h i j)"
        );
    }
}
