//! Suggests known names for a mistyped one, and makes names safe to print.

use std::collections::BTreeSet;

/// Maximum number of names in an error message.
const MAX_NAMES: usize = 4;

/// Returns the known names with the smallest edit distance to `name`, nearest first, at most four.
pub fn similar<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Vec<String> {
    let mut names: Vec<(usize, &str)> =
        known.into_iter().map(|known| (changes(known, name), known)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().take(MAX_NAMES).map(|(_, known)| printable(known)).collect()
}

/// Returns the known name of which `name` is probably a misspelling: fewer than half of its letters, and at most two,
/// are changed.
pub fn misspelt<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let nearest = known.into_iter().map(|known| (changes(known, name), known)).min()?;
    (nearest.0 <= 2 && 2 * nearest.0 < nearest.1.chars().count()).then_some(nearest.1)
}

/// Makes a name that a process or a file has chosen safe for one line of output: each character that is not
/// [shown](is_shown) is replaced by U+FFFD.
pub fn printable(name: &str) -> String {
    name.chars().map(|letter| if is_shown(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Makes a text of several lines and columns safe to print, as [`printable`] does, but keeps line feeds and
/// tabs.
pub fn printable_text(text: &str) -> String {
    let shown = |letter: char| is_shown(letter) || matches!(letter, '\n' | '\t');
    text.chars().map(|letter| if shown(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Replaces the characters of a JSON text that are not [shown](is_shown) by `\u` escapes. A JSON reader
/// gets the text unchanged; a terminal does not interpret it.
pub fn printable_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_shown(letter) || matches!(letter, '\n' | '\t') {
            text.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// Returns whether a character is visible where it stands. Not visible are control characters, which a
/// terminal interprets; characters that change the direction of the surrounding text; line separators; and
/// characters without width, which make two different names look the same (`Default_Ignorable_Code_Point`
/// of Unicode's `DerivedCoreProperties.txt`).
pub fn is_shown(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Lists the known names for an error message: all where they are few, otherwise those nearest to `name`.
pub fn instead<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> String {
    let known: BTreeSet<&str> = known.into_iter().collect();
    let nearest = similar(known.iter().copied(), name).join(", ");
    match known.len() {
        0 => "none exists".to_owned(),
        1 => format!("there is {nearest}"),
        few if few <= MAX_NAMES => format!("there are {nearest}"),
        many => format!("nearest of {many} are {nearest}"),
    }
}

/// Joins items in a sentence: `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Returns the number of characters to change, add or remove (Levenshtein distance) in the first 40.
fn changes(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().take(40).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for column in 1..row.len() {
            let changed = diagonal + usize::from(b[column - 1] != letter);
            diagonal = row[column];
            row[column] = changed.min(row[column] + 1).min(row[column - 1] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_near_to_a_known_one() {
        let known = ["place", "nice", "env"];
        assert_eq!(
            ["palce", "niec", "place"].map(|name| misspelt(known, name)),
            [Some("place"), None, Some("place")]
        );
        assert_eq!(["fast", "base", "node", "new"].map(|name| misspelt(known, name)), [None; 4]);
    }

    #[test]
    fn the_nearest_come_first_and_once() {
        assert_eq!(
            similar(["lo", "eth10", "eth1", "eth1", "nvme0n1"], "eth"),
            ["eth1", "eth10", "lo", "nvme0n1"]
        );
        assert_eq!(similar(["a", "b", "c", "d", "e"], "").len(), MAX_NAMES);
        assert!(similar([], "eth0").is_empty());
    }

    #[test]
    fn control_and_invisible_characters_are_replaced() {
        // Escape, bell, delete, a C1 control; right-to-left override and isolate; zero-width space and
        // joiner; a tag.
        let nasty = "a\u{1b}[2J\u{7}\u{7f}\u{9b}\u{202e}\u{2066}\u{200b}\u{200d}\u{2028}\u{feff}\u{e0041}\nz";
        assert_eq!(printable(nasty), format!("a{0}[2J{1}z", '\u{fffd}', "\u{fffd}".repeat(11)));
        assert_eq!(printable_text("a\tb\n\u{202e}"), "a\tb\n\u{fffd}");
        let plain = "Käse \\x2d \"q\" नमस्ते ไทย é 中文 שלום →";
        assert_eq!((printable(plain), printable_text(plain)), (plain.to_owned(), plain.to_owned()));
    }

    #[test]
    fn json_escapes_control_and_invisible_characters() {
        assert_eq!(
            printable_json("{\n \"name\": \"a\u{202e}\u{9b}\u{e0041}\"}"),
            "{\n \"name\": \"a\\u202e\\u009b\\udb40\\udc41\"}"
        );
    }

    #[test]
    fn names_that_are_not_similar_are_not_suggested() {
        assert_eq!(instead([], "web"), "none exists");
        assert_eq!(instead(["/"], "web"), "there is /");
        assert_eq!(instead(["/", "qemu-1-a"], "web"), "there are /, qemu-1-a");
        assert_eq!(instead(["a", "b", "c", "d", "web1"], "web"), "nearest of 5 are web1, b, a, c");
    }
}
