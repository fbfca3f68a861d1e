//! Names that somebody may have meant.

use std::collections::BTreeSet;

/// Names that an error gives.
const MOST: usize = 4;

/// The known names that are fewest changes away from `name`, nearest first; no more than an error can hold.
pub fn similar<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Vec<String> {
    let mut names: Vec<(usize, &str)> =
        known.into_iter().map(|known| (changes(known, name), known)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().take(MOST).map(|(_, known)| printable(known)).collect()
}

/// A name that somebody else has chosen, as a terminal may take it: with a replacement for what is no letter.
pub fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// What there is, for an error: all names where they are few, otherwise those nearest to `name`.
pub fn instead<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> String {
    let known: BTreeSet<&str> = known.into_iter().collect();
    let nearest = similar(known.iter().copied(), name).join(", ");
    match known.len() {
        0 => "there is none".to_owned(),
        1 => format!("there is {nearest}"),
        few if few <= MOST => format!("there are {nearest}"),
        many => format!("nearest of {many} are {nearest}"),
    }
}

/// Letters to change, add or take away (Levenshtein), of the first 40.
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
    fn the_nearest_come_first_and_once() {
        assert_eq!(
            similar(["lo", "eth10", "eth1", "eth1", "nvme0n1"], "eth"),
            ["eth1", "eth10", "lo", "nvme0n1"]
        );
        assert_eq!(similar(["a", "b", "c", "d", "e"], "").len(), MOST);
        assert!(similar([], "eth0").is_empty());
    }

    #[test]
    fn names_that_are_not_near_are_not_called_so() {
        assert_eq!(instead([], "web"), "there is none");
        assert_eq!(instead(["/"], "web"), "there is /");
        assert_eq!(instead(["/", "qemu-1-a"], "web"), "there are /, qemu-1-a");
        assert_eq!(instead(["a", "b", "c", "d", "web1"], "web"), "nearest of 5 are web1, b, a, c");
    }
}
