//! The kernel's text formats of CPU sets: lists (`0-3,8`) and masks (`ff,ffffffff`).

use crate::cpuset::{CpuId, CpuSet};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// Reasons why a text is not a CPU list or mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCpuSetError {
    /// A part is not a number or a range of numbers.
    #[error("'{0}' is not a number or range; write a list such as 0-3,8")]
    NotANumber(String),
    /// A number is larger than any CPU id can be.
    #[error("the number {0} is too large")]
    TooLarge(String),
    /// A range ends before it begins.
    #[error("range {0} ends before it begins; write {1}")]
    Backwards(String, String),
    /// A mask word is not hexadecimal or is longer than 32 bits.
    #[error("'{0}' is not a hexadecimal CPU mask such as ff,ffffffff")]
    NotAMask(String),
}

/// Length up to which [`CpuSet::brief`] does not shorten a list, in characters.
const BRIEF_LENGTH: usize = 44;

/// Maximum number of CPUs in a range with a step; no machine has more.
const MAX_STEPS: u32 = 1 << 20;

impl CpuSet {
    /// Parses the kernel's mask format: comma-separated 32-bit words in hexadecimal, most significant first
    /// (`Documentation/core-api/kernel-api`, `%*pb`).
    ///
    /// # Errors
    /// Returns the first word that is not hexadecimal or has more than eight digits.
    pub fn from_mask(text: &str) -> Result<Self, ParseCpuSetError> {
        let text = text.trim();
        let mut ranges = Vec::new();
        for (position, word) in text.rsplit(',').enumerate() {
            let word = word.trim();
            if word.len() > 8 || word.is_empty() && text.contains(',') {
                return Err(ParseCpuSetError::NotAMask(word.to_owned()));
            }
            let bits = match word {
                "" => 0,
                digits if digits.starts_with('+') => return Err(ParseCpuSetError::NotAMask(word.to_owned())),
                digits => u32::from_str_radix(digits, 16)
                    .map_err(|_| ParseCpuSetError::NotAMask(word.to_owned()))?,
            };
            let base = position as CpuId * 32;
            if bits == u32::MAX {
                ranges.push((base, base + 31));
                continue;
            }
            // Most words in the masks of a large machine are zero, so only set bits are visited.
            let mut rest = bits;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                ranges.push((base + bit, base + bit));
                rest &= rest - 1;
            }
        }
        Ok(Self::from_ranges(ranges))
    }

    /// Formats the list, in a shorter form if it is long. The short form is a valid list as well.
    pub fn brief(&self) -> String {
        self.within(BRIEF_LENGTH)
    }

    /// Formats the list as it is if that takes at most `most` characters. Otherwise writes equal steps as
    /// one range with a step: `0-508:4`, which taskset(1) also reads, and `0-499:4/16` for four of every
    /// sixteen, as the kernel writes it.
    pub fn within(&self, most: usize) -> String {
        let whole = self.to_string();
        if whole.len() <= most {
            return whole;
        }
        let (mut parts, mut rest) = (Vec::new(), self.ranges.as_slice());
        while let [first, others @ ..] = rest {
            let alike = run(rest);
            let last = rest[alike - 1];
            parts.push(match (alike, first.1 - first.0 + 1, others.first()) {
                (3.., 1, Some(next)) => format!("{}-{}:{}", first.0, last.1, next.0 - first.0),
                (3.., used, Some(next)) => format!("{}-{}:{used}/{}", first.0, last.1, next.0 - first.0),
                _ => Self { ranges: rest[..alike].to_vec() }.to_string(),
            });
            rest = &rest[alike..];
        }
        parts.join(",")
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Parses the kernel's list format (`0-3,8`, `0-499:4/16`) and ranges with a step as taskset(1) accepts
    /// them (`0-508:4`). White space around the text is ignored. An empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::new());
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (range, step) = part.split_once(':').unwrap_or((part, "1"));
            let (used, step) = step.split_once('/').unwrap_or(("1", step));
            let used = number(used, part)?;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (low, high, step) = (number(first, part)?, number(last, part)?, number(step, part)?);
            if low > high {
                return Err(ParseCpuSetError::Backwards(part.to_owned(), format!("{last}-{first}")));
            }
            match step {
                _ if step < used || used == 0 => return Err(ParseCpuSetError::NotANumber(part.to_owned())),
                _ if step == used => ranges.push((low, high)),
                _ if (high - low) / step >= MAX_STEPS => {
                    return Err(ParseCpuSetError::TooLarge(high.to_string()));
                }
                _ => {
                    let starts = (low..=high).step_by(step as usize);
                    ranges.extend(starts.map(|cpu| (cpu, cpu.saturating_add(used - 1).min(high))));
                }
            }
        }
        Ok(Self::from_ranges(ranges))
    }
}

/// Returns the number of leading ranges that have the same length and distance.
fn run(ranges: &[(CpuId, CpuId)]) -> usize {
    let form =
        |pair: &[(CpuId, CpuId)]| (pair[0].1 - pair[0].0, pair[1].1 - pair[1].0, pair[1].0 - pair[0].0);
    let mut pairs = ranges.windows(2).map(form);
    match pairs.next() {
        Some((long, next, step)) if long == next => {
            2 + pairs.take_while(|&pair| pair == (long, next, step)).count()
        }
        _ => 1,
    }
}

/// Parses a CPU number. Rejects `u32::MAX`, so that "one past the last" always exists.
fn number(digits: &str, part: &str) -> Result<CpuId, ParseCpuSetError> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseCpuSetError::NotANumber(part.to_owned()));
    }
    digits
        .parse::<CpuId>()
        .ok()
        .filter(|&id| id < CpuId::MAX)
        .ok_or_else(|| ParseCpuSetError::TooLarge(digits.to_owned()))
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CpuSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CpuSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Numbers of CPUs or nodes as the kernel writes them: `0-3,8`. Empty for none.",
            "type": "string",
            "pattern": "^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$"
        })
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
