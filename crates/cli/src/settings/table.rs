//! The options that may have a user's default.

/// The subcommands with settings, and no others.
pub const SUBCOMMANDS: [&str; 22] = [
    "eval",
    "bench",
    "compare",
    "scale",
    "tune",
    "spawn",
    "density",
    "topo",
    "top",
    "trace",
    "audit",
    "falseshare",
    "report",
    "doctor",
    "plan",
    "run",
    "pin",
    "irq",
    "sched",
    "qos",
    "vm",
    "config",
];

/// A setting for all subcommands that have the option.
#[derive(Debug)]
pub struct GlobalSetting {
    /// Name of the option, without dashes.
    pub name: &'static str,
    /// What it sets.
    pub about: &'static str,
    /// The subcommands in question; all that have the option if empty.
    pub only: &'static [&'static str],
}

impl GlobalSetting {
    /// Returns the variable of the environment for this setting.
    pub fn variable(&self) -> String {
        format!("MANYCORE_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// Whether the setting is for a subcommand; that of a nested one is its first word.
    pub fn is_for(&self, subcommand: &str) -> bool {
        self.only.is_empty() || self.only.contains(&subcommand)
    }
}

/// The settings for all subcommands.
pub const GLOBAL: [GlobalSetting; 9] = [
    GlobalSetting {
        name: "budget",
        about: "how long to measure",
        only: &["eval", "bench", "compare", "scale", "tune", "qos"],
    },
    GlobalSetting { name: "equivalent", about: "margin of equivalence", only: &[] },
    GlobalSetting { name: "place", about: "placement", only: &["plan", "run", "pin"] },
    GlobalSetting { name: "results", about: "directory of all results", only: &[] },
    GlobalSetting { name: "format", about: "output format", only: &[] },
    GlobalSetting { name: "color", about: "colour of output", only: &[] },
    GlobalSetting { name: "verbose", about: "all findings", only: &[] },
    GlobalSetting { name: "quiet", about: "no progress and no notes", only: &[] },
    GlobalSetting { name: "seed", about: "seed of all random orders", only: &[] },
];

/// Further options that the table of a subcommand may set.
pub const OF_SUBCOMMANDS: [&str; 22] = [
    "precision",
    "pairs",
    "warmup",
    "timeout",
    "metric",
    "primary",
    "workers",
    "memory",
    "reserve",
    "hold",
    "exclusive",
    "only",
    "interval",
    "runtime",
    "counts",
    "work-time",
    "engine",
    "threshold",
    "latent",
    "memory-limit",
    "dialect",
    "sort",
];

/// Whether an option may have a user's default in the table of a subcommand.
pub fn may_be_set(name: &str) -> bool {
    GLOBAL.iter().any(|known| known.name == name) || OF_SUBCOMMANDS.contains(&name)
}
