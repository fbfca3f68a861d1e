//! The ways to place work, as the command line writes them.

use manycore_topology::{CpuId, CpuSet, Machine, cpuset::ParseCpuSetError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// How work is placed. Read and written as the command line has it: `close`, `spread@llc+nosmt`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Policy {
    /// Which CPUs a worker gets.
    pub kind: PolicyKind,
    /// Whether only one CPU of each core is used (`+nosmt`): the lowest of those that could be.
    pub nosmt: bool,
    /// Whether isolated CPUs are used, too (`+isolated`).
    pub isolated: bool,
}

/// Which CPUs a worker gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// `free`: every worker may use all usable CPUs, and the kernel's scheduler chooses.
    Free,
    /// `close`: one CPU for each worker, neighbours first. A core's SMT siblings are filled one after the
    /// other, then the cluster, the last-level cache, the node and the package around it. On a hybrid machine
    /// all CPUs of the fastest cores come before those of slower ones. More workers than CPUs begin again.
    /// For workers that share data.
    Close,
    /// `spread`: one CPU for each worker, as far apart as possible: at every level the next worker goes to
    /// the group of which the smallest share is used, and among equals to the one with the lowest CPU.
    /// No core gets a second worker before every core has one; on a hybrid machine the fastest cores get
    /// theirs first. More workers than CPUs begin again. For workers that want cache and bandwidth each for
    /// itself.
    Spread,
    /// `spread@LEVEL`: workers are dealt to the groups of a level in proportion to their usable CPUs
    /// (largest remainder, so no group is a whole worker off), and each may use all usable CPUs of its
    /// group. Fewer workers than groups go to groups that are far apart. CPUs in no group of the level stay
    /// empty. For workers that the kernel may balance, though not out of their cache or memory.
    SpreadAt(Level),
    /// `cpus=LIST`: worker *i* gets the *i*-th CPU of the list in the order in which it is written, and the
    /// list begins again when it ends. Isolated CPUs that it names are used; other policies use them with `+isolated`.
    Cpus(CpuList),
    /// `near=DEVICE`: like `spread` over the CPUs next to a PCI device, which is named by its address (with
    /// or without the domain `0000:`) or by a network or block device of it, or next to a NUMA node (`node1`).
    /// Where the firmware gives no place for the device, over all usable CPUs.
    Near(String),
}

/// A level of the machine that work is spread over, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Cores.
    Core,
    /// Clusters, where the kernel tells them.
    Cluster,
    /// Last-level caches.
    Llc,
    /// NUMA nodes that have CPUs.
    Node,
    /// Packages (sockets).
    Package,
}

impl Level {
    /// All levels, innermost first.
    pub const ALL: [Self; 5] = [Self::Core, Self::Cluster, Self::Llc, Self::Node, Self::Package];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cluster => "cluster",
            Self::Llc => "llc",
            Self::Node => "node",
            Self::Package => "package",
        }
    }
}

/// CPUs in an order of the user's own, also more than once: `4-7,0,0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuList {
    /// What stood between the commas.
    parts: Vec<CpuSet>,
}

impl CpuList {
    /// The CPUs in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.parts.iter().flat_map(CpuSet::iter)
    }

    /// The CPUs without their order.
    pub fn set(&self) -> CpuSet {
        CpuSet::union_of(&self.parts)
    }
}

impl FromStr for CpuList {
    type Err = ParseCpuSetError;

    /// Parses numbers and ranges between commas; the empty text is refused.
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

/// Why a text is not a placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParsePolicyError {
    /// None of the policies.
    #[error(
        "'{0}' is not a placement; write free, close, spread, spread@core|cluster|llc|node|package, \
         cpus=LIST, near=DEVICE or near=nodeN; behind it +nosmt for one CPU of each core, +isolated for isolated CPUs, too"
    )]
    Unknown(String),
    /// `spread@` something else.
    #[error(
        "'{0}' is not a level; write spread@core, spread@cluster, spread@llc, spread@node or spread@package"
    )]
    Level(String),
    /// `cpus=` something that is no list.
    #[error("cpus={0}: {1}")]
    Cpus(String, ParseCpuSetError),
    /// `near=` without a name, or with a character that no device name has.
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
    /// This kind, over one CPU of each core or all, without isolated ones that it does not name.
    pub fn of(kind: PolicyKind, nosmt: bool) -> Self {
        Self { kind, nosmt, isolated: false }
    }

    /// Isolated CPUs that are meant: those that are named, or all.
    pub(super) fn isolated(&self, machine: &Machine) -> CpuSet {
        if self.isolated { machine.isolated.clone() } else { self.named().intersection(&machine.isolated) }
    }

    /// CPUs that `cpus=LIST` names; none for other policies.
    pub(super) fn named(&self) -> CpuSet {
        match &self.kind {
            PolicyKind::Cpus(list) => list.set(),
            _ => CpuSet::new(),
        }
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
