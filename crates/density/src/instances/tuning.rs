//! What distinguishes the instances of one variant from those of another.

use manycore_linux::memory_policy::MemoryPolicy;
use manycore_topology::CpuSet;
use std::{error::Error, fmt::Debug, sync::Arc};

/// The share of the CPU time of a control group without one.
const USUAL_WEIGHT: u32 = 100;

/// How instances are placed and which of them are favoured. The default is none of both.
#[derive(Clone, Debug, Default)]
pub struct InstanceTuning {
    /// The CPUs of instances: the first has the first set, and so on, from the begin again after the last. If empty, all
    /// instances may use all CPUs. A virtual machine gets them only where its XML has `{cpus}`, or from the hook.
    pub places: Vec<CpuSet>,
    /// The memory policies of instances, in turn as the CPUs; the default one if empty. A container takes those that bind it to
    /// nodes, a virtual machine none.
    pub memory: Vec<MemoryPolicy>,
    /// Variables in the environment of processes and containers.
    pub env: Vec<(String, String)>,
    /// Share of the CPU time of the observed instance, the first one, from 1 to 10,000; that of others is 100.
    pub observed_weight: Option<u32>,
    /// The same of each other instance.
    pub others_weight: Option<u32>,
    /// What else is done to them.
    pub hook: Option<Arc<dyn InstanceHook>>,
}

/// What is done to instances by more than their start. The program implements it with features of its own.
pub trait InstanceHook: Debug + Send + Sync {
    /// Returns the XML with which a virtual machine is started on these CPUs, of which `before` others have got theirs.
    ///
    /// # Errors
    /// There is no such XML.
    fn domain_xml(
        &self,
        xml: String,
        cpus: Option<&CpuSet>,
        before: usize,
    ) -> Result<String, Box<dyn Error + Send + Sync>>;

    /// Called with the number of an instance that is ready, from 0, and all of its processes, before its data is loaded.
    /// Called again with the same number if the instance is started again.
    ///
    /// # Errors
    /// Why the instance is not what it should be. The measurement ends then.
    fn ready(&self, index: usize, processes: &[u32]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl InstanceTuning {
    /// Returns the CPUs of an instance.
    pub fn place(&self, index: usize) -> Option<&CpuSet> {
        in_turn(&self.places, index)
    }

    /// Returns the number of instances before one that have the same place.
    pub(crate) fn before_in_place(&self, index: usize) -> usize {
        index / self.places.len().max(1)
    }

    /// Returns the memory policy of an instance.
    pub fn memory(&self, index: usize) -> MemoryPolicy {
        in_turn(&self.memory, index).cloned().unwrap_or_default()
    }

    /// Returns the share of the CPU time of an instance. If one has a share, all have: weights count between control groups.
    pub fn weight(&self, index: usize) -> Option<u32> {
        let own = if index == 0 { self.observed_weight } else { self.others_weight };
        self.has_weights().then(|| own.unwrap_or(USUAL_WEIGHT))
    }

    /// Whether any instance has a share of the CPU time.
    pub(crate) fn has_weights(&self) -> bool {
        self.observed_weight.or(self.others_weight).is_some()
    }
}

fn in_turn<T>(all: &[T], index: usize) -> Option<&T> {
    all.get(index.checked_rem(all.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_memory_are_taken_in_turn() {
        let tuning = InstanceTuning {
            places: vec!["0-1".parse().unwrap(), "2,4".parse().unwrap()],
            memory: vec![MemoryPolicy::Bind(vec![1])],
            ..InstanceTuning::default()
        };
        let cpus = |index| tuning.place(index).unwrap().to_string();
        assert_eq!([cpus(0), cpus(1), cpus(2)], ["0-1", "2,4", "0-1"]);
        assert_eq!([0, 1, 2, 5].map(|index| tuning.before_in_place(index)), [0, 0, 1, 2]);
        assert_eq!([tuning.memory(0), tuning.memory(5)], [0, 1].map(|_| MemoryPolicy::Bind(vec![1])));
        let none = InstanceTuning::default();
        assert_eq!((none.place(3), none.memory(3)), (None, MemoryPolicy::Default));
    }

    #[test]
    fn the_observed_instance_has_a_weight_of_its_own() {
        let tuning = InstanceTuning { observed_weight: Some(400), ..InstanceTuning::default() };
        assert_eq!([tuning.weight(0), tuning.weight(1)], [Some(400), Some(100)]);
        assert_eq!(InstanceTuning::default().weight(0), None);
    }
}
