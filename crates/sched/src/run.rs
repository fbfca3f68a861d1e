//! What `sched run` does, whatever does it: the policies, the work that they are for, and the engines.

use std::{fmt, str::FromStr};

/// How the busy threads of a group are placed on units of CPUs, such as clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Each in a unit of its own, as long as there are idle ones.
    #[default]
    Spread,
    /// Together, in as few units as have CPUs for them.
    Pack,
    /// Spread or packed, as measured.
    Auto,
}

/// A policy that does not depend on measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FixedPolicy {
    /// [`Policy::Spread`].
    #[default]
    Spread,
    /// [`Policy::Pack`].
    Pack,
}

/// What places the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// A scheduler in the kernel.
    #[default]
    SchedExt,
    /// Affinities, set from user space at a low rate ([`crate::affinity`]).
    Affinity,
}

/// Work to which a policy applies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A process and its descendants.
    Process(u32),
    /// All processes of this name, now and later, and their descendants.
    Name(String),
    /// A control group and all groups below it: its path below the mount point, or its directory.
    Cgroup(String),
    /// The command that is started, with its descendants.
    Command(Vec<String>),
}

/// Work, and the policy for its threads. Threads of one group are packed together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetPolicy {
    /// The work.
    pub target: Target,
    /// The policy.
    pub policy: Policy,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Spread, Self::Pack, Self::Auto];

    /// Returns the policy as the command line names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Pack => "pack",
            Self::Auto => "auto",
        }
    }

    /// Returns the policy, unless it depends on measurements.
    pub fn fixed(self) -> Option<FixedPolicy> {
        match self {
            Self::Spread => Some(FixedPolicy::Spread),
            Self::Pack => Some(FixedPolicy::Pack),
            Self::Auto => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == text);
        found.ok_or_else(|| format!("'{text}' is not a policy; write spread, pack or auto"))
    }
}
