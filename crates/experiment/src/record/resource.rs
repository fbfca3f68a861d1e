//! The figures of resources that are read around a slice in which many instances of a service run.

use super::{Direction, Metric};

/// A figure of a resource. Its name is that of a [`Metric`] of a record; what is read is in the feature that measures, what
/// it means in `manycore_analysis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Time for which threads of the observed instance waited for a CPU, all together. It contains the time for which they were
    /// throttled.
    RunDelay,
    /// Time for which control groups of the observed instance were throttled, all CPUs together.
    Throttled,
    /// CPU time of the observed instance over time, in CPUs.
    CpuUse,
    /// Share of the time of all usable CPUs in which they were not idle.
    CpusBusy,
    /// The same of the SMT siblings of the CPUs of the observed instance.
    SiblingsBusy,
    /// Share of the time of its CPUs in handlers of interrupts and in softirqs.
    InterruptTime,
    /// Interrupts of devices on its CPUs.
    DeviceInterrupts,
    /// Share of the time of its CPUs that the hypervisor gave to other virtual machines.
    Steal,
    /// Time in which some task of the machine waited for a CPU.
    CpuPressure,
    /// Time in which some task of the machine waited for memory.
    MemoryPressure,
    /// Packets that the machine dropped because a backlog was full, and times that a CPU left packets for later.
    SoftnetOverruns,
    /// TCP segments that were sent again, and connections that a listening socket refused.
    TcpLosses,
    /// Page faults of the machine that waited for a disk.
    MajorFaults,
    /// Bytes of the last-level caches that hold data of the observed instance's group of resctrl.
    CacheOccupancy,
    /// Bytes to and from memory of all groups of resctrl together.
    MemoryBandwidth,
}

/// Name of the metric with the part of the latency that is the client's own, in percent.
pub const CLIENT_PART: &str = "client part";

/// Each resource with its name and its unit, in the order in which they are shown.
const ALL: [(Resource, &str, &str); 15] = [
    (Resource::RunDelay, "run delay", "ms/s"),
    (Resource::Throttled, "throttled", "ms/s"),
    (Resource::CpuUse, "CPU use", "CPUs"),
    (Resource::CpusBusy, "CPUs busy", "%"),
    (Resource::SiblingsBusy, "SMT siblings busy", "%"),
    (Resource::InterruptTime, "interrupt time", "%"),
    (Resource::DeviceInterrupts, "device interrupts", "1/s"),
    (Resource::Steal, "steal", "%"),
    (Resource::CpuPressure, "CPU pressure", "ms/s"),
    (Resource::MemoryPressure, "memory pressure", "ms/s"),
    (Resource::SoftnetOverruns, "softnet drops+squeezes", "1/s"),
    (Resource::TcpLosses, "TCP retransmits+drops", "1/s"),
    (Resource::MajorFaults, "major faults", "1/s"),
    (Resource::CacheOccupancy, "LLC occupancy", "MiB"),
    (Resource::MemoryBandwidth, "memory bandwidth", "GB/s"),
];

impl Resource {
    /// Returns all resources, in the order in which they are shown.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(resource, _, _)| *resource)
    }

    /// Returns the resource of the metric `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        ALL.iter().find(|(_, known, _)| *known == name).map(|(resource, _, _)| *resource)
    }

    /// Returns its name: `run delay`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Returns the metric of its values. At an equal rate of requests, less is better of all but the cache.
    pub fn metric(self) -> Metric {
        let better = if self == Self::CacheOccupancy { Direction::Higher } else { Direction::Lower };
        Metric { name: self.name().to_owned(), unit: self.entry().2.to_owned(), better }
    }

    fn entry(self) -> (Self, &'static str, &'static str) {
        // The table is in the order of the variants; a test holds it to that.
        ALL[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_a_name_of_its_own() {
        for (index, resource) in Resource::all().enumerate() {
            assert_eq!((resource as usize, Resource::from_name(resource.name())), (index, Some(resource)));
            assert!(!resource.metric().unit.is_empty());
        }
        assert_eq!(Resource::from_name("p99"), None);
    }
}
