//! The limits that a user requests, independent of the kernel's syntax.

use manycore_topology::CpuSet;
use std::{fmt, str::FromStr};

/// Requested limits for a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Maximum memory bandwidth.
    pub bandwidth: Option<Bandwidth>,
    /// Minimum memory bandwidth under contention, in percent of the total.
    pub min_bandwidth: Option<u64>,
    /// Whether the maximum also applies while no other group uses memory.
    pub hard_limit: Option<bool>,
    /// Priority under memory contention: 0 to 7, 7 is served first; the default is 3.
    pub priority: Option<u64>,
    /// Portions of caches.
    pub caches: Vec<CacheWish>,
    /// Where the limits apply; everywhere if absent.
    pub on: Option<On>,
}

/// Maximum memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bandwidth {
    /// Percent of the total.
    Percent(u64),
    /// MB/s, as the kernel counts them.
    Megabytes(u64),
}

/// A portion of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheWish {
    /// Level of the cache: 2 or 3.
    pub level: u32,
    /// Code, data or both.
    pub part: Part,
    /// How much of it.
    pub portion: Portion,
}

/// The contents that a portion is for. Code and data share their portions unless resctrl is mounted with
/// `cdp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Code and data.
    Both,
    /// Only instructions.
    Code,
    /// Only data.
    Data,
}

/// Size of a share of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// Percent of its ways, rounded to the nearest.
    Percent(u64),
    /// Number of ways (or portions), each of which is one bit of a mask.
    Ways(u32),
    /// Exactly these bits.
    Mask(u64),
}

/// The domains where limits apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Number of NUMA nodes.
    Nodes(CpuSet),
    /// Caches by their id (`cache/indexN/id`).
    Caches(CpuSet),
}

impl Wish {
    /// Whether no limit is requested.
    pub fn is_empty(&self) -> bool {
        *self == Self { on: self.on.clone(), ..Self::default() }
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    /// Parses `50%`, `2000MB/s`, `2GB/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || format!("{text:?} is neither a percentage such as 50% nor a rate such as 2000MB/s");
        let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| wrong());
        if let Some(percent) = text.strip_suffix('%') {
            return percent_of(number(percent)?).map(Self::Percent);
        }
        let rate = text.strip_suffix("/s").ok_or_else(wrong)?;
        let megabytes = match (rate.strip_suffix("MB"), rate.strip_suffix("GB")) {
            (Some(digits), _) => number(digits)?,
            (_, Some(digits)) => number(digits)?.checked_mul(1000).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        if megabytes == 0 {
            Err("0MB/s is not a limit: the minimum is 1MB/s".to_owned())
        } else {
            Ok(Self::Megabytes(megabytes))
        }
    }
}

/// Parses a percentage: `10%`, or `10`.
///
/// # Errors
/// The text is not a number from 0 to 100.
pub fn share(text: &str) -> Result<u64, String> {
    let digits = text.trim().strip_suffix('%').unwrap_or(text.trim());
    let number = digits.parse().map_err(|_| format!("{text:?} is not a percentage such as 10%"))?;
    percent_of(number)
}

fn percent_of(number: u64) -> Result<u64, String> {
    if number <= 100 { Ok(number) } else { Err(format!("{number} % is out of range: the maximum is 100%")) }
}

impl FromStr for CacheWish {
    type Err = String;

    /// Parses `l3=50%`, `l3=4ways`, `l2=0xff0`, `l3code=2ways`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a portion of a cache such as l3=50%, l3=4ways, l2=0xff0 or l3code=2ways (also l3data, \
                 l2code, l2data)"
            )
        };
        let (cache, portion) = text.split_once('=').ok_or_else(wrong)?;
        let cache = cache.trim().to_ascii_lowercase();
        let (level, part) = match (cache.get(..2), cache.get(2..)) {
            (Some("l2"), Some(part)) => (2, part),
            (Some("l3"), Some(part)) => (3, part),
            _ => return Err(wrong()),
        };
        let part = match part {
            "" => Part::Both,
            "code" => Part::Code,
            "data" => Part::Data,
            _ => return Err(wrong()),
        };
        let portion = portion.trim();
        let portion = if let Some(digits) = portion.strip_prefix("0x") {
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            Portion::Mask(u64::from_str_radix(digits, 16).map_err(|_| wrong())?)
        } else if let Some(percent) = portion.strip_suffix('%') {
            Portion::Percent(percent_of(percent.trim().parse().map_err(|_| wrong())?)?)
        } else {
            let ways =
                portion.strip_suffix("ways").or_else(|| portion.strip_suffix("way")).ok_or_else(wrong)?;
            Portion::Ways(ways.trim().parse().map_err(|_| wrong())?)
        };
        Ok(Self { level, part, portion })
    }
}

impl FromStr for On {
    type Err = String;

    /// Parses `node=0-1`, `cache=0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, list) = text.split_once('=').unwrap_or((text, ""));
        let list: CpuSet = list.parse().map_err(|error| format!("{text:?}: {error}"))?;
        match kind.trim() {
            _ if list.is_empty() => Err(format!("{text:?} has an empty list: expected node=0-1 or cache=0")),
            "node" => Ok(Self::Nodes(list)),
            "cache" => Ok(Self::Caches(list)),
            _ => Err(format!(
                "{text:?} is neither a list of nodes nor of caches: expected node=0-1 or cache=0"
            )),
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Megabytes(rate) => write!(f, "{rate}MB/s"),
        }
    }
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Ways(ways) => write!(f, "{ways}ways"),
            Self::Mask(mask) => write!(f, "{mask:#x}"),
        }
    }
}

impl fmt::Display for CacheWish {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let part = match self.part {
            Part::Both => "",
            Part::Code => "code",
            Part::Data => "data",
        };
        write!(f, "l{}{part}={}", self.level, self.portion)
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Nodes(list) => write!(f, "node={list}"),
            Self::Caches(list) => write!(f, "cache={list}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!("50%".parse(), Ok(Bandwidth::Percent(50)));
        assert_eq!("2000MB/s".parse(), Ok(Bandwidth::Megabytes(2000)));
        assert_eq!("2GB/s".parse(), Ok(Bandwidth::Megabytes(2000)));
        for wrong in ["50", "101%", "-1%", "0MB/s", "x", "", "%", "1e3MB/s", "99999999999999999999GB/s"] {
            assert!(wrong.parse::<Bandwidth>().is_err(), "{wrong}");
        }
        let cache = |text: &str| text.parse::<CacheWish>();
        assert_eq!(
            cache("l3=50%"),
            Ok(CacheWish { level: 3, part: Part::Both, portion: Portion::Percent(50) })
        );
        assert_eq!(
            cache("L2DATA=0xff0"),
            Ok(CacheWish { level: 2, part: Part::Data, portion: Portion::Mask(0xff0) })
        );
        assert_eq!(
            cache("l3code=1way"),
            Ok(CacheWish { level: 3, part: Part::Code, portion: Portion::Ways(1) })
        );
        for wrong in
            ["l3", "l4=1ways", "l3=4", "l3=0xzz", "l3=0x+f", "l3=0x", "l3x=50%", "l3=101%", "ä=1ways", ""]
        {
            assert!(cache(wrong).is_err(), "{wrong}");
        }
        assert_eq!("node=0-1".parse(), Ok(On::Nodes("0-1".parse().unwrap())));
        assert_eq!("cache=122".parse(), Ok(On::Caches("122".parse().unwrap())));
        for wrong in ["node", "node=", "cpu=1", "node=x"] {
            assert!(wrong.parse::<On>().is_err(), "{wrong}");
        }
        assert_eq!((share("10%"), share("10")), (Ok(10), Ok(10)));
        assert!(share("101").is_err() && share("ten").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,20}") {
            let _ = (text.parse::<Bandwidth>(), text.parse::<CacheWish>(), text.parse::<On>(), share(&text));
        }

        #[test]
        fn what_is_shown_is_read(level in 2u32..4, ways: u32, mask: u64, percent in 0u64..101, rate in 1u64..u64::MAX) {
            for portion in [Portion::Ways(ways), Portion::Mask(mask), Portion::Percent(percent)] {
                let wish = CacheWish { level, part: Part::Code, portion };
                prop_assert_eq!(wish.to_string().parse(), Ok(wish));
            }
            for bandwidth in [Bandwidth::Percent(percent), Bandwidth::Megabytes(rate)] {
                prop_assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth));
            }
        }
    }
}
