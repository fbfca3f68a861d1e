//! The kinds of findings.

use serde::Serialize;

/// The kind of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Threads may use other CPUs than `manycore` gave them.
    BrokenPin,
    /// Several tenants are pinned to the same CPUs (`manycore audit`).
    OverlappingPins,
    /// Threads may run on CPUs outside of their control group's cpuset (`manycore audit`).
    OutsideCpuset,
    /// Threads are pinned to CPUs that are offline (`manycore audit`).
    OfflineCpus,
    /// Threads are pinned to several CPUs, some of which are isolated from load balancing (`manycore audit`).
    IsolatedCpus,
    /// Busy threads wait for one CPU while another is idle.
    CrowdedCpu,
    /// Busy threads of a process share a cluster while another cluster is idle.
    CrowdedCluster,
    /// A control group is throttled by its CPU quota.
    Throttled,
    /// A runtime runs more workers than its process has CPUs (`manycore audit`).
    TooManyThreads,
    /// Memory of a process is far from its CPUs.
    FarMemory,
    /// Interrupts take time of a CPU to which a busy thread is pinned.
    Interrupts,
    /// CPUs were slowed down because they were too hot.
    TooHot,
    /// Programs wait for memory that was swapped out.
    Swapping,
    /// Little memory is available.
    LittleMemory,
    /// CPUs always run at their lowest frequency.
    Powersave,
    /// The hypervisor gives CPU time to others.
    Steal,
}

impl FindingKind {
    /// All kinds, the worst first, each with its name, as in JSON.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::BrokenPin, "broken_pin"),
        (Self::OverlappingPins, "overlapping_pins"),
        (Self::OutsideCpuset, "outside_cpuset"),
        (Self::OfflineCpus, "offline_cpus"),
        (Self::IsolatedCpus, "isolated_cpus"),
        (Self::CrowdedCpu, "crowded_cpu"),
        (Self::CrowdedCluster, "crowded_cluster"),
        (Self::Throttled, "throttled"),
        (Self::TooManyThreads, "too_many_threads"),
        (Self::FarMemory, "far_memory"),
        (Self::Interrupts, "interrupts"),
        (Self::TooHot, "too_hot"),
        (Self::Swapping, "swapping"),
        (Self::LittleMemory, "little_memory"),
        (Self::Powersave, "powersave"),
        (Self::Steal, "steal"),
    ];

    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json_and_kinds_are_in_order() {
        for (at, (kind, name)) in FindingKind::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
            assert_eq!((kind as usize, kind.name()), (at, name));
        }
    }
}
