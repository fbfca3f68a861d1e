//! Lists of host names in Slurm's notation: `a[1-3,7]b[01-02],c`.
//!
//! [`expand`] reads such a list, [`compress`] writes one that Slurm reads (`srun -x`, `scontrol show hostnames`). Names
//! are those that are safe as an argument, a file name and a word of a shell ([`is_name`]): nothing else is read or
//! written.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;
use thiserror::Error;

/// Most names that a list may stand for.
pub const MAX_NAMES: usize = 100_000;

/// Most bytes of a list.
const MAX_TEXT: usize = 4 << 20;

/// Most bytes of a name, as DNS has it.
const MAX_NAME: usize = 253;

/// Most digits of a number in brackets. Slurm's own limit is lower for most names.
const MAX_DIGITS: usize = 9;

/// Most numbers of one range: Slurm refuses `n[0-65536]`.
const MAX_RANGE: u64 = 65_536;

/// Most brackets in a name.
const MAX_BRACKETS: usize = 8;

/// Why a text is not a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostlistError {
    /// A name has other characters, or none.
    #[error(
        "{0:?} is not a host name: letters, digits, '.', '_' and '-' are expected, a letter or digit first"
    )]
    Name(String),
    /// A bracket is not closed, or holds something else than numbers.
    #[error("{0:?} is not a list of hosts: numbers are expected in brackets, as in n[1-3,7]")]
    Brackets(String),
    /// A range ends before it begins.
    #[error("{0:?} is not a range: its end is lower than its start")]
    Range(String),
    /// Too many names.
    #[error("the list has more than {MAX_NAMES} hosts")]
    TooMany,
    /// Too long a text.
    #[error("the list has more than {} MiB", MAX_TEXT >> 20)]
    TooLong,
}

/// A part of an item: text, or numbers in brackets.
enum Part<'a> {
    Text(&'a str),
    /// First and last number, and the width to which both are padded with zeros.
    Numbers(Vec<(u64, u64, usize)>),
}

/// Returns whether a name is safe in a command line, a path and a shell, and may be a host: letters, digits, `.`, `_` and
/// `-`, of which the first is a letter, a digit or `_`, so that it is no option and no hidden file.
pub fn is_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.len() <= MAX_NAME && name.chars().all(is_plain) && !name.starts_with(['.', '-']) && !name.is_empty()
}

/// Returns the names that a list stands for, each once, in the order of the list. Space around items and empty items are
/// ignored, as Slurm does.
///
/// # Errors
/// [`HostlistError`]; a list that stands for more than [`MAX_NAMES`] is refused before it is expanded.
pub fn expand(text: &str) -> Result<Vec<String>, HostlistError> {
    if text.len() > MAX_TEXT {
        return Err(HostlistError::TooLong);
    }
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    let mut count = 0_usize;
    for item in items(text).into_iter().map(str::trim).filter(|item| !item.is_empty()) {
        let parts = parts(item)?;
        count = parts.iter().map(Part::len).fold(1, usize::saturating_mul).saturating_add(count);
        if count > MAX_NAMES {
            return Err(HostlistError::TooMany);
        }
        for name in product(&parts) {
            if !is_name(&name) {
                return Err(HostlistError::Name(shown(&name)));
            }
            if seen.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// Returns the shortest list in Slurm's notation that this module finds for names, sorted. Only the number at the end of a
/// name is put in brackets: Slurm refuses `n[1-3]x`. Names that are not safe ([`is_name`]) are left out.
pub fn compress(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).filter(|name| is_name(name)).collect();
    let mut plain = Vec::new();
    let mut numbered: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for &name in &names {
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = &name[stem.len()..];
        if digits.is_empty() || digits.len() > MAX_DIGITS || stem.is_empty() {
            plain.push(name.to_owned());
        } else {
            numbered.entry(stem).or_default().push(digits);
        }
    }
    let mut items: Vec<String> = numbered.iter().flat_map(|(stem, digits)| bracketed(stem, digits)).collect();
    items.append(&mut plain);
    items.sort();
    items.join(",")
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Part::Text(_) => 1,
            Part::Numbers(ranges) => ranges.iter().fold(0, |sum, &(first, last, _)| {
                sum.saturating_add((last - first) as usize).saturating_add(1)
            }),
        }
    }
}

/// Splits a list at the commas and white space outside of brackets.
fn items(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    text.split(move |letter: char| {
        match letter {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        !is_inside && (letter == ',' || letter.is_whitespace())
    })
    .collect()
}

/// Reads an item: text and brackets in turn.
fn parts(item: &str) -> Result<Vec<Part<'_>>, HostlistError> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, behind) = after.split_once(']').ok_or_else(|| HostlistError::Brackets(shown(item)))?;
        let ranges = inside.split(',').map(|range| numbers(range.trim(), item));
        parts.extend([Part::Text(before), Part::Numbers(ranges.collect::<Result<_, _>>()?)]);
        rest = behind;
    }
    parts.push(Part::Text(rest));
    if parts.len() > 2 * MAX_BRACKETS + 1 {
        return Err(HostlistError::Brackets(shown(item)));
    }
    Ok(parts)
}

/// Reads `7` or `01-12`.
fn numbers(range: &str, item: &str) -> Result<(u64, u64, usize), HostlistError> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |digits: &str| {
        let is_number =
            (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number
            .then(|| digits.parse::<u64>().ok())
            .flatten()
            .ok_or_else(|| HostlistError::Brackets(shown(item)))
    };
    let (low, high) = (number(first)?, number(last)?);
    if high < low {
        return Err(HostlistError::Range(shown(range)));
    }
    Ok((low, high, if first.starts_with('0') { first.len() } else { 1 }))
}

/// Returns all combinations of the parts, the last part fastest.
fn product(parts: &[Part]) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in parts {
        names = match part {
            Part::Text(text) => names.into_iter().map(|name| name + text).collect(),
            Part::Numbers(ranges) => names
                .iter()
                .flat_map(|name| {
                    let all = ranges
                        .iter()
                        .flat_map(|&(first, last, width)| (first..=last).map(move |n| (n, width)));
                    all.map(move |(number, width)| format!("{name}{number:0width$}"))
                })
                .collect(),
        };
    }
    names
}

/// Returns the items for names that differ in the number at their end: one for each width to which numbers are padded.
fn bracketed(stem: &str, digits: &[&str]) -> Vec<String> {
    let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
    let padded: BTreeSet<usize> = digits.iter().filter(|one| is_padded(one)).map(|one| one.len()).collect();
    let mut widths: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for one in digits {
        // `n10` continues `n09` as well as `n9`: it goes with the padded ones where there are any.
        let width = if padded.contains(&one.len()) { one.len() } else { 1 };
        widths.entry(width).or_default().extend(one.parse::<u64>());
    }
    let item = |(width, mut numbers): (usize, Vec<u64>)| {
        numbers.sort_unstable();
        let ranges = ranges(&numbers);
        match ranges.as_slice() {
            [(first, last)] if first == last => format!("{stem}{first:0width$}"),
            several => format!("{stem}[{}]", written(several, width)),
        }
    };
    widths.into_iter().map(item).collect()
}

/// Joins sorted numbers to ranges that Slurm accepts.
fn ranges(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((first, last)) if *last + 1 == number && number - *first < MAX_RANGE => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

fn written(ranges: &[(u64, u64)], width: usize) -> String {
    let mut text = String::new();
    for (at, (first, last)) in ranges.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{first:0width$}");
        if last > first {
            let _ = write!(text, "-{last:0width$}");
        }
    }
    text
}

/// Returns the beginning of a text for an error message.
fn shown(text: &str) -> String {
    manycore_text::names::printable(&text.chars().take(60).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// The expected names are what `scontrol show hostnames` of Slurm 22.05 prints.
    #[test]
    fn lists_are_expanded_as_slurm_does() {
        for (list, expected) in [
            ("a[1-3,7]b[01-02],c", "a1b01 a1b02 a2b01 a2b02 a3b01 a3b02 a7b01 a7b02 c"),
            ("n[01-03,7]", "n01 n02 n03 n7"),
            ("n[099-101]", "n099 n100 n101"),
            ("a[9-011]", "a9 a10 a11"),
            ("a[1-01]", "a1"),
            ("a,,b,", "a b"),
            ("n[003]", "n003"),
            ("n3.a,n4.a", "n3.a n4.a"),
            (" a , b\nc\t", "a b c"),
            ("", ""),
        ] {
            assert_eq!(expand(list).unwrap(), names(expected), "{list}");
        }
        assert_eq!(expand("a[1,1-2],a1").unwrap(), ["a1", "a2"], "each name once");
    }

    #[test]
    fn broken_lists_are_refused() {
        for list in [
            "n[]",
            "n[1-2",
            "n]",
            "n[[1]]",
            "n[1-]",
            "n[-1]",
            "n[a]",
            "n[1-2-3]",
            "n[1,]",
            "n[1234567890]",
            &"[1]".repeat(9),
        ] {
            assert!(
                matches!(expand(list), Err(HostlistError::Brackets(_) | HostlistError::Name(_))),
                "{list}"
            );
        }
        assert_eq!(expand("n[3-1]"), Err(HostlistError::Range("3-1".to_owned())));
        for name in [
            "-oProxyCommand=x",
            "..",
            ".ssh",
            "a/b",
            "a;b",
            "a$b",
            "a b'c",
            "a\u{1b}",
            "ä",
            "a\"",
            "a%b",
            "a@b",
        ] {
            assert!(matches!(expand(name), Err(HostlistError::Name(_))), "{name}");
        }
        assert!(matches!(expand(&"n".repeat(300)), Err(HostlistError::Name(_))));
    }

    #[test]
    fn sizes_are_bounded_before_anything_is_expanded() {
        assert_eq!(expand("n[1-100000]").unwrap().len(), MAX_NAMES);
        for list in ["n[0-100000]", "n[1-99999],a,b", "n[0-999999999][0-999999999][0-999999999]"] {
            assert_eq!(expand(list), Err(HostlistError::TooMany), "{list}");
        }
        assert_eq!(expand(&"a,".repeat(3 << 20)), Err(HostlistError::TooLong));
    }

    #[test]
    fn names_are_compressed_as_slurm_reads_them() {
        for (list, expected) in [
            ("n3 n7 n8 n9", "n[3,7-9]"),
            ("n17", "n17"),
            ("n1 n2 n03 n09 n10", "n[03,09-10],n[1-2]"),
            ("n0 n1", "n[0-1]"),
            ("n00 n0", "n0,n00"),
            ("n1.cluster n2.cluster", "n1.cluster,n2.cluster"),
            ("rack1-n1 rack1-n2 rack2-n1", "rack1-n[1-2],rack2-n1"),
            ("10 11", "10,11"),
            ("b a a", "a,b"),
            ("n1234567890 n1234567891", "n1234567890,n1234567891"),
            ("", ""),
        ] {
            assert_eq!(compress(&names(list)), expected, "{list}");
        }
        let hostile = ["n1", "$(reboot)", "-x", "n2;id", "n2", "n[4]"].map(str::to_owned);
        assert_eq!(compress(&hostile), "n[1-2]", "what is not safe is left out");
        let many: Vec<String> = (0..70_000).map(|n| format!("n{n}")).collect();
        assert_eq!(compress(&many), "n[0-65535,65536-69999]");
    }

    proptest! {
        #[test]
        fn a_compressed_list_expands_to_the_same_names(
            names in proptest::collection::vec("[a-c_]{0,2}[0-2]{0,3}[.-]?[a-b]{0,1}[0-9]{0,4}", 0..60)
        ) {
            let names: Vec<String> = names.into_iter().filter(|name| is_name(name)).collect();
            let expected: BTreeSet<&String> = names.iter().collect();
            let list = compress(&names);
            let expanded = expand(&list).unwrap();
            prop_assert_eq!(expanded.len(), expected.len());
            prop_assert_eq!(expanded.iter().collect::<BTreeSet<_>>(), expected, "{}", list);
        }

        #[test]
        fn no_text_breaks_it_and_every_name_is_safe(text in "[a1\\[\\],; \u{1b}ä$-]{0,40}") {
            if let Ok(names) = expand(&text) {
                prop_assert!(names.iter().all(|name| is_name(name)));
            }
        }
    }
}
