//! Parameters: `threads=1,2,4,8`, `size=1..64*2`.

use super::VariantError as Error;
use std::{collections::BTreeSet, fmt, str::FromStr};

/// The values of `{name}` in variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    parts: Vec<Part>,
}

/// What stands between two commas.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Range { from: i64, to: i64, step: Step },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Add(i64),
    Multiply(i64),
}

impl Parameter {
    /// Returns the number of values, without making them.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(Part::count).fold(0, u64::saturating_add)
    }

    /// Returns the values, at most so many.
    pub fn values(&self, most: usize) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.values(most)).take(most).collect()
    }

    /// Returns a parameter with so many of the values, from two: evenly spaced, the first and the last one among them.
    pub(super) fn thinned(&self, count: u64) -> Self {
        if count >= self.count() {
            return self.clone();
        }
        let last = u128::from(self.count() - 1);
        let steps = u128::from(count.max(2) - 1);
        let index = |step: u128| ((step * last + steps / 2) / steps) as u64;
        let values = (0..=steps).filter_map(|step| self.value(index(step)));
        Self { name: self.name.clone(), parts: values.map(Part::Text).collect() }
    }

    /// Returns the value with this index.
    fn value(&self, index: u64) -> Option<String> {
        let mut before = 0_u64;
        self.parts.iter().find_map(|part| {
            let from = before;
            before = before.saturating_add(part.count());
            (index < before).then(|| part.value(index - from))
        })
    }
}

impl fmt::Display for Parameter {
    /// Writes `threads=1,2,4`.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}={}", self.name, self.values(usize::MAX).join(","))
    }
}

impl FromStr for Parameter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Parameter(text.to_owned());
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        if !is_name(name) || values.is_empty() {
            return Err(wrong());
        }
        if name == "workers" {
            return Err(Error::Reserved);
        }
        let parts = values.split(',').map(part).collect::<Result<Vec<Part>, Error>>()?;
        let mut seen = BTreeSet::new();
        // A long range is refused later, by its count.
        for value in parts.iter().flat_map(|part| part.values(1000)) {
            if !seen.insert(value.clone()) {
                return Err(Error::ValueTwice { name: name.to_owned(), value });
            }
        }
        Ok(Self { name: name.to_owned(), parts })
    }
}

/// Returns whether a text can stand between braces as the name of a parameter.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain)
}

/// Reads one value or range. Only what begins with a number can be a range: `../file` is a value.
fn part(text: &str) -> Result<Part, Error> {
    let begins_with_number = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    let Some((from, rest)) = text.split_once("..").filter(|_| begins_with_number) else {
        return Ok(Part::Text(text.to_owned()));
    };
    let wrong = || Error::Range(text.to_owned());
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong());
    let (to, step) = match rest.split_once(['+', '*']) {
        None => (rest, Step::Add(1)),
        Some((to, step)) if rest.as_bytes()[to.len()] == b'+' => (to, Step::Add(number(step)?)),
        Some((to, factor)) => (to, Step::Multiply(number(factor)?)),
    };
    let (from, to) = (number(from)?, number(to)?);
    let grows = match step {
        Step::Add(step) => step >= 1,
        Step::Multiply(factor) => factor >= 2 && from >= 1,
    };
    if grows && from <= to { Ok(Part::Range { from, to, step }) } else { Err(wrong()) }
}

impl Part {
    fn count(&self) -> u64 {
        match *self {
            Self::Text(_) => 1,
            Self::Range { from, to, step: Step::Add(step) } => {
                let span = i128::from(to) - i128::from(from);
                u64::try_from(span / i128::from(step) + 1).unwrap_or(u64::MAX)
            }
            Self::Range { .. } => self.values(64).len() as u64,
        }
    }

    /// Returns the value with this index, which is below the count.
    fn value(&self, index: u64) -> String {
        match *self {
            Self::Range { from, step: Step::Add(step), .. } => {
                (i128::from(from) + i128::from(step) * i128::from(index)).to_string()
            }
            _ => self.values(index as usize + 1).pop().unwrap_or_default(),
        }
    }

    fn values(&self, most: usize) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            &Self::Range { from, to, step } => {
                let next = |&value: &i64| match step {
                    Step::Add(step) => value.checked_add(step),
                    Step::Multiply(factor) => value.checked_mul(factor),
                };
                let values = std::iter::successors(Some(from), next).take_while(|value| *value <= to);
                values.take(most).map(|value| value.to_string()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Parameter>().unwrap().values(20)
    }

    #[test]
    fn values_are_listed_or_ranges() {
        assert_eq!(values("threads=1,2,4,8"), ["1", "2", "4", "8"]);
        assert_eq!(values("level=-1,-9,fast"), ["-1", "-9", "fast"]);
        assert_eq!(values("n=1..4"), ["1", "2", "3", "4"]);
        assert_eq!(values("n=0..100+40"), ["0", "40", "80"]);
        assert_eq!(values("n=1..64*2"), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(values("n=1,3..5,8..40*2"), ["1", "3", "4", "5", "8", "16", "32"]);
        assert_eq!(values("n=-2..0"), ["-2", "-1", "0"]);
        assert_eq!(values("file=../a,b..c,"), ["../a", "b..c", ""]);
    }

    #[test]
    fn bad_ranges_are_refused() {
        for bad in [
            "n=8..1",
            "n=1..",
            "n=1..x",
            "n=1..8+0",
            "n=1..8*1",
            "n=0..8*2",
            "n=1..8-1",
            "n=1..8*2*2",
            "n=5..9999999999999999999",
        ] {
            assert!(matches!(bad.parse::<Parameter>(), Err(Error::Range(_))), "{bad}");
        }
        for bad in ["", "n", "n=", "=1", "1n=1", "a b=1", "{n}=1"] {
            assert!(matches!(bad.parse::<Parameter>(), Err(Error::Parameter(_))), "{bad}");
        }
        assert_eq!("workers=1,2".parse::<Parameter>(), Err(Error::Reserved));
        assert!(matches!("n=1,1..3".parse::<Parameter>(), Err(Error::ValueTwice { .. })));
    }

    #[test]
    fn long_ranges_are_counted_without_their_values() {
        let count = |text: &str| text.parse::<Parameter>().unwrap().count();
        assert_eq!(count("n=1..9000000000000000000"), 9_000_000_000_000_000_000);
        assert_eq!(count("n=-9000000000000000000..9000000000000000000"), 18_000_000_000_000_000_001);
        assert_eq!((count("n=1..9000000000000000000*2"), count("n=0..10+3,x")), (63, 5));
    }

    #[test]
    fn fewer_values_are_evenly_spaced_from_the_first_to_the_last() {
        let thinned = |text: &str, count| text.parse::<Parameter>().unwrap().thinned(count).to_string();
        assert_eq!(thinned("n=1..100", 8), "n=1,15,29,43,58,72,86,100");
        assert_eq!(thinned("n=a,b,c,1..64*2,z", 4), "n=a,1,16,z");
        assert_eq!(thinned("n=a,b,c", 3), "n=a,b,c");
        let far = "n=-9000000000000000000..9000000000000000000";
        assert_eq!(thinned(far, 3), "n=-9000000000000000000,0,9000000000000000000");
    }

    proptest! {
        #[test]
        fn any_text_is_a_parameter_or_an_error(text in "[a-z]{0,2}=?[0-9.*+,-]{0,30}") {
            if let Ok(parameter) = text.parse::<Parameter>() {
                let count = parameter.count();
                prop_assert!(count >= 1);
                if count <= 100 {
                    let values = parameter.values(200);
                    prop_assert_eq!(values.len() as u64, count);
                    let by_index: Vec<String> = (0..count).filter_map(|index| parameter.value(index)).collect();
                    prop_assert_eq!(&by_index, &values);
                    for fewer in 2..count {
                        let kept = parameter.thinned(fewer).values(200);
                        prop_assert_eq!(kept.len() as u64, fewer);
                        prop_assert!(kept.first() == values.first() && kept.last() == values.last());
                    }
                }
            }
        }
    }
}
