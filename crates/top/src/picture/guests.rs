//! What virtual machines did: sums over the threads of their virtual CPUs.

use super::{Picture, TaskUse};
use crate::resources::GuestSample;
use manycore_topology::CpuSet;

/// A virtual machine, and what the threads of its virtual CPUs did.
#[derive(Clone, Debug)]
pub(crate) struct GuestUse<'a> {
    pub guest: &'a GuestSample,
    /// Its virtual CPUs by number. A thread that the picture does not have is absent.
    pub vcpus: Vec<(u32, Option<&'a TaskUse>)>,
}

impl Picture {
    /// Returns the virtual machines, ascending by process.
    pub(crate) fn guest_uses(&self) -> impl Iterator<Item = GuestUse<'_>> {
        self.guests.iter().map(|guest| {
            let of = |tid: &u32| {
                let at =
                    self.tasks.binary_search_by_key(&(guest.pid, *tid), |task| (task.id.pid, task.id.tid));
                at.ok().map(|at| &self.tasks[at])
            };
            GuestUse { guest, vcpus: guest.vcpus.iter().map(|(vcpu, tid)| (*vcpu, of(tid))).collect() }
        })
    }
}

impl<'a> GuestUse<'a> {
    fn tasks(&self) -> impl Iterator<Item = &'a TaskUse> {
        self.vcpus.iter().filter_map(|(_, task)| *task)
    }

    /// Returns the time of its virtual CPUs on CPUs, in CPUs.
    pub fn run(&self) -> f64 {
        self.tasks().map(|task| task.run).sum()
    }

    /// Returns the time that its virtual CPUs waited for a CPU, in virtual CPUs that wait; `None` without `schedstat`.
    pub fn wait(&self) -> Option<f64> {
        self.tasks().filter_map(|task| task.wait).reduce(|sum, one| sum + one)
    }

    /// Returns the CPUs that its virtual CPUs may use; empty if they are unknown.
    pub fn allowed(&self) -> CpuSet {
        CpuSet::union_of(self.tasks().filter_map(|task| task.allowed.as_deref()))
    }

    /// Returns the CPUs on which its virtual CPUs were last.
    pub fn last_cpus(&self) -> CpuSet {
        self.tasks().map(|task| task.cpu).collect()
    }
}
