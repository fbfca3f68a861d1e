//! Durations, sizes and shares in rules.

use crate::decision::assessment::Amount;
use serde::{Deserialize, Deserializer, de::Error};

/// Longest duration in a rule, in seconds.
const LONGEST: f64 = 86_400.0;

fn quoted_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a string in quotes is expected: \"30s\", \"512M\" or \"5%\"")]
    enum TextOrNumber {
        Text(String),
        Number(u64),
    }
    Ok(match TextOrNumber::deserialize(from)? {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    })
}

pub(super) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = quoted_text(from)?;
    let duration: humantime::Duration = text
        .parse()
        .map_err(|_| D::Error::custom(format!("{text:?} is not a duration: write \"30s\" or \"2min\"")))?;
    let seconds = duration.as_secs_f64();
    if seconds > LONGEST {
        return Err(D::Error::custom(format!("{text:?} is longer than a day")));
    }
    Ok(Some(seconds))
}

/// A size in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes(pub(super) u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = quoted_text(from)?;
        let wrong = || D::Error::custom(format!("{text:?} is not a size: write \"512M\" or \"4G\""));
        parse_bytes(&text).map(Self).ok_or_else(wrong)
    }
}

pub(super) fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    let text = quoted_text(from)?;
    let percent = parse_percent(&text).map(Amount::Percent);
    let amount = percent.or_else(|| parse_bytes(&text).map(Amount::Bytes));
    let what = || D::Error::custom(format!("{text:?} is not an amount of memory: write \"5%\" or \"512M\""));
    amount.map(Some).ok_or_else(what)
}

pub(super) fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = quoted_text(from)?;
    let share = parse_percent(&text).map(|percent| percent / 100.0);
    share.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is not a share of time: write \"40%\"")))
}

fn parse_percent(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent)
}

/// Parses `512M`, `4GiB`, `1048576`: powers of 1024 in upper or lower case, at least one MiB.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let unit = text[digits..].trim().to_ascii_lowercase();
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let size = text[..digits].parse::<f64>().ok()? * 1024f64.powi(power);
    // A smaller number probably lacks its unit.
    (size >= 1_048_576.0 && size < (1u64 << 60) as f64).then_some(size as u64)
}
