//! Problems of the moment, each with its evidence and how to mend it.
//!
//! [`Watch`] finds those that a picture shows. It reports what has held for a time, so that a moment is no finding.
//! [`Conditions`] of the machine are read seldom. The caller adds what only other crates can find.

mod conditions;
mod course;
mod kind;
mod pins;
mod rules;
#[cfg(test)]
pub(crate) mod tests;

pub use conditions::Conditions;
pub use course::of_recording;
pub use kind::FindingKind;

use crate::{picture::Picture, units::LevelUnits};
use manycore_topology::{CpuSet, Level, Machine};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// A problem that holds now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// What is seen, with its figures, in one sentence. Printable.
    pub text: String,
    /// How to mend it: a command, or words with commands. Absent if nothing on this machine can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// For how long it has held, in seconds.
    pub seconds: f64,
}

/// A finding of one picture: what distinguishes it from others of its kind, and its words.
struct Seen {
    kind: FindingKind,
    /// The CPU, process or group.
    subject: String,
    text: String,
    fix: Option<String>,
}

/// The machine, as rules need it.
struct Context<'a> {
    picture: &'a Picture,
    clusters: &'a LevelUnits,
    nodes: &'a LevelUnits,
    node_cpus: &'a [(u32, CpuSet)],
}

impl Picture {
    /// Returns whether interrupts take so much time of some CPU that a finding can name one. Only then `/proc/interrupts`
    /// needs to be read for findings.
    pub fn has_many_interrupts(&self) -> bool {
        self.cpus.iter().any(|one| rules::many_interrupts(one).is_some())
    }
}

/// Remembers for how long findings have held.
#[derive(Debug)]
pub struct Watch {
    clusters: LevelUnits,
    nodes: LevelUnits,
    node_cpus: Vec<(u32, CpuSet)>,
    least: Duration,
    held: BTreeMap<(FindingKind, String), Duration>,
}

impl Watch {
    /// Begins without findings. Those are reported that have held for `least` or longer.
    pub fn new(machine: &Machine, least: Duration) -> Self {
        Self {
            clusters: LevelUnits::new(machine, Level::Cluster),
            nodes: LevelUnits::new(machine, Level::Node),
            node_cpus: machine.nodes.iter().map(|node| (node.id, node.cpus.clone())).collect(),
            least,
            held: BTreeMap::new(),
        }
    }

    /// Returns the findings that hold at the end of a picture, which follows those of earlier calls, the worst kinds
    /// first.
    pub fn update(&mut self, picture: &Picture) -> Vec<Finding> {
        self.with_subjects(picture).into_iter().map(|(_, finding)| finding).collect()
    }

    /// As [`Self::update`], each with the CPU, process or group that it is about.
    fn with_subjects(&mut self, picture: &Picture) -> Vec<(String, Finding)> {
        let context =
            Context { picture, clusters: &self.clusters, nodes: &self.nodes, node_cpus: &self.node_cpus };
        let seen = rules::find(&context);
        let length = Duration::try_from_secs_f64(picture.seconds).unwrap_or_default();
        let mut held = BTreeMap::new();
        let mut findings = Vec::new();
        for one in seen {
            let key = (one.kind, one.subject);
            let time = self.held.get(&key).copied().unwrap_or_default() + length;
            if time >= self.least {
                let seconds = time.as_secs_f64();
                let finding = Finding { kind: one.kind, text: one.text, fix: one.fix, seconds };
                findings.push((key.1.clone(), finding));
            }
            held.insert(key, time);
        }
        self.held = held;
        findings.sort_by_key(|(_, finding)| finding.kind);
        findings
    }
}
