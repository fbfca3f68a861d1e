//! Splitting of an unfinished command line.

/// Splits a command line into words as a shell does. The line may end inside of quotes. The last word is the one at the
/// cursor: it is empty after a space.
pub fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let is_new = words.last().is_some_and(String::is_empty);
        match (letter, quote) {
            (' ' | '\t' | '\n', None) if is_new => {}
            (' ' | '\t' | '\n', None) => words.push(String::new()),
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => push(&mut words, letters.next()),
            (letter, _) => push(&mut words, Some(letter)),
        }
    }
    words
}

fn push(words: &mut [String], letter: Option<char>) {
    if let (Some(word), Some(letter)) = (words.last_mut(), letter) {
        word.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_lines_are_split() {
        assert_eq!(split("a b"), ["a", "b"]);
        assert_eq!(split("a  b "), ["a", "b", ""]);
        assert_eq!(split("a 'b c"), ["a", "b c"]);
        assert_eq!(split("a \"b\\\" c\" d\\ e"), ["a", "b\" c", "d e"]);
        assert_eq!(split(""), [""]);
        assert_eq!(split("a\\"), ["a"]);
    }
}
