//! Schedulers of variants as text: `kernel`, `cluster:spread`, `scx_lavd --performance`.

use crate::{format_command, service::LOAD_MARKER, split_command};
use manycore_control::scheduler::{KERNEL, Scheduler, SchedulerLoader};
use std::{fmt, str::FromStr};

/// What precedes the policy of the cluster-aware scheduler.
pub const CLUSTER: &str = "cluster:";

/// How the kernel's name of the cluster-aware scheduler begins.
const CLUSTER_NAME: &str = "manycore";

/// The scheduler of all tasks while a variant runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerChoice {
    /// The kernel's own one.
    Kernel,
    /// The cluster-aware scheduler of this program.
    Cluster(ClusterPolicy),
    /// A program, with its arguments, that keeps a `sched_ext` scheduler loaded while it runs.
    Program(Vec<String>),
}

/// How the cluster-aware scheduler distributes tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterPolicy {
    /// Over idle clusters.
    Spread,
    /// A task that is woken runs beside the one that wakes it.
    Pack,
}

impl ClusterPolicy {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Spread, Self::Pack];

    /// Its name, as `--policy` of the loader takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Pack => "pack",
        }
    }
}

impl SchedulerChoice {
    /// Returns what loads it. `cluster` is the command that loads the cluster-aware scheduler, without the policy at its end.
    pub fn resolve(&self, cluster: &[String]) -> Scheduler {
        let (command, name_prefix) = match self {
            Self::Kernel => return Scheduler::kernel(),
            Self::Cluster(policy) => {
                let command = cluster.iter().cloned().chain([policy.name().to_owned()]).collect();
                (command, Some(CLUSTER_NAME.to_owned()))
            }
            Self::Program(command) => (command.clone(), None),
        };
        // Otherwise it would be taken for a part of a service that went into the background.
        let env = vec![(LOAD_MARKER.to_owned(), std::process::id().to_string())];
        Scheduler { label: self.to_string(), loader: Some(SchedulerLoader { command, env, name_prefix }) }
    }

    /// Returns the command of a shell that loads it in the background; empty for the kernel's own one.
    pub fn shell_command(&self) -> String {
        match self {
            Self::Kernel => String::new(),
            Self::Cluster(policy) => format!("sudo manycore sched run --policy {} &", policy.name()),
            Self::Program(command) => format!("sudo {} &", format_command(command)),
        }
    }
}

impl fmt::Display for SchedulerChoice {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Kernel => out.write_str(KERNEL),
            Self::Cluster(policy) => write!(out, "{CLUSTER}{}", policy.name()),
            Self::Program(command) => out.write_str(&format_command(command)),
        }
    }
}

/// Why a text is not a scheduler. The message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a scheduler{why}; write kernel, cluster:spread, cluster:pack, or a program that loads a sched_ext \
     scheduler, with its options, such as 'scx_lavd --performance'"
)]
pub struct ParseSchedulerError {
    text: String,
    why: String,
}

impl FromStr for SchedulerChoice {
    type Err = ParseSchedulerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| ParseSchedulerError { text: text.to_owned(), why: why.to_owned() };
        let text = text.trim();
        if text == KERNEL {
            return Ok(Self::Kernel);
        }
        if let Some(name) = text.strip_prefix(CLUSTER) {
            let policy = ClusterPolicy::ALL.into_iter().find(|policy| policy.name() == name);
            return policy.map(Self::Cluster).ok_or_else(|| match name {
                "auto" => wrong(": auto changes its policy during a run"),
                _ => wrong(""),
            });
        }
        let words = split_command(text).map_err(|error| wrong(&format!(": {error}")))?;
        match words.first().map(String::as_str) {
            None | Some("") => Err(wrong("")),
            Some("cluster") => Err(wrong(": it has no policy")),
            Some(program) if program.starts_with('-') => Err(wrong(": it begins with an option")),
            Some(_) => Ok(Self::Program(words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_are_read_as_they_are_written() {
        let cluster = ["/proc/self/exe", "sched", "--policy"].map(str::to_owned);
        for (text, command, prefix) in [
            ("cluster:spread", "/proc/self/exe sched --policy spread", Some("manycore")),
            ("cluster:pack", "/proc/self/exe sched --policy pack", Some("manycore")),
            ("scx_lavd", "scx_lavd", None),
            ("scx_layered --config 'a b.json'", "scx_layered --config 'a b.json'", None),
        ] {
            let choice: SchedulerChoice = text.parse().unwrap();
            let scheduler = choice.resolve(&cluster);
            assert_eq!((choice.to_string().as_str(), scheduler.label.as_str()), (text, text));
            let loader = scheduler.loader.unwrap();
            assert_eq!(
                (format_command(&loader.command).as_str(), loader.name_prefix.as_deref()),
                (command, prefix)
            );
        }
        let kernel: SchedulerChoice = " kernel ".parse().unwrap();
        assert_eq!(kernel.resolve(&cluster), Scheduler::kernel());
        for (text, why) in [
            ("", "'' is not a scheduler: the command is empty; write kernel"),
            ("cluster", "it has no policy"),
            ("cluster:auto", "auto changes its policy during a run"),
            ("cluster:fast", "'cluster:fast' is not a scheduler; write kernel"),
            ("scx 'open", "a quote is not closed"),
            ("--policy x", "begins with an option"),
        ] {
            let error = text.parse::<SchedulerChoice>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
