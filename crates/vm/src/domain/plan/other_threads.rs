//! CPUs of the emulator and of I/O threads: of all threads of QEMU that are no virtual CPUs.

use super::{PlanInput, cpu::iothreads, vcpu_placement::LocationIndex};
use crate::{error::PlanError, remedy::Notes};
use manycore_placement::UnusedCpus;
use manycore_topology::{CpuSet, Machine};
use std::collections::BTreeMap;

/// Host CPUs of the threads that are no virtual CPUs.
pub(super) struct OtherThreads {
    pub emulator: CpuSet,
    /// By the id of the thread.
    pub iothreads: BTreeMap<u32, CpuSet>,
}

impl OtherThreads {
    /// Places them on the reserve. Without one, a thread keeps the CPUs that the XML gives it if no virtual CPU runs there, and
    /// the others get CPUs beside those of the virtual CPUs. CPUs that a plan gave it for the pins of the XML are planned anew.
    pub fn place(
        input: &PlanInput,
        pins: &[CpuSet],
        index: &LocationIndex,
        notes: &mut Notes,
    ) -> Result<Self, PlanError> {
        let PlanInput { machine, request, .. } = *input;
        let vcpus = CpuSet::union_of(pins);
        // A pin may name billions of CPUs.
        let online = |pin: &Option<CpuSet>| pin.as_ref().map(|cpus| cpus.intersection(&machine.online));
        let earlier: Option<Vec<CpuSet>> = input.before.pins.iter().map(online).collect();
        let earlier = earlier.map(|pins| beside(machine, &pins, index));
        let reserve = UnusedCpus::new(&request.policy, machine, &request.reserve).reserved.difference(&vcpus);
        let planned = if reserve.is_empty() { beside(machine, pins, index) } else { reserve.clone() };
        let mut place = |thread: String, own: Option<&CpuSet>| {
            let Some(own) = own.filter(|own| **own != planned) else { return planned.clone() };
            let why = if Some(own) == earlier.as_ref() {
                "the virtual CPUs move"
            } else if !reserve.is_empty() {
                "they are reserved for it"
            } else if own.intersects(&vcpus) {
                "virtual CPUs run on those that the XML gives it"
            } else if own.is_empty() || !own.is_subset(&machine.online) {
                "not all that the XML gives it are online"
            } else {
                notes.push(format!("{thread} stays on {}, as the XML says", cpus_of(own)));
                return own.clone();
            };
            notes.push(format!("{thread} moves from {} to {planned}: {why}", cpus_of(own)));
            planned.clone()
        };
        let emulator = place("the emulator".to_owned(), input.before.emulator.as_ref());
        let iothreads = iothreads(input)?.into_iter();
        let iothreads = iothreads
            .map(|id| (id, place(format!("I/O thread {id}"), input.before.iothreads.get(&id))))
            .collect();
        Ok(Self { emulator, iothreads })
    }
}

/// Writes a set: `CPU 3`, `CPUs 3-5`.
fn cpus_of(cpus: &CpuSet) -> String {
    format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
}

/// Returns the CPUs on which no virtual CPU runs: those of the nodes with virtual CPUs, or else of any node. Isolated ones are
/// left out. If no CPU is left, the threads share CPUs with virtual CPUs.
fn beside(machine: &Machine, pins: &[CpuSet], index: &LocationIndex) -> CpuSet {
    let vcpus = CpuSet::union_of(pins);
    let all = machine.online.difference(&machine.isolated);
    let nodes = pins.iter().filter_map(|cpus| machine.nodes.get(index.locate(cpus).node?));
    let near = CpuSet::union_of(nodes.map(|node| &node.cpus)).intersection(&all);
    let sets = [near.difference(&vcpus), all.difference(&vcpus), near, all];
    sets.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or(vcpus)
}
