//! The request for a domain's plan.

use crate::error::ParseError;
use manycore_placement::{Policy, Reserve};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// What the user requests of a domain's plan.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// Placement policy of the virtual CPUs.
    pub policy: Policy,
    /// Host CPUs kept free of virtual CPUs. The emulator and I/O threads run there.
    pub reserve: Reserve,
    /// Whether virtual CPUs may share host CPUs if there are fewer CPUs than virtual CPUs.
    pub overcommit: bool,
    /// The libvirt that reads the XML.
    pub dialect: LibvirtDialect,
    /// Version of the QEMU that runs the guest; `None` counts as older than all optional features.
    pub qemu: Option<Version>,
    /// Version of the libvirt that reads the XML; `None` counts as older than all optional features.
    pub libvirt: Option<Version>,
    /// Unit of bandwidth limits of the machine's kernel, if known.
    pub bandwidth_unit: Option<BandwidthUnit>,
    /// Whether to set the CPU mode to host-passthrough, which cache passthrough requires.
    pub host_passthrough: bool,
    /// Requested limits of memory bandwidth and cache.
    pub tune: TuneRequest,
    /// Available memory of the host's nodes, if known.
    pub available: AvailableMemory,
}

impl PlanRequest {
    /// Returns a request with this policy: no reserve, libvirt's own XML, no optional features and no limits.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            reserve: Reserve::Nothing,
            overcommit: false,
            dialect: LibvirtDialect::Upstream,
            qemu: None,
            libvirt: None,
            bandwidth_unit: None,
            host_passthrough: false,
            tune: TuneRequest::default(),
            available: AvailableMemory::default(),
        }
    }
}

/// Memory that is available on a host now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Memory by node; empty if unknown.
    pub nodes: BTreeMap<u32, NodeAvailableMemory>,
    /// Default size of huge pages in KiB, used if a domain requests no size (`Hugepagesize` of
    /// `/proc/meminfo`).
    pub default_page_kib: Option<u64>,
}

/// Memory that is available on one node now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAvailableMemory {
    /// Bytes of normal pages that are available: free pages, and page cache that the kernel can reclaim.
    pub free_bytes: Option<u64>,
    /// Huge pages, by their size in KiB.
    pub pages: BTreeMap<u64, HugePagePool>,
}

/// Huge pages of one size on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePagePool {
    /// Number of all pages.
    pub total: u64,
    /// Number of unused pages.
    pub free: u64,
}

/// The libvirt that reads the XML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LibvirtDialect {
    /// Upstream, from libvirt.org.
    #[default]
    Upstream,
    /// With openEuler's additions: `<numa node=>` in `<hostdev>`, and more attributes of `<memorytune>`.
    OpenEuler,
}

/// Unit of memory bandwidth limits of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandwidthUnit {
    /// In percent: `minimum` (`info/MB/min_bandwidth`), and multiples of `step` (`bandwidth_gran`). libvirt
    /// refuses other values.
    Percent {
        /// Smallest value.
        minimum: u64,
        /// Step size; at least 1.
        step: u64,
    },
    /// In MB/s (mount option `mba_MBps`).
    Megabytes,
}

/// A version of a program: `9.1.0`, or the number in `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Returns the first version in a text.
    pub fn find_in(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| word.parse().ok())
    }
}

impl FromStr for Version {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parts = text
            .split('.')
            .map(|part| part.parse::<u32>().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit())));
        let (major, minor) = (parts.next().flatten(), parts.next().flatten());
        let patch = match parts.next() {
            None => Some(0),
            Some(patch) => patch,
        };
        match (major, minor, patch, parts.next()) {
            (Some(major), Some(minor), Some(patch), None) => Ok(Self(major, minor, patch)),
            _ => Err(ParseError::Version(text.to_owned())),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Requested limits of the guest's share of the host's memory bandwidth and caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TuneRequest {
    /// Maximum bandwidth, in percent of each node's.
    pub bandwidth: Option<u8>,
    /// Minimum bandwidth, in percent.
    pub min_bandwidth: Option<u8>,
    /// Whether the limit also applies while memory bandwidth is idle.
    pub hardlimit: Option<bool>,
    /// Priority of memory accesses, 0 to 7; 7 is the highest.
    pub priority: Option<u8>,
    /// Shares of the L3 cache.
    pub cache: Vec<CacheShareRequest>,
}

impl TuneRequest {
    /// Returns whether anything in `<memorytune>` was requested.
    pub fn limits_bandwidth(&self) -> bool {
        self.bandwidth.is_some()
            || self.min_bandwidth.is_some()
            || self.hardlimit.is_some()
            || self.priority.is_some()
    }
}

/// A share of each L3 cache that the guest's CPUs use: `l3=50%`, `l3=4ways`, `l3code=8MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShareRequest {
    /// `both`, `code` or `data`, as in `<cache type=>`.
    pub kind: &'static str,
    /// Size of the share.
    pub amount: CacheShare,
}

/// Size of a share of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheShare {
    /// Percent of the cache size.
    Percent(u8),
    /// Number of ways.
    Ways(u32),
    /// Bytes.
    Bytes(u64),
}

impl FromStr for CacheShareRequest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::CacheShare(text.to_owned());
        let (cache, amount) = text.split_once('=').ok_or_else(bad)?;
        let kind = match cache {
            "l3" => "both",
            "l3code" => "code",
            "l3data" => "data",
            cache if cache.starts_with("l2") => {
                return Err(ParseError::L2Share(text.to_owned()));
            }
            _ => return Err(bad()),
        };
        let digits = amount.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let value: u64 =
            digits.parse().ok().filter(|value| *value > 0 && !amount.starts_with('+')).ok_or_else(bad)?;
        let scaled = |shift: u32| value.checked_mul(1 << shift).map(CacheShare::Bytes).ok_or_else(bad);
        let amount = match &amount[digits.len()..] {
            "%" if value <= 100 => CacheShare::Percent(value as u8),
            "ways" | "way" if value <= 64 => CacheShare::Ways(value as u32),
            "KiB" => scaled(10)?,
            "MiB" => scaled(20)?,
            _ => return Err(bad()),
        };
        Ok(Self { kind, amount })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c) 2003-2022";
        assert_eq!(Version::find_in(debian), Some(Version(7, 2, 22)));
        assert_eq!("9.1".parse(), Ok(Version(9, 1, 0)));
        assert!(["9", "9.x", "9.1.2.3", "", "+9.1"].iter().all(|text| text.parse::<Version>().is_err()));
        assert!(Version(9, 0, 4) < Version(9, 1, 0));
    }

    #[test]
    fn parts_of_caches_are_read() {
        let read = |text: &str| text.parse::<CacheShareRequest>().map(|share| (share.kind, share.amount));
        assert_eq!(read("l3=50%"), Ok(("both", CacheShare::Percent(50))));
        assert_eq!(read("l3data=4ways"), Ok(("data", CacheShare::Ways(4))));
        assert_eq!(read("l3code=8MiB"), Ok(("code", CacheShare::Bytes(8 << 20))));
        for bad in [
            "l3",
            "l3=0%",
            "l3=101%",
            "l3=65ways",
            "l3=8",
            "l3=+8%",
            "l2=1ways",
            "l4=1ways",
            "l3=99999999999999MiB",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(l3|l3code|=|[0-9]|%|ways|MiB|\\PC){0,8}") {
            let _ = (text.parse::<CacheShareRequest>(), text.parse::<Version>(), Version::find_in(&text));
        }
    }
}
