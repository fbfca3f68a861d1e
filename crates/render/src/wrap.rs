//! Breaks text into lines. Widths are columns of a terminal: a letter of an East Asian script takes two, a combining
//! mark none.

use manycore_text::names::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Units that stay on the line of their figure.
const UNITS: [&str; 20] = [
    "%", "s", "ms", "µs", "us", "ns", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "MB/s",
    "GB/s", "MHz", "GHz",
];

/// Breaks `text` between words into lines of at most `width` columns. Longer words are cut; a figure and its unit stay
/// together. A letter that is wider than the line has a line of its own. Control characters are replaced.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words_with_units(text, width) {
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

/// Splits `text` into words; a figure and the unit behind it are one word, if they fit a line.
fn words_with_units(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(printable) {
        let is_unit = UNITS.contains(&word.trim_end_matches(|letter| ".,;:)".contains(letter)));
        match words.last_mut() {
            Some(figure)
                if is_unit
                    && figure.ends_with(|letter: char| letter.is_ascii_digit())
                    && figure.width() + 1 + word.width() <= width =>
            {
                figure.push(' ');
                figure.push_str(&word);
            }
            _ => words.push(word),
        }
    }
    words
}

/// Breaks the lines of a message at `width` columns. Lines that fit are kept as they are. A command to type, or a word,
/// that is longer than a line is not cut and has a line of its own, so that it can be copied.
pub fn wrap_message(text: &str, width: usize) -> String {
    let lines = text.lines().map(|line| {
        if line.width() <= width {
            return line.to_owned();
        }
        let mut wrapped = String::new();
        let mut used = 0;
        for piece in pieces(line) {
            let columns = piece.width();
            if used > 0 && used + 1 + columns > width {
                wrapped.push('\n');
                used = 0;
            } else if used > 0 {
                wrapped.push(' ');
                used += 1;
            }
            wrapped.push_str(&piece);
            used += columns;
        }
        wrapped
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Splits a line of a message into words and commands.
fn pieces(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let end = command_end(&words, at).unwrap_or(at + 1);
        pieces.push(words[at..end].join(" "));
        at = end;
    }
    pieces
}

/// Returns the end of the command that begins with the word at `at`: in parentheses or quotes, behind a colon, or an
/// option with its value.
fn command_end(words: &[&str], at: usize) -> Option<usize> {
    let word = words[at];
    let last = |closing: char| {
        let ends = |word: &&str| word.trim_end_matches(|letter| ".,;:".contains(letter)).ends_with(closing);
        words[at..].iter().position(ends).map(|length| at + length + 1)
    };
    let before = &words[..at];
    let is_after_colon = before.last().is_some_and(|word| word.ends_with(':'));
    let count =
        |letter: char| before.iter().flat_map(|word| word.chars()).filter(|found| *found == letter).count();
    match word {
        "'manycore" | "'sudo" => last('\''),
        "(manycore" | "(sudo" => last(')'),
        _ if is_after_colon && count('(') > count(')') && is_program(word) => last(')'),
        _ if is_after_colon && (is_program(word) || before[0] == "Type" || before[0] == "Type:") => {
            let ends = words[at..].iter().position(|word| word.ends_with(';'));
            Some(ends.map_or(words.len(), |length| at + length + 1))
        }
        _ if word.starts_with("--") && word.len() > 2 && !word.contains('=') => {
            words.get(at + 1).filter(|next| !next.starts_with('-')).map(|_| at + 2)
        }
        _ => None,
    }
}

fn is_program(word: &str) -> bool {
    word == "manycore" || word == "sudo"
}

/// Returns the number of columns that `text` takes in a terminal.
pub fn columns_of(text: &str) -> usize {
    text.width()
}

/// Returns the start of `text` that fits into `columns` of a terminal.
pub fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, letter)| {
        used += letter.width().unwrap_or(0);
        used > columns
    });
    end.map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(wrap("\u{65e5}\u{672c}\u{8a9e}", 5), ["\u{65e5}\u{672c}", "\u{8a9e}"]);
        assert_eq!(cut("\u{65e5}\u{672c}\u{8a9e}", 5), "\u{65e5}\u{672c}");
        assert_eq!(["", "ab"].map(|text| cut(text, 9)), ["", "ab"]);
    }

    #[test]
    fn a_figure_stays_with_its_unit() {
        assert_eq!(wrap("about 12 s, or 5 %", 8), ["about", "12 s, or", "5 %"]);
        assert_eq!(wrap("it is 12 seconds", 8), ["it is 12", "seconds"]);
        // A line that is too narrow for both.
        assert_eq!(wrap("123456 ms", 7), ["123456", "ms"]);
    }

    #[test]
    fn commands_of_messages_are_not_cut() {
        let said =
            "manycore: interrupted; the results so far are in out/x (show them with: manycore report out/x)";
        assert_eq!(
            wrap_message(said, 58),
            "manycore: interrupted; the results so far are in out/x\n(show them with: manycore report out/x)"
        );
        let typed = "only one command\nType: manycore compare 'a long command' 'COMMAND B' and more of it";
        assert_eq!(
            wrap_message(typed, 30),
            "only one command\nType:\nmanycore compare 'a long command' 'COMMAND B' and more of it"
        );
        assert_eq!(
            wrap_message("4 tasks moved; 'manycore undo pin-1' restores their CPUs", 24),
            "4 tasks moved;\n'manycore undo pin-1'\nrestores their CPUs"
        );
        assert_eq!(
            wrap_message("too few runs fit: use --budget 23s", 29),
            "too few runs fit: use\n--budget 23s"
        );
        assert_eq!(wrap_message("  a table\n  of 1 line", 30), "  a table\n  of 1 line");
    }

    proptest! {
        #[test]
        fn a_message_keeps_its_words(text in "[a-z'(): -]{0,120}", width in 1usize..80) {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&wrap_message(&text, width)), words(&text));
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
