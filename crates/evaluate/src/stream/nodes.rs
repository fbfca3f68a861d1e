//! The nodes of a memory measurement: the nodes with the working CPUs, and the nodes with the memory.

use crate::error::{Error, LoadOption, Result};
use manycore_placement::{Policy, PolicyKind, Reserve};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Node};

/// A node with the working CPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeCpus {
    pub(super) node: u32,
    /// In the order in which workers use them: spread as far apart as possible.
    pub(super) cpus: Vec<CpuId>,
}

/// The nodes that take part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StreamNodes {
    pub(super) cpu_nodes: Vec<NodeCpus>,
    /// Nodes with memory.
    pub(super) memory_nodes: Vec<u32>,
    /// Whether memory is bound to nodes. With one node there is no need to.
    pub(super) bind_memory: bool,
}

impl StreamNodes {
    /// Returns the nodes of `machine`, or those among them that are in `requested`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if a requested node does not exist or the requested nodes have no usable CPU or
    /// no memory. [`Error::Unavailable`] if the machine has none.
    pub(super) fn select(machine: &Machine, requested: Option<&CpuSet>) -> Result<Self> {
        let whole = [Node { cpus: machine.usable(), ..Node::default() }];
        let nodes = if machine.nodes.is_empty() { &whole[..] } else { &machine.nodes };
        let known: CpuSet = nodes.iter().map(|node| node.id).collect();
        if let Some(requested) = requested {
            let strange = requested.difference(&known);
            if requested.is_empty() || !strange.is_empty() {
                let what = if requested.is_empty() {
                    "the list is empty".to_owned()
                } else {
                    format!("there is no node {strange}")
                };
                let reason = format!("{requested}: {what}; this machine has nodes {known}");
                return Err(Error::invalid(LoadOption::Nodes, reason));
            }
        }
        let chosen =
            || nodes.iter().filter(|node| requested.is_none_or(|requested| requested.contains(node.id)));
        let cpu_nodes: Vec<NodeCpus> =
            chosen().filter_map(|node| cpus_of(machine, node)).filter(|node| !node.cpus.is_empty()).collect();
        let memory_nodes: Vec<u32> =
            chosen().filter(|node| node.memory_bytes != Some(0)).map(|node| node.id).collect();
        let refused = |what: String| match requested {
            Some(requested) => Err(Error::invalid(LoadOption::Nodes, format!("{requested}: {what}"))),
            None => Err(Error::unavailable(what)),
        };
        let named: CpuSet = chosen().map(|node| node.id).collect();
        if cpu_nodes.is_empty() {
            let usable = machine.usable();
            return refused(format!("no CPU of nodes {named} may be used; usable are CPUs {usable}"));
        }
        if memory_nodes.is_empty() {
            return refused(format!("nodes {named} have no memory"));
        }
        Ok(Self { cpu_nodes, memory_nodes, bind_memory: nodes.len() > 1 })
    }

    /// Returns the CPUs and the memory on which kernels are compared: those of the first node with both, or
    /// else the first of each.
    pub(super) fn home(&self) -> (&NodeCpus, u32) {
        let own = self.cpu_nodes.iter().find(|own| self.memory_nodes.contains(&own.node));
        own.map_or((&self.cpu_nodes[0], self.memory_nodes[0]), |own| (own, own.node))
    }

    /// Returns the largest number of workers at once.
    pub(super) fn most(&self) -> usize {
        self.cpu_nodes.iter().map(|node| node.cpus.len()).max().unwrap_or(1)
    }
}

/// Returns the usable CPUs of `node`. A node without CPUs of its own has none, even if CPUs of other nodes
/// are listed as near.
fn cpus_of(machine: &Machine, node: &Node) -> Option<NodeCpus> {
    let cpus = node.cpus.intersection(&machine.usable());
    if node.memory_only || cpus.is_empty() {
        return None;
    }
    let mut here = machine.clone();
    here.allowed.cpus = cpus.clone();
    let spread = Policy::new(PolicyKind::Spread, false);
    // A policy does not use isolated CPUs. If they were requested, they are used in the order of their
    // numbers.
    let order = spread
        .plan(&here, cpus.len(), &Reserve::Nothing)
        .map(|plan| plan.workers.iter().filter_map(|worker| worker.cpus.first()).collect::<Vec<CpuId>>())
        .ok()
        .filter(|order| order.iter().copied().collect::<CpuSet>() == cpus);
    Some(NodeCpus { node: node.id, cpus: order.unwrap_or_else(|| cpus.iter().collect()) })
}

/// Returns the bytes of the last-level caches of the node with the most. `None` if the machine does not
/// report them.
pub(super) fn caches(machine: &Machine, cpu_nodes: &[NodeCpus]) -> Option<u64> {
    let of = |node: &NodeCpus| {
        let cpus: CpuSet = node.cpus.iter().copied().collect();
        let near = machine.last_level_caches().filter(|cache| cache.cpus.intersects(&cpus));
        near.map(|cache| cache.size_bytes).sum::<Option<u64>>().filter(|&bytes| bytes > 0)
    };
    cpu_nodes.iter().filter_map(of).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;

    /// Returns a machine with two nodes of eight CPUs, two on each core.
    fn machine() -> Machine {
        SyntheticMachine { nodes: 2, ..SyntheticMachine::server() }.record().machine
    }

    fn refused(machine: &Machine, nodes: &str) -> (i32, String) {
        match StreamNodes::select(machine, Some(&nodes.parse().unwrap())).unwrap_err() {
            Error::InvalidOption { reason, .. } => (2, reason),
            Error::Unavailable(what) => (3, what),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cores_come_before_their_second_cpus() {
        let nodes = StreamNodes::select(&machine(), None).unwrap();
        assert_eq!((nodes.memory_nodes.as_slice(), nodes.bind_memory, nodes.most()), (&[0, 1][..], true, 8));
        let first = &nodes.cpu_nodes[0];
        let halves: Vec<CpuSet> = first.cpus.chunks(4).map(|half| half.iter().copied().collect()).collect();
        assert_eq!(halves.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0,2,4,6", "1,3,5,7"]);
        assert_eq!(caches(&machine(), &nodes.cpu_nodes), Some(32 << 20));
    }

    #[test]
    fn nodes_without_cpus_or_memory_have_half_a_part() {
        let mut machine = machine();
        machine.nodes[1].memory_only = true;
        let nodes = StreamNodes::select(&machine, None).unwrap();
        assert_eq!((nodes.cpu_nodes.len(), nodes.memory_nodes.len()), (1, 2));
        assert_eq!(
            refused(&machine, "1"),
            (2, "1: no CPU of nodes 1 may be used; usable are CPUs 0-15".into())
        );
        machine.nodes[0].memory_bytes = Some(0);
        let nodes = StreamNodes::select(&machine, None).unwrap();
        let (cpus_of, memory) = nodes.home();
        assert_eq!((cpus_of.node, memory), (0, 1));
        assert_eq!(refused(&machine, "0"), (2, "0: nodes 0 have no memory".into()));
    }

    #[test]
    fn missing_nodes_are_reported() {
        let machine = machine();
        assert_eq!(
            refused(&machine, "0,7"),
            (2, "0,7: there is no node 7; this machine has nodes 0-1".into())
        );
        assert!(refused(&machine, "").1.contains("the list is empty"));
    }

    #[test]
    fn isolated_cpus_that_were_named_work() {
        let mut machine = machine();
        machine.isolated = "0-3".parse().unwrap();
        machine.allowed.cpus = "2-3".parse().unwrap();
        let nodes = StreamNodes::select(&machine, None).unwrap();
        assert_eq!(nodes.cpu_nodes, [NodeCpus { node: 0, cpus: vec![2, 3] }]);
    }

    #[test]
    fn a_machine_without_reported_nodes_is_one_node() {
        let machine = Machine { nodes: Vec::new(), ..machine() };
        let nodes = StreamNodes::select(&machine, None).unwrap();
        assert_eq!((nodes.memory_nodes.as_slice(), nodes.bind_memory, nodes.most()), (&[0][..], false, 16));
    }
}
