//! Shared by the readers: figures, searching them in lines, and error messages.

use crate::{
    metric::number,
    record::{Direction, Metric},
};

/// Metrics and their values, the primary one first.
pub(super) type Figures = Vec<Figure>;

/// A metric and its value.
pub(super) type Figure = (Metric, f64);

/// Returns a figure of which more is better, such as a rate.
pub(super) fn higher(name: &str, unit: &str, value: f64) -> Figure {
    (Metric { name: name.to_owned(), unit: unit.to_owned(), better: Direction::Higher }, value)
}

/// Returns a figure of which less is better, such as a time or a count of errors.
pub(super) fn lower(name: &str, unit: &str, value: f64) -> Figure {
    (Metric { name: name.to_owned(), unit: unit.to_owned(), better: Direction::Lower }, value)
}

/// Returns the text after `label` on the first line that starts with it; indentation is ignored.
pub(super) fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim)
}

/// Returns the number after `label`, up to the next space: see [`after`].
pub(super) fn number_after(text: &str, label: &str) -> Option<f64> {
    number::plain(after(text, label)?.split_whitespace().next()?)
}

/// Returns the number between `before` and `behind` in `text`: `3097.10` in `(3097.10 MiB/sec)`.
pub(super) fn number_between(text: &str, before: &str, behind: &str) -> Option<f64> {
    let (_, rest) = text.split_once(before)?;
    number::plain(rest.split_once(behind)?.0.trim())
}

/// Returns the message that `text` is not the output of `program`, as it lacks `expected`.
pub(super) fn not_output_of(program: &str, expected: &str, text: &str) -> String {
    format!("this does not look like the output of {program}: no {expected}; {}", ending(text))
}

/// Describes the end of standard output, for messages.
pub(super) fn ending(text: &str) -> String {
    ending_of("standard output", text)
}

/// Describes the end of the text of a `source`, for messages.
pub(super) fn ending_of(source: &str, text: &str) -> String {
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        None => format!("{source} is empty"),
        Some(line) => format!("the last line is {}", quote(line)),
    }
}

/// Returns `text` in quotes, shortened if it is long.
pub(super) fn quote(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let text = text.trim();
    if text.chars().count() <= MAX_CHARS {
        return format!("\"{text}\"");
    }
    let start: String = text.chars().take(MAX_CHARS).collect();
    format!("\"{start}...\"")
}

/// Joins names for a sentence: `a, b, c`. At most a dozen are shown.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.len().min(12);
    let more = if names.len() > shown { format!(" and {} more", names.len() - shown) } else { String::new() };
    names[..shown].join(", ") + &more
}

/// Turns a title into a name: lower case, each run of characters other than letters and digits as one `_`.
pub(super) fn slug(title: &str) -> String {
    let words: Vec<String> = title
        .split(|sign: char| !sign.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("_")
}
