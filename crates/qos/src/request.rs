//! The limits that a user requests, independent of the kernel's syntax.

use manycore_topology::{CpuSet, cpuset::ParseCpuSetError};
use std::{fmt, str::FromStr};

/// Requested limits for a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRequest {
    /// Maximum memory bandwidth.
    pub bandwidth: Option<Bandwidth>,
    /// Minimum memory bandwidth under contention, in percent of the total.
    pub min_bandwidth: Option<u64>,
    /// Whether the maximum also applies while no other group uses memory.
    pub hard_limit: Option<bool>,
    /// Priority under memory contention: 0 to 7, 7 is served first; the default is 3.
    pub priority: Option<u64>,
    /// Portions of caches.
    pub caches: Vec<CacheRequest>,
    /// Where the limits apply; everywhere if absent.
    pub on: Option<DomainSelector>,
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
pub struct CacheRequest {
    /// Level of the cache: 2 or 3.
    pub level: u32,
    /// Code, data or both.
    pub part: CacheContents,
    /// How much of it.
    pub portion: CachePortion,
}

/// The contents that a portion is for. Code and data share their portions unless resctrl is mounted with
/// `cdp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheContents {
    /// Code and data.
    Both,
    /// Only instructions.
    Code,
    /// Only data.
    Data,
}

/// How much of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePortion {
    /// Percent of its ways, rounded to the nearest.
    Percent(u64),
    /// Number of ways (or portions), each of which is one bit of a mask.
    Ways(u32),
    /// Exactly these bits.
    Mask(u64),
}

/// The domains where limits apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainSelector {
    /// NUMA nodes.
    Nodes(CpuSet),
    /// Caches by their id (`cache/indexN/id`).
    Caches(CpuSet),
}

/// Why the text of a request is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRequestError {
    /// Not a bandwidth.
    #[error("{0:?} is neither a percentage such as 50% nor a rate such as 2000MB/s")]
    Bandwidth(String),
    /// A bandwidth of 0.
    #[error("0MB/s is not a limit: the minimum is 1MB/s")]
    NoBandwidth,
    /// Not a percentage.
    #[error("{0:?} is not a percentage such as 10%")]
    Percentage(String),
    /// More than 100 %.
    #[error("{0} % is out of range: the maximum is 100%")]
    Range(u64),
    /// Not a portion of a cache.
    #[error(
        "{0:?} is not a portion of a cache such as l3=50%, l3=4ways, l2=0xff0 or l3code=2ways (also l3data, l2code, l2data)"
    )]
    Cache(String),
    /// Not a list of nodes or caches.
    #[error("{text:?}: {error}")]
    List {
        /// The whole text.
        text: String,
        /// Why the list is not valid.
        error: ParseCpuSetError,
    },
    /// No node or cache is selected.
    #[error("{0:?} has an empty list: expected node=0-1 or cache=0")]
    EmptyList(String),
    /// Neither nodes nor caches.
    #[error("{0:?} is neither a list of nodes nor of caches: expected node=0-1 or cache=0")]
    Selector(String),
}

impl LimitRequest {
    /// Whether no limit is requested.
    pub fn is_empty(&self) -> bool {
        *self == Self { on: self.on.clone(), ..Self::default() }
    }
}

impl FromStr for Bandwidth {
    type Err = ParseRequestError;

    /// Parses `50%`, `2000MB/s`, `2GB/s`.
    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        let text = text.trim();
        let wrong = || ParseRequestError::Bandwidth(text.to_owned());
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
        if megabytes == 0 { Err(ParseRequestError::NoBandwidth) } else { Ok(Self::Megabytes(megabytes)) }
    }
}

/// Parses a percentage: `10%`, or `10`.
///
/// # Errors
/// The text is not a number from 0 to 100.
pub fn share(text: &str) -> Result<u64, ParseRequestError> {
    let digits = text.trim().strip_suffix('%').unwrap_or(text.trim());
    let number = digits.parse().map_err(|_| ParseRequestError::Percentage(text.to_owned()))?;
    percent_of(number)
}

fn percent_of(number: u64) -> Result<u64, ParseRequestError> {
    if number <= 100 { Ok(number) } else { Err(ParseRequestError::Range(number)) }
}

impl FromStr for CacheRequest {
    type Err = ParseRequestError;

    /// Parses `l3=50%`, `l3=4ways`, `l2=0xff0`, `l3code=2ways`.
    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        let wrong = || ParseRequestError::Cache(text.to_owned());
        let (cache, portion) = text.split_once('=').ok_or_else(wrong)?;
        let cache = cache.trim().to_ascii_lowercase();
        let (level, part) = match (cache.get(..2), cache.get(2..)) {
            (Some("l2"), Some(part)) => (2, part),
            (Some("l3"), Some(part)) => (3, part),
            _ => return Err(wrong()),
        };
        let part = match part {
            "" => CacheContents::Both,
            "code" => CacheContents::Code,
            "data" => CacheContents::Data,
            _ => return Err(wrong()),
        };
        let portion = portion.trim();
        let portion = if let Some(digits) = portion.strip_prefix("0x") {
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            CachePortion::Mask(u64::from_str_radix(digits, 16).map_err(|_| wrong())?)
        } else if let Some(percent) = portion.strip_suffix('%') {
            CachePortion::Percent(percent_of(percent.trim().parse().map_err(|_| wrong())?)?)
        } else {
            let ways =
                portion.strip_suffix("ways").or_else(|| portion.strip_suffix("way")).ok_or_else(wrong)?;
            CachePortion::Ways(ways.trim().parse().map_err(|_| wrong())?)
        };
        Ok(Self { level, part, portion })
    }
}

impl FromStr for DomainSelector {
    type Err = ParseRequestError;

    /// Parses `node=0-1`, `cache=0`.
    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        let (kind, list) = text.split_once('=').unwrap_or((text, ""));
        let list: CpuSet =
            list.parse().map_err(|error| ParseRequestError::List { text: text.to_owned(), error })?;
        match kind.trim() {
            _ if list.is_empty() => Err(ParseRequestError::EmptyList(text.to_owned())),
            "node" => Ok(Self::Nodes(list)),
            "cache" => Ok(Self::Caches(list)),
            _ => Err(ParseRequestError::Selector(text.to_owned())),
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

impl fmt::Display for CachePortion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Ways(ways) => write!(f, "{ways}ways"),
            Self::Mask(mask) => write!(f, "{mask:#x}"),
        }
    }
}

impl fmt::Display for CacheRequest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let part = match self.part {
            CacheContents::Both => "",
            CacheContents::Code => "code",
            CacheContents::Data => "data",
        };
        write!(f, "l{}{part}={}", self.level, self.portion)
    }
}

impl fmt::Display for DomainSelector {
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
    fn common_spellings_are_parsed() {
        assert_eq!("50%".parse(), Ok(Bandwidth::Percent(50)));
        assert_eq!("2000MB/s".parse(), Ok(Bandwidth::Megabytes(2000)));
        assert_eq!("2GB/s".parse(), Ok(Bandwidth::Megabytes(2000)));
        for wrong in ["50", "101%", "-1%", "0MB/s", "x", "", "%", "1e3MB/s", "99999999999999999999GB/s"] {
            assert!(wrong.parse::<Bandwidth>().is_err(), "{wrong}");
        }
        let cache = |text: &str| text.parse::<CacheRequest>();
        assert_eq!(
            cache("l3=50%"),
            Ok(CacheRequest { level: 3, part: CacheContents::Both, portion: CachePortion::Percent(50) })
        );
        assert_eq!(
            cache("L2DATA=0xff0"),
            Ok(CacheRequest { level: 2, part: CacheContents::Data, portion: CachePortion::Mask(0xff0) })
        );
        assert_eq!(
            cache("l3code=1way"),
            Ok(CacheRequest { level: 3, part: CacheContents::Code, portion: CachePortion::Ways(1) })
        );
        for wrong in
            ["l3", "l4=1ways", "l3=4", "l3=0xzz", "l3=0x+f", "l3=0x", "l3x=50%", "l3=101%", "ä=1ways", ""]
        {
            assert!(cache(wrong).is_err(), "{wrong}");
        }
        assert_eq!("node=0-1".parse(), Ok(DomainSelector::Nodes("0-1".parse().unwrap())));
        assert_eq!("cache=122".parse(), Ok(DomainSelector::Caches("122".parse().unwrap())));
        for wrong in ["node", "node=", "cpu=1", "node=x"] {
            assert!(wrong.parse::<DomainSelector>().is_err(), "{wrong}");
        }
        assert_eq!((share("10%"), share("10")), (Ok(10), Ok(10)));
        assert!(share("101").is_err() && share("ten").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in "\\PC{0,20}") {
            let _ = (text.parse::<Bandwidth>(), text.parse::<CacheRequest>(), text.parse::<DomainSelector>(), share(&text));
        }

        #[test]
        fn formatted_values_are_parsed(level in 2u32..4, ways: u32, mask: u64, percent in 0u64..101, rate in 1u64..u64::MAX) {
            for portion in [CachePortion::Ways(ways), CachePortion::Mask(mask), CachePortion::Percent(percent)] {
                let request = CacheRequest { level, part: CacheContents::Code, portion };
                prop_assert_eq!(request.to_string().parse(), Ok(request));
            }
            for bandwidth in [Bandwidth::Percent(percent), Bandwidth::Megabytes(rate)] {
                prop_assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth));
            }
        }
    }
}
