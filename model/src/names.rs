//! Names that somebody may have meant.

/// Names that an error gives.
const MOST: usize = 4;

/// The known names that are fewest changes away from `name`, nearest first; no more than an error can hold.
pub fn similar<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Vec<String> {
    let mut names: Vec<(usize, &str)> =
        known.into_iter().map(|known| (changes(known, name), known)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().take(MOST).map(|(_, known)| known.to_owned()).collect()
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
}
