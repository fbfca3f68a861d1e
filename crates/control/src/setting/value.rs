//! Texts of the kernel's settings: how they are read back and compared.

use manycore_topology::CpuSet;
use std::{fs, path::Path};

/// Returns the value in the text of a file: the word in brackets where the file lists its choices
/// (`always [madvise] never`), otherwise the text.
pub(crate) fn value_of(text: &str) -> &str {
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
    let chosen = |word: &'_ &str| word.len() > 2 && word.starts_with('[') && word.ends_with(']');
    match text.split_whitespace().find(chosen) {
        Some(word) if !text.contains('\n') => &word[1..word.len() - 1],
        _ => text,
    }
}

/// Begins the name of a feature of the scheduler that is off.
const OFF: &str = "NO_";

/// Returns the part of a file that a value is for: `TTWU_QUEUE` of `NO_TTWU_QUEUE` in the features of the scheduler, which
/// are one file with a word for each (`kernel/sched/debug.c`). `None` where the value is that of the whole file.
pub(crate) fn part<'a>(file: &Path, value: &'a str) -> Option<&'a str> {
    file.ends_with("debug/sched/features").then(|| value.strip_prefix(OFF).unwrap_or(value))
}

/// Returns the values that a text for a file stands for: those of several parts are separated by commas or blanks.
pub(super) fn parts<'a>(file: &Path, text: &'a str) -> Vec<&'a str> {
    match part(file, text) {
        Some(_) => text.split([',', ' ', '\t']).filter(|word| !word.is_empty()).collect(),
        None => vec![text],
    }
}

/// Returns the opposite of each word of the features of the scheduler; `None` for other files.
pub(super) fn opposites(file: &Path, text: &str) -> Option<Vec<String>> {
    part(file, text)?;
    let opposite = |word: &str| word.strip_prefix(OFF).map_or_else(|| format!("{OFF}{word}"), str::to_owned);
    Some(text.split_whitespace().map(opposite).collect())
}

/// Returns what a file with the contents `text` has in place of `value`: the state of the same part, empty if there is
/// none; or the value of the whole file.
pub(crate) fn present<'a>(file: &Path, text: &'a str, value: &str) -> &'a str {
    match part(file, value) {
        Some(name) => text.split_whitespace().find(|word| part(file, word) == Some(name)).unwrap_or_default(),
        None => value_of(text),
    }
}

/// Returns the values that a file can have, where the kernel lists them.
pub(super) fn choices(file: &Path, text: &str) -> Option<Vec<String>> {
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
    };
    if value_of(text) != text.trim() {
        return Some(words(text));
    }
    if file.file_name()? != "scaling_governor" {
        return None;
    }
    fs::read_to_string(file.with_file_name("scaling_available_governors")).ok().map(|text| words(&text))
}

/// Whether two values are the same setting. The kernel writes blanks, lists of CPUs, masks and switches in its own way.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let cpus = || matches!((a.parse::<CpuSet>(), b.parse::<CpuSet>()), (Ok(a), Ok(b)) if a == b);
    let mask = || matches!((mask(a), mask(b)), (Some(a), Some(b)) if a == b);
    let switch = || matches!((switch(a), switch(b)), (Some(a), Some(b)) if a == b);
    a == b || a.split_whitespace().eq(b.split_whitespace()) || cpus() || mask() || switch()
}

/// Returns the digits of a mask of CPUs: hexadecimal, in groups of eight digits but the first.
fn mask(text: &str) -> Option<String> {
    let (first, rest) = text.split_once(',').map_or((text, None), |(first, rest)| (first, Some(rest)));
    let is_hex = |group: &str| !group.is_empty() && group.chars().all(|letter| letter.is_ascii_hexdigit());
    let whole = is_hex(first)
        && first.len() <= 8
        && rest.is_none_or(|rest| rest.split(',').all(|group| is_hex(group) && group.len() == 8));
    whole.then(|| text.replace(',', "").trim_start_matches('0').to_ascii_lowercase())
}

/// Returns the value of a parameter of kind `bool`: the kernel takes `1` and shows `Y`.
fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "Y" | "y" => Some(true),
        "0" | "N" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_the_value() {
        for (text, value) in [
            ("always [madvise] never\n", "madvise"),
            ("[none] mq-deadline kyber\n", "none"),
            ("none\n", "none"),
            ("4096\t131072\t6291456\n", "4096\t131072\t6291456"),
            ("[] x", "[] x"),
            ("a [b]\nc", "a [b]\nc"),
            ("", ""),
        ] {
            assert_eq!(value_of(text), value, "{text:?}");
        }
        let file = Path::new("/none/enabled");
        assert_eq!(choices(file, "always [madvise] never\n").unwrap(), ["always", "madvise", "never"]);
        assert_eq!(choices(file, "60\n"), None);
    }

    #[test]
    fn features_of_the_scheduler_are_parts_of_one_file() {
        let file = Path::new("/sys/kernel/debug/sched/features");
        let text = "PLACE_LAG NO_PREEMPT_SHORT TTWU_QUEUE NONTASK_CAPACITY \n";
        for (value, found) in [
            ("PLACE_LAG", "PLACE_LAG"),
            ("NO_PLACE_LAG", "PLACE_LAG"),
            ("PREEMPT_SHORT", "NO_PREEMPT_SHORT"),
            ("NONTASK_CAPACITY", "NONTASK_CAPACITY"),
            ("LAG", ""),
            ("", ""),
        ] {
            assert_eq!(present(file, text, value), found, "{value}");
        }
        assert_eq!(present(Path::new("/sys/x"), "a [b] c", "NO_PLACE_LAG"), "b");
        assert_eq!(parts(file, "NO_A,B C"), ["NO_A", "B", "C"]);
        assert_eq!(parts(Path::new("/sys/x"), "0,2 4"), ["0,2 4"]);
        assert_eq!(opposites(file, "A NO_B \n").unwrap(), ["NO_A", "B"]);
    }

    #[test]
    fn the_kernel_writes_values_in_its_own_way() {
        for (a, b) in [
            ("60", "60"),
            ("4096 131072\t6291456", "4096\t131072\t6291456"),
            ("0,1,2", "0-2"),
            ("3", "00000003"),
            ("F", "00000000,0000000f"),
            ("1", "Y"),
            ("N", "0"),
        ] {
            assert!(same(a, b) && same(b, a), "{a} {b}");
        }
        for (a, b) in
            [("60", "61"), ("0-1", "0-2"), ("3", "00000003,00000000"), ("1", "0"), ("1", "on"), ("", "0")]
        {
            assert!(!same(a, b) && !same(b, a), "{a} {b}");
        }
    }
}
