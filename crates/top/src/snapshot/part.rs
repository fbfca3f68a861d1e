//! The parts of a snapshot.

/// A part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Sums over the machine.
    System,
    /// Clusters, last-level caches and nodes.
    Units,
    /// Each CPU.
    Cpus,
    /// Processes, and the most busy ones only.
    Processes,
    /// Threads, as processes.
    Threads,
    /// Processes: memory by node, pressure of their control groups.
    Memory,
    /// Interrupts and softirqs.
    Interrupts,
    /// Memory by node.
    Nodes,
    /// Control groups.
    Groups,
    /// Virtual machines and their virtual CPUs.
    Guests,
    /// Memory bandwidth by group of resctrl.
    Bandwidth,
    /// Latencies of the scheduler, with BPF only.
    Latency,
    /// Problems, each with how to mend it.
    Findings,
}

impl Part {
    /// All parts, each with its name and what it is, as a user reads them.
    pub const ALL: [(Self, &'static str, &'static str); 13] = [
        (Self::System, "system", "Sums over the machine"),
        (Self::Units, "units", "Clusters, last-level caches and nodes"),
        (Self::Cpus, "cpus", "Each CPU"),
        (Self::Processes, "processes", "Processes"),
        (Self::Threads, "threads", "Threads"),
        (
            Self::Memory,
            "memory",
            "Processes: memory by node, its remote share, and pressure of their control groups",
        ),
        (Self::Interrupts, "interrupts", "Interrupts and softirqs"),
        (Self::Nodes, "nodes", "Memory by node"),
        (Self::Groups, "groups", "Control groups"),
        (Self::Guests, "guests", "Virtual machines and their virtual CPUs"),
        (Self::Bandwidth, "bandwidth", "Memory bandwidth and cache by group of resctrl"),
        (Self::Latency, "latency", "Latencies of the scheduler, with --bpf"),
        (Self::Findings, "findings", "Problems, each with how to mend it"),
    ];

    /// Returns the part of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, own, _)| *own == name).map(|(part, ..)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_in_order_and_have_names_of_their_own() {
        for (at, (part, name, _)) in Part::ALL.into_iter().enumerate() {
            assert_eq!((part as usize, Part::named(name)), (at, Some(part)));
        }
        assert_eq!(Part::named("none"), None);
    }
}
