//! The dialects of resctrl: the hardware and kernel, and their capabilities.
//!
//! Five kernels have the same files with different meanings:
//!
//! | | Intel RDT | AMD `PQoS` | Arm MPAM | openEuler 6.6 | openEuler 5.10 |
//! |---|---|---|---|---|---|
//! | `MB` | percent, or MB/s (`mba_MBps`) | 1/8 GB/s | percent | percent | percent |
//! | its domain | L3 cache | L3 cache | L3 cache | NUMA node | NUMA node |
//! | minimum, hard limit, priority | - | - | - | always | with mount options |
//! | masks | contiguous | any | any | any | any |
//! | `mon_MB_NN` | - | - | bytes | current MB/s | current MB/s, a file |

use super::schemata::{Schemata, SchemataKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// The hardware and kernel that resctrl belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Intel's Resource Director Technology.
    IntelRdt,
    /// AMD's Platform Quality of Service, also on Hygon.
    AmdPqos,
    /// Arm's MPAM as in Linux since 7.0.
    Mpam,
    /// openEuler 24.03 and newer (OLK-6.6).
    #[serde(rename = "openeuler_6_6")]
    OpenEuler66,
    /// openEuler 20.03 to 22.03 (OLK-5.10).
    #[serde(rename = "openeuler_5_10")]
    OpenEuler510,
}

/// Mount options that only openEuler's 5.10 kernel has.
pub const OPTIONS_510: [&str; 9] =
    ["cdpl3", "caPbm", "caMax", "caPrio", "mbPbm", "mbMax", "mbMin", "mbHdl", "mbPrio"];

/// Lines that only openEuler's kernels have.
const LINES_OPENEULER: [&str; 10] =
    ["MBMIN", "MBMAX", "MBHDL", "MBPRI", "MBPBM", "L3PBM", "L3PRI", "L3MAX", "L3MIN", "L2PRI"];

/// The lines of these that 6.6 always shows.
const LINES_66: [&str; 6] = ["MBMIN", "MBHDL", "MBPRI", "L3PRI", "L3MAX", "L3MIN"];

/// The properties by which dialects are recognised.
#[derive(Clone, Copy, Debug)]
pub struct DialectSigns<'a> {
    /// `vendor_id` of `/proc/cpuinfo`; absent on Arm.
    pub vendor: Option<&'a str>,
    /// The mount options.
    pub options: &'a [String],
    /// The schemata of the root group.
    pub schemata: &'a Schemata,
    /// Whether `mon_data/mon_MB_00` is a file.
    pub monitor_file: bool,
    /// Whether `mon_data` has a `mon_MB_NN` but `info` has no `MB_MON`. Upstream kernels have both.
    pub bare_monitor: bool,
}

impl Dialect {
    /// Returns the dialect of a file system with these properties.
    pub fn recognise(signs: &DialectSigns) -> Self {
        let has = |names: &[&str]| names.iter().any(|name| signs.schemata.line(name).is_some());
        let has_all = LINES_66.iter().all(|name| signs.schemata.line(name).is_some());
        let old_options = signs.options.iter().any(|option| OPTIONS_510.contains(&option.as_str()));
        if signs.monitor_file || old_options || has(&LINES_OPENEULER) && !has_all {
            return Self::OpenEuler510;
        }
        if has(&LINES_OPENEULER) || signs.bare_monitor {
            return Self::OpenEuler66;
        }
        match signs.vendor {
            Some("GenuineIntel") => Self::IntelRdt,
            Some("AuthenticAMD" | "HygonGenuine") => Self::AmdPqos,
            _ => Self::Mpam,
        }
    }

    /// Returns the name for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::IntelRdt => "Intel RDT",
            Self::AmdPqos => "AMD PQoS",
            Self::Mpam => "Arm MPAM",
            Self::OpenEuler66 => "MPAM of openEuler 6.6",
            Self::OpenEuler510 => "MPAM of openEuler 5.10",
        }
    }

    /// Whether it is one of the dialects of openEuler.
    pub fn is_openeuler(self) -> bool {
        matches!(self, Self::OpenEuler66 | Self::OpenEuler510)
    }

    /// Whether `mon_MB_NN` holds the current rate in MB/s instead of bytes since the mount.
    pub fn monitors_report_rates(self) -> bool {
        self.is_openeuler()
    }

    /// Whether `num_rmids` is the number of groups that can be monitored. On Arm each group with limits has
    /// monitors of its own, and the file holds 1 or the number of monitors per group.
    fn counts_monitors(self) -> bool {
        matches!(self, Self::IntelRdt | Self::AmdPqos)
    }

    /// Returns what the domains of a line are.
    pub fn domain_kind(self, line: &str) -> DomainKind {
        match () {
            () if line.starts_with("L2") => DomainKind::Cache(2),
            () if line.starts_with("MB") && self.is_openeuler() => DomainKind::Node,
            () => DomainKind::Cache(3),
        }
    }
}

/// What a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainKind {
    /// A cache of this level, by `cache/indexN/id`.
    Cache(u32),
    /// A NUMA node.
    Node,
}

impl DomainKind {
    /// Returns the name of one such domain for display.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cache(2) => "L2 cache",
            Self::Cache(_) => "L3 cache",
            Self::Node => "node",
        }
    }
}

/// One directory below `info`, as far as its files exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Info {
    /// Number of groups that the hardware supports, including the default group (`num_closids`).
    pub groups: Option<u32>,
    /// Number of monitors (`num_rmids`); meaningless on Arm.
    pub monitors: Option<u32>,
    /// The mask of all portions (`cbm_mask`).
    pub mask: Option<u64>,
    /// Minimum number of bits of a mask (`min_cbm_bits`).
    pub min_bits: Option<u32>,
    /// Portions that other units of the machine use as well, such as I/O (`shareable_bits`).
    pub shared: Option<u64>,
    /// Whether masks may have gaps (`sparse_masks`, since Linux 6.7).
    pub sparse: Option<bool>,
    /// Minimum bandwidth, in the unit of the line (`min_bandwidth`).
    pub minimum: Option<u64>,
    /// Step to which bandwidth is rounded up (`bandwidth_gran`).
    pub step: Option<u64>,
    /// Events that can be counted (`mon_features`).
    pub events: Vec<String>,
}

/// The valid values of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ValueRange {
    /// A number from `minimum` to `maximum`; the kernel rounds up to a multiple of `step`.
    Number {
        /// The minimum; smaller values are refused, or raised ([`Dialect::OpenEuler510`]).
        minimum: u64,
        /// The maximum; larger values are refused.
        maximum: u64,
        /// Step size; at least 1.
        step: u64,
    },
    /// A mask within `full`.
    Mask {
        /// The mask of all portions.
        full: u64,
        /// Minimum number of bits.
        min_bits: u32,
        /// Whether the mask may have gaps.
        sparse: bool,
    },
}

/// The properties of a line that can be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlLine {
    /// Its valid values.
    pub bounds: ValueRange,
    /// Its domains, in ascending order.
    pub domains: Vec<u32>,
    /// The value of a group without a limit.
    pub unlimited: u64,
}

/// The capabilities of a mounted resctrl file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// The dialect.
    pub dialect: Dialect,
    /// Whether `MB` is in MB/s (mount option `mba_MBps`).
    pub megabytes: bool,
    /// The lines that can be written.
    pub controls: BTreeMap<String, ControlLine>,
    /// Maximum number of groups with limits, including the default group; absent if the kernel does not report it.
    pub groups: Option<u32>,
    /// Maximum number of monitors, one per group of either kind; absent if the kernel does not report it, as on Arm.
    pub monitors: Option<u32>,
}

impl Capabilities {
    /// Derives the capabilities from `info`, the mount options and `root`, the schemata of the root group.
    pub fn new(dialect: Dialect, options: &[String], root: &Schemata, info: &BTreeMap<String, Info>) -> Self {
        let megabytes = options.iter().any(|option| option == "mba_MBps");
        let of = |name: &str| {
            // The additional lines of openEuler are described in the directory of their resource.
            let resource = if name.starts_with("MB") { "MB" } else { name.get(..2).unwrap_or(name) };
            info.get(name).or_else(|| info.get(resource)).cloned().unwrap_or_default()
        };
        let controls = root.0.iter().filter(|line| !line.values.is_empty()).map(|line| {
            let bounds =
                bounds(dialect, megabytes, &line.name, &of(&line.name), line.values.values().copied());
            let domains = line.values.keys().copied().collect();
            let unlimited = unlimited(&line.name, &bounds);
            (line.name.clone(), ControlLine { bounds, domains, unlimited })
        });
        Self {
            dialect,
            megabytes,
            controls: controls.collect(),
            groups: info.values().filter_map(|one| one.groups).min(),
            monitors: dialect
                .counts_monitors()
                .then(|| info.values().filter_map(|one| one.monitors).min())
                .flatten(),
        }
    }

    /// Returns the properties of a line that can be written.
    pub fn control(&self, line: &str) -> Option<&ControlLine> {
        self.controls.get(line)
    }
}

/// Returns the valid values of a line. `values` are those of the root group, which is unlimited unless
/// its limits were changed.
fn bounds(
    dialect: Dialect,
    megabytes: bool,
    name: &str,
    info: &Info,
    values: impl Iterator<Item = u64>,
) -> ValueRange {
    let number = |minimum, maximum, step| ValueRange::Number { minimum, maximum, step };
    let largest = values.max().unwrap_or(0);
    match SchemataKind::from_line_name(name) {
        SchemataKind::Mask => ValueRange::Mask {
            full: info.mask.unwrap_or(largest),
            min_bits: info.min_bits.unwrap_or(u32::from(dialect != Dialect::AmdPqos)),
            sparse: info.sparse.unwrap_or(dialect != Dialect::IntelRdt),
        },
        // Bandwidth and the additional lines of openEuler, whose ranges are not in info.
        SchemataKind::Number => match name {
            "MB" if megabytes => number(1, u64::from(u32::MAX), 1),
            "MB" | "MBMAX" if dialect != Dialect::AmdPqos => {
                number(info.minimum.unwrap_or(1).max(1), 100, info.step.unwrap_or(1).max(1))
            }
            // No file holds the maximum; a value with one bit more than the kernel's default means no limit.
            "MB" | "SMBA" => number(info.minimum.unwrap_or(0), largest.max(AMD_UNLIMITED), 1),
            "MBMIN" | "L3MIN" | "L3MAX" => number(0, 100, 1),
            "MBHDL" => number(0, 1, 1),
            "MBPRI" => number(0, 7, 1),
            "L3PRI" => number(0, 3, 1),
            _ => number(0, u64::from(u32::MAX), 1),
        },
    }
}

/// The value that AMD's kernel shows for "no limit" if limits have eleven bits, as on all machines so far.
pub const AMD_UNLIMITED: u64 = 2048;

/// Unit of AMD's limits in MB/s: an eighth of a GB/s.
pub const AMD_UNIT: u64 = 125;

fn unlimited(name: &str, bounds: &ValueRange) -> u64 {
    match (name, bounds) {
        ("MBHDL", _) => 1,
        ("MBPRI", _) => 3,
        ("MBMIN" | "L3MIN" | "L3PRI", _) => 0,
        (_, ValueRange::Number { maximum, .. }) => *maximum,
        (_, ValueRange::Mask { full, .. }) => *full,
    }
}

impl ValueRange {
    /// Returns the value that is in force after `value` was written: numbers are rounded up to the step.
    pub fn rounded(&self, value: u64) -> u64 {
        match *self {
            Self::Number { minimum, maximum, step } => {
                value.max(minimum).div_ceil(step).saturating_mul(step).min(maximum)
            }
            Self::Mask { .. } => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signs<'a>(schemata: &'a Schemata, options: &'a [String]) -> DialectSigns<'a> {
        DialectSigns { vendor: None, options, schemata, monitor_file: false, bare_monitor: false }
    }

    #[test]
    fn dialects_are_distinguished() {
        let plain = Schemata::parse("L3:0=fffff\nMB:0=100");
        let full = Schemata::parse(
            "L3:1=7fff\nMB:0=0000100\nMBMIN:0=0\nMBHDL:0=1\nMBPRI:0=3\nL3PRI:1=0\nL3MAX:1=100\nL3MIN:1=0",
        );
        let some = Schemata::parse("L3:1=7fff\nMB:0=0000100\nMBHDL:0=1");
        let old = ["rw", "mbHdl"].map(str::to_owned);
        let seen = |signs: &DialectSigns| Dialect::recognise(signs);
        assert_eq!(
            seen(&DialectSigns { vendor: Some("GenuineIntel"), ..signs(&plain, &[]) }),
            Dialect::IntelRdt
        );
        assert_eq!(
            seen(&DialectSigns { vendor: Some("HygonGenuine"), ..signs(&plain, &[]) }),
            Dialect::AmdPqos
        );
        assert_eq!(seen(&signs(&plain, &[])), Dialect::Mpam);
        assert_eq!(seen(&signs(&full, &[])), Dialect::OpenEuler66);
        assert_eq!(seen(&signs(&some, &[])), Dialect::OpenEuler510);
        assert_eq!(seen(&signs(&plain, &old)), Dialect::OpenEuler510);
        assert_eq!(seen(&DialectSigns { monitor_file: true, ..signs(&plain, &[]) }), Dialect::OpenEuler510);
        assert_eq!(seen(&DialectSigns { bare_monitor: true, ..signs(&plain, &[]) }), Dialect::OpenEuler66);
    }

    #[test]
    fn bounds_come_from_info() {
        let info = BTreeMap::from([
            (
                "L3".to_owned(),
                Info { mask: Some(0xfffff), min_bits: Some(1), groups: Some(16), ..Info::default() },
            ),
            ("MB".to_owned(), Info { minimum: Some(10), step: Some(10), groups: Some(8), ..Info::default() }),
        ]);
        let root = Schemata::parse("L3:0=fff;1=ff\nMB:0=90;1=80");
        let capabilities = Capabilities::new(Dialect::IntelRdt, &[], &root, &info);
        assert_eq!(capabilities.groups, Some(8));
        let mask = &capabilities.control("L3").unwrap().bounds;
        assert_eq!(*mask, ValueRange::Mask { full: 0xfffff, min_bits: 1, sparse: false });
        let band = capabilities.control("MB").unwrap();
        assert_eq!(
            (&band.bounds, band.unlimited),
            (&ValueRange::Number { minimum: 10, maximum: 100, step: 10 }, 100)
        );
        assert_eq!(band.bounds.rounded(55), 60, "as seen on Linux 7.2");
        let megabytes = Capabilities::new(Dialect::IntelRdt, &["mba_MBps".to_owned()], &root, &info);
        assert_eq!(megabytes.control("MB").unwrap().bounds.rounded(55), 55);
    }

    #[test]
    fn rmids_of_arm_do_not_count_monitors() {
        let info = BTreeMap::from([("L3_MON".to_owned(), Info { monitors: Some(1), ..Info::default() })]);
        let root = Schemata::parse("L3:0=ffff\nMB:0=100");
        let monitors = |dialect| Capabilities::new(dialect, &[], &root, &info).monitors;
        for dialect in [Dialect::Mpam, Dialect::OpenEuler66, Dialect::OpenEuler510] {
            assert_eq!(monitors(dialect), None, "{dialect:?}");
        }
        assert_eq!((monitors(Dialect::IntelRdt), monitors(Dialect::AmdPqos)), (Some(1), Some(1)));
    }

    proptest! {
        #[test]
        fn rounding_twice_is_rounding_once(value: u32, minimum in 0u64..50, step in 1u64..40) {
            let bounds = ValueRange::Number { minimum, maximum: 100, step };
            let once = bounds.rounded(u64::from(value));
            prop_assert_eq!(bounds.rounded(once), once);
            prop_assert!(once <= 100);
        }
    }
}
