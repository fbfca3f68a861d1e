//! Placement policies, as on the command line.

use manycore_topology::{CpuId, CpuSet, Level, Machine, cpuset::ParseCpuSetError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// A placement policy, parsed and printed as on the command line: `close`, `spread@llc+nosmt`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Policy {
    /// Which CPUs a worker gets.
    pub kind: PolicyKind,
    /// Whether only one CPU of each core is used (`+nosmt`): the lowest usable one.
    pub nosmt: bool,
    /// Whether isolated CPUs are used as well (`+isolated`).
    pub isolated: bool,
}

/// Which CPUs a worker gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// `free`: every worker may use all usable CPUs, and the kernel's scheduler chooses.
    Free,
    /// `close`: one CPU per worker, adjacent CPUs in the smallest unit that holds all workers: a core, a cluster, a
    /// last-level cache, a node or a package; of several such units, the one with the fewest CPUs left over. If no unit holds
    /// all, those with the most usable CPUs are filled first. On a hybrid machine all CPUs of the fastest cores come
    /// before those of slower ones. If there are more workers than CPUs, the order starts again. For workers that share
    /// data.
    Close,
    /// `spread`: one CPU per worker, as far apart as possible. At every level the next worker goes to the
    /// group with the smallest share in use, and among equal groups to the one with the lowest CPU. No core
    /// gets a second worker before every core has one. On a hybrid machine the fastest cores come first. If
    /// there are more workers than CPUs, the order starts again. For workers that each need their own cache
    /// and memory bandwidth.
    Spread,
    /// `spread@LEVEL`: workers are distributed over the groups of a level in proportion to the groups'
    /// usable CPUs (largest remainder, so each count is off by less than one worker). Each worker may use
    /// all usable CPUs of its group. If there are fewer workers than groups, they go to groups that are far
    /// apart. CPUs that belong to no group of the level form a group with their core. For workers that the kernel may
    /// balance within their cache or memory node.
    SpreadAt(Level),
    /// `cpus=LIST`: worker *i* gets the *i*-th CPU of the list in the order written; the list starts again
    /// at its end. Isolated CPUs in the list are used; other policies use them with `+isolated`.
    Cpus(CpuList),
    /// `near=DEVICE`: like `spread` over the CPUs near a PCI device or a NUMA node (`node1`). A device is
    /// named by its address (with or without the PCI domain `0000:`) or by one of its network or block
    /// devices. If the firmware does not report the device's location, all usable CPUs are used.
    Near(String),
}

/// CPUs in the user's order, possibly with repetitions: `4-7,0,0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuList {
    /// The parts between the commas.
    parts: Vec<CpuSet>,
}

impl CpuList {
    /// Returns the CPUs in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.parts.iter().flat_map(CpuSet::iter)
    }

    /// Returns the set of the CPUs.
    pub fn set(&self) -> CpuSet {
        CpuSet::union_of(&self.parts)
    }
}

impl FromStr for CpuList {
    type Err = ParseCpuSetError;

    /// Parses numbers and ranges between commas. Rejects an empty text.
    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        let part = |part: &str| match part.trim() {
            "" => Err(ParseCpuSetError::NotANumber(String::new())),
            part => part.parse(),
        };
        Ok(Self { parts: text.split(',').map(part).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            write!(f, "{}{part}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// Reasons why a text is not a placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParsePolicyError {
    /// The text is not one of the policies.
    #[error(
        "'{0}' is not a placement; write free, close, spread, spread@core|cluster|llc|node|package, \
         cpus=LIST, near=DEVICE or near=nodeN; append +nosmt to use one CPU per core, +isolated to use isolated CPUs as well"
    )]
    Unknown(String),
    /// The text after `spread@` is not a level.
    #[error(
        "'{0}' is not a level; write spread@core, spread@cluster, spread@llc, spread@node or spread@package"
    )]
    Level(String),
    /// The text after `cpus=` is not a list of CPUs.
    #[error("cpus={0}: {1}")]
    Cpus(String, ParseCpuSetError),
    /// The name after `near=` is missing or has a character that no device name contains.
    #[error(
        "'near={0}' names no device; write a PCI address, a network or block device or a NUMA node: near=0000:3b:00.0, near=eth0, near=node1"
    )]
    Device(String),
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        let text = text.trim();
        let (mut kind, mut nosmt, mut isolated) = (text, false, false);
        loop {
            if let Some(rest) = kind.strip_suffix("+nosmt").filter(|_| !nosmt) {
                (kind, nosmt) = (rest, true);
            } else if let Some(rest) = kind.strip_suffix("+isolated").filter(|_| !isolated) {
                (kind, isolated) = (rest, true);
            } else {
                break;
            }
        }
        let kind = match kind.split_once(['=', '@']) {
            None => match kind {
                "free" => PolicyKind::Free,
                "close" => PolicyKind::Close,
                "spread" => PolicyKind::Spread,
                _ => return Err(ParsePolicyError::Unknown(text.to_owned())),
            },
            Some(("spread", level)) if kind.starts_with("spread@") => {
                let known = Level::ALL.into_iter().find(|known| known.name() == level);
                PolicyKind::SpreadAt(known.ok_or_else(|| ParsePolicyError::Level(level.to_owned()))?)
            }
            Some(("cpus", list)) if kind.starts_with("cpus=") => PolicyKind::Cpus(
                list.parse().map_err(|reason| ParsePolicyError::Cpus(list.to_owned(), reason))?,
            ),
            Some(("near", name)) if kind.starts_with("near=") => {
                let odd = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '+';
                if name.is_empty() || name.contains(odd) {
                    return Err(ParsePolicyError::Device(name.to_owned()));
                }
                PolicyKind::Near(name.to_owned())
            }
            Some(_) => return Err(ParsePolicyError::Unknown(text.to_owned())),
        };
        Ok(Self { kind, nosmt, isolated })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PolicyKind::Free => f.write_str("free"),
            PolicyKind::Close => f.write_str("close"),
            PolicyKind::Spread => f.write_str("spread"),
            PolicyKind::SpreadAt(level) => write!(f, "spread@{}", level.name()),
            PolicyKind::Cpus(list) => write!(f, "cpus={list}"),
            PolicyKind::Near(name) => write!(f, "near={name}"),
        }?;
        f.write_str(if self.nosmt { "+nosmt" } else { "" })?;
        f.write_str(if self.isolated { "+isolated" } else { "" })
    }
}

impl Policy {
    /// Returns the policy of this kind, which uses one CPU per core (`nosmt`) or all CPUs, and only those
    /// isolated CPUs that it names.
    pub fn new(kind: PolicyKind, nosmt: bool) -> Self {
        Self { kind, nosmt, isolated: false }
    }

    /// Returns the isolated CPUs that the policy may use: the named ones, or all of them.
    pub(super) fn isolated(&self, machine: &Machine) -> CpuSet {
        if self.isolated { machine.isolated.clone() } else { self.named().intersection(&machine.isolated) }
    }

    /// Returns the CPUs that `cpus=LIST` names; empty for other policies.
    pub(super) fn named(&self) -> CpuSet {
        match &self.kind {
            PolicyKind::Cpus(list) => list.set(),
            _ => CpuSet::new(),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Policy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Policy".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A placement policy as on the command line: `close`, `spread@llc`.",
            "type": "string"
        })
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
