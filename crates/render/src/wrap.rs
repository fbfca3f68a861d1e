//! Breaks text into lines. Widths are columns of a terminal: a letter of an East Asian script takes two, a combining
//! mark none.

use manycore_text::names::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Breaks `text` between words into lines of at most `width` columns. Longer words are cut. A letter that
/// is wider than the line has a line of its own. Control characters are replaced.
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

    proptest! {
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
