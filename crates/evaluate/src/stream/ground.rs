//! The nodes of a memory measurement: whose CPUs work, and whose memory they use.

use crate::error::{Error, Result};
use manycore_placement::{Policy, PolicyKind, Reserve};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Node};

/// A node whose CPUs work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Crowd {
    pub(super) node: u32,
    /// In the order in which workers use them: spread as far apart as possible.
    pub(super) cpus: Vec<CpuId>,
}

/// The nodes that take part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ground {
    pub(super) crowds: Vec<Crowd>,
    /// Nodes with memory.
    pub(super) memories: Vec<u32>,
    /// Whether memory is bound to nodes. With one node there is no need to.
    pub(super) bound: bool,
}

impl Ground {
    /// Returns the nodes of `machine`, or those among them that are in `asked`.
    ///
    /// # Errors
    /// [`Error::Invalid`] where those that were asked for are not there, or have no CPU or no memory;
    /// [`Error::Unavailable`] where the machine has none.
    pub(super) fn of(machine: &Machine, asked: Option<&CpuSet>) -> Result<Self> {
        let whole = [Node { cpus: machine.usable(), ..Node::default() }];
        let nodes = if machine.nodes.is_empty() { &whole[..] } else { &machine.nodes };
        let known: CpuSet = nodes.iter().map(|node| node.id).collect();
        if let Some(asked) = asked {
            let strange = asked.difference(&known);
            if asked.is_empty() || !strange.is_empty() {
                let what = if asked.is_empty() {
                    "the list is empty".to_owned()
                } else {
                    format!("there is no node {strange}")
                };
                return Err(Error::invalid(format!(
                    "--nodes {asked}: {what}; this machine has nodes {known}"
                )));
            }
        }
        let chosen = || nodes.iter().filter(|node| asked.is_none_or(|asked| asked.contains(node.id)));
        let crowds: Vec<Crowd> =
            chosen().filter_map(|node| crowd(machine, node)).filter(|crowd| !crowd.cpus.is_empty()).collect();
        let memories: Vec<u32> =
            chosen().filter(|node| node.memory_bytes != Some(0)).map(|node| node.id).collect();
        let refused = |what: String| {
            if asked.is_some() { Err(Error::invalid(what)) } else { Err(Error::unavailable(what)) }
        };
        let named: CpuSet = chosen().map(|node| node.id).collect();
        if crowds.is_empty() {
            let usable = machine.usable();
            return refused(format!("no CPU of nodes {named} may be used; usable are CPUs {usable}"));
        }
        if memories.is_empty() {
            return refused(format!("nodes {named} have no memory"));
        }
        Ok(Self { crowds, memories, bound: nodes.len() > 1 })
    }

    /// Returns the CPUs and the memory on which kernels are compared: those of the first node with both, or
    /// else the first of each.
    pub(super) fn home(&self) -> (&Crowd, u32) {
        let own = self.crowds.iter().find(|crowd| self.memories.contains(&crowd.node));
        own.map_or((&self.crowds[0], self.memories[0]), |crowd| (crowd, crowd.node))
    }

    /// Returns the largest number of workers at once.
    pub(super) fn most(&self) -> usize {
        self.crowds.iter().map(|crowd| crowd.cpus.len()).max().unwrap_or(1)
    }
}

/// Returns the usable CPUs of `node`. A node without CPUs of its own has none, even if CPUs of other nodes
/// are listed as near.
fn crowd(machine: &Machine, node: &Node) -> Option<Crowd> {
    let cpus = node.cpus.intersection(&machine.usable());
    if node.memory_only || cpus.is_empty() {
        return None;
    }
    let mut here = machine.clone();
    here.allowed.cpus = cpus.clone();
    let spread = Policy::of(PolicyKind::Spread, false);
    // A policy does not use isolated CPUs. If they were requested, they are used in the order of their
    // numbers.
    let order = spread
        .plan(&here, cpus.len(), &Reserve::Nothing)
        .map(|plan| plan.workers.iter().filter_map(|worker| worker.cpus.first()).collect::<Vec<CpuId>>())
        .ok()
        .filter(|order| order.iter().copied().collect::<CpuSet>() == cpus);
    Some(Crowd { node: node.id, cpus: order.unwrap_or_else(|| cpus.iter().collect()) })
}

/// Returns the bytes of the last-level caches of the node with the most. `None` if the machine does not
/// report them.
pub(super) fn caches(machine: &Machine, crowds: &[Crowd]) -> Option<u64> {
    let of = |crowd: &Crowd| {
        let cpus: CpuSet = crowd.cpus.iter().copied().collect();
        let near = machine.last_level_caches().filter(|cache| cache.cpus.intersects(&cpus));
        near.map(|cache| cache.size_bytes).sum::<Option<u64>>().filter(|&bytes| bytes > 0)
    };
    crowds.iter().filter_map(of).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::World;

    /// Returns a machine with two nodes of eight CPUs, two on each core.
    fn machine() -> Machine {
        World { nodes: 2, ..World::server() }.record().machine
    }

    fn refused(machine: &Machine, nodes: &str) -> (i32, String) {
        match Ground::of(machine, Some(&nodes.parse().unwrap())).unwrap_err() {
            Error::Invalid(what) => (2, what),
            Error::Unavailable(what) => (3, what),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cores_come_before_their_second_cpus() {
        let ground = Ground::of(&machine(), None).unwrap();
        assert_eq!((ground.memories.as_slice(), ground.bound, ground.most()), (&[0, 1][..], true, 8));
        let first = &ground.crowds[0];
        let halves: Vec<CpuSet> = first.cpus.chunks(4).map(|half| half.iter().copied().collect()).collect();
        assert_eq!(halves.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0,2,4,6", "1,3,5,7"]);
        assert_eq!(caches(&machine(), &ground.crowds), Some(32 << 20));
    }

    #[test]
    fn nodes_without_cpus_or_memory_have_half_a_part() {
        let mut machine = machine();
        machine.nodes[1].memory_only = true;
        let ground = Ground::of(&machine, None).unwrap();
        assert_eq!((ground.crowds.len(), ground.memories.len()), (1, 2));
        assert_eq!(refused(&machine, "1"), (2, "no CPU of nodes 1 may be used; usable are CPUs 0-15".into()));
        machine.nodes[0].memory_bytes = Some(0);
        let ground = Ground::of(&machine, None).unwrap();
        let (crowd, memory) = ground.home();
        assert_eq!((crowd.node, memory), (0, 1));
        assert_eq!(refused(&machine, "0"), (2, "nodes 0 have no memory".into()));
    }

    #[test]
    fn nodes_that_are_not_there_are_told() {
        let machine = machine();
        assert_eq!(
            refused(&machine, "0,7"),
            (2, "--nodes 0,7: there is no node 7; this machine has nodes 0-1".into())
        );
        assert!(refused(&machine, "").1.contains("the list is empty"));
    }

    #[test]
    fn isolated_cpus_that_were_named_work() {
        let mut machine = machine();
        machine.isolated = "0-3".parse().unwrap();
        machine.allowed.cpus = "2-3".parse().unwrap();
        let ground = Ground::of(&machine, None).unwrap();
        assert_eq!(ground.crowds, [Crowd { node: 0, cpus: vec![2, 3] }]);
    }

    #[test]
    fn a_machine_that_tells_no_nodes_is_one() {
        let machine = Machine { nodes: Vec::new(), ..machine() };
        let ground = Ground::of(&machine, None).unwrap();
        assert_eq!((ground.memories.as_slice(), ground.bound, ground.most()), (&[0][..], false, 16));
    }
}
