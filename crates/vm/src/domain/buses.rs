//! The PCI buses of a domain: which controller is plugged into which, and which bus numbers an expander bus
//! needs.
//!
//! A `pcie-expander-bus` (QEMU's `pxb-pcie`) is a root bus beside bus 0, assigned to a NUMA node of the
//! guest. The guest sees all devices below it on that node. Its bus numbers begin at `busNr` and end before
//! those of the next expander; each port below it takes one number.

use super::guest::{ExpanderBus, controllers, node_of};
use crate::domain::xml::DomainXml;
use manycore_text::xml::{child, number};
use std::{collections::BTreeMap, ops::Range};

/// Maximum number of ports of an expander; each takes a slot.
pub(super) const MAX_EXPANDER_PORTS: usize = 32;
/// One past the highest bus number and the highest index of a controller.
const BUSES: u32 = 256;
/// Highest `busNr` that libvirt accepts.
const MAX_BUS_NR: u32 = 254;

/// A PCI controller.
#[derive(Clone, Debug, Default)]
struct Controller {
    is_expander: bool,
    /// Index of the controller that it is plugged into, and the slot there.
    parent: Option<(u32, u32)>,
    /// `busNr` of an expander.
    bus: Option<u32>,
    /// NUMA node of an expander.
    node: Option<u32>,
}

/// All PCI controllers, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct PciBuses {
    all: BTreeMap<u32, Controller>,
    /// Highest index that a device refers to, whether or not that controller is in the XML: libvirt creates
    /// missing controllers.
    highest_referenced: u32,
}

impl PciBuses {
    pub fn from_xml(xml: &DomainXml) -> Self {
        let mut all = BTreeMap::new();
        for controller in controllers(xml) {
            let Some(index) = controller.attribute("index").and_then(number) else { continue };
            let target = child(controller, "target");
            let place = child(controller, "address");
            let value = |name: &str| place.and_then(|place| number(place.attribute(name)?));
            let controller = Controller {
                is_expander: controller.attribute("model") == Some("pcie-expander-bus"),
                parent: value("bus").map(|bus| (bus as u32, value("slot").unwrap_or(0) as u32)),
                bus: target.and_then(|target| Some(number(target.attribute("busNr")?)? as u32)),
                node: node_of(controller).map(|(_, node)| node as u32),
            };
            all.insert(index as u32, controller);
        }
        Self { all, highest_referenced: 0 }
    }

    /// Returns the expander above a bus, or the bus itself if it is an expander.
    pub fn expander_of(&self, bus: u32) -> Option<u32> {
        let mut at = bus;
        // Ends after that many steps, in case controllers form a loop.
        for _ in 0..=self.all.len() {
            let controller = self.all.get(&at)?;
            if controller.is_expander {
                return Some(at);
            }
            at = controller.parent?.0;
        }
        None
    }

    /// Reserves an index for a device that keeps its bus.
    pub fn reserve_index(&mut self, bus: u32) {
        self.highest_referenced = self.highest_referenced.max(bus);
    }

    /// Returns the NUMA node of the devices on a bus.
    pub fn node_above(&self, bus: u32) -> Option<u32> {
        self.node_of(self.expander_of(bus)?)
    }

    pub fn node_of(&self, expander: u32) -> Option<u32> {
        self.all.get(&expander)?.node
    }

    /// Returns the expanders with a NUMA node, and the range of their bus numbers.
    pub fn expanders(&self) -> Vec<ExpanderBus> {
        let next = |bus: u32| {
            let others = self.all.values().filter_map(|other| other.bus);
            others.filter(|other| *other > bus).min().unwrap_or(BUSES) - 1
        };
        let expanders = self.all.iter().filter(|(_, controller)| controller.is_expander);
        expanders
            .filter_map(|(&index, controller)| {
                let (bus, node) = (controller.bus, controller.node?);
                Some(ExpanderBus { index, bus, last_bus: bus.map(next), node })
            })
            .collect()
    }

    /// Returns an unused controller index. 0 is the root bus.
    pub fn free_index(&self) -> Option<u32> {
        let last = self.all.keys().next_back().copied().unwrap_or(0);
        let next = last.max(self.highest_referenced) + 1;
        Some(next).filter(|next| *next < BUSES)
    }

    /// Returns an expander of a node that has a free slot.
    pub fn with_free_slot(&self, node: u32) -> Option<u32> {
        let mut own = self.all.iter().filter(|(_, one)| one.is_expander && one.node == Some(node));
        own.find(|(index, _)| self.slots(**index).count() < MAX_EXPANDER_PORTS).map(|(index, _)| *index)
    }

    /// Adds an expander.
    pub fn add_expander(&mut self, index: u32, node: u32) {
        let node = Some(node);
        self.all.insert(index, Controller { is_expander: true, node, ..Controller::default() });
    }

    /// Adds a port below an expander with a free slot, and returns the slot.
    pub fn add_port(&mut self, index: u32, expander: u32) -> u32 {
        let used: Vec<u32> = self.slots(expander).collect();
        let slot = (0..MAX_EXPANDER_PORTS as u32).find(|slot| !used.contains(slot)).unwrap_or(0);
        self.all.insert(index, Controller { parent: Some((expander, slot)), ..Controller::default() });
        slot
    }

    /// Adds a port on the root bus; libvirt chooses its slot.
    pub fn add_root_port(&mut self, index: u32) {
        self.all.insert(index, Controller::default());
    }

    /// Returns an expander and all controllers below it; empty if it is not an expander.
    pub fn below(&self, expander: u32) -> Vec<u32> {
        self.all.keys().copied().filter(|index| self.expander_of(*index) == Some(expander)).collect()
    }

    /// Returns whether there is such a controller with no expander above it.
    pub fn is_at_root(&self, index: u32) -> bool {
        self.all.contains_key(&index) && self.expander_of(index).is_none()
    }

    /// Removes a controller.
    pub fn remove(&mut self, index: u32) {
        self.all.remove(&index);
    }

    fn slots(&self, expander: u32) -> impl Iterator<Item = u32> + '_ {
        let parents = self.all.values().filter_map(|controller| controller.parent);
        parents.filter(move |(parent, _)| *parent == expander).map(|(_, slot)| slot)
    }

    /// Returns the first bus number of each expander, so that each has a number for every controller below it
    /// and bus 0 keeps enough for its own. Existing numbers stay unless they collide. `at_root` is the number
    /// of bus numbers that may be needed below bus 0.
    ///
    /// Returns `None` if there are not enough numbers.
    pub fn assign_bus_numbers(&self, at_root: u32) -> Option<BTreeMap<u32, u32>> {
        let needs: BTreeMap<u32, u32> = self.needs();
        let existing = needs.keys().filter_map(|index| Some((*index, self.all.get(index)?.bus?))).collect();
        // If the existing numbers leave enough for the controllers in the XML, libvirt finds the rest by
        // itself.
        let leaves = |kept: &BTreeMap<u32, u32>| kept.values().all(|bus| *bus as usize > self.at_root());
        let kept = [existing, BTreeMap::new()].into_iter().filter(leaves);
        kept.into_iter().find_map(|kept| assign_missing_numbers(&needs, kept, at_root))
    }

    /// Returns the `busNr` of an expander.
    pub fn bus_of(&self, expander: u32) -> Option<u32> {
        self.all.get(&expander)?.bus
    }

    /// Returns the number of bus numbers of each expander: one for itself and one for each controller below
    /// it.
    fn needs(&self) -> BTreeMap<u32, u32> {
        let mut needs: BTreeMap<u32, u32> = BTreeMap::new();
        for index in self.all.keys() {
            if let Some(expander) = self.expander_of(*index) {
                *needs.entry(expander).or_default() += 1;
            }
        }
        needs
    }

    /// Returns the number of controllers below bus 0.
    pub fn at_root(&self) -> usize {
        self.all.keys().filter(|index| self.expander_of(**index).is_none()).count()
    }
}

/// Assigns numbers to expanders without one: below the lowest assigned number, or else in the highest gap.
fn assign_missing_numbers(
    needs: &BTreeMap<u32, u32>,
    kept: BTreeMap<u32, u32>,
    at_root: u32,
) -> Option<BTreeMap<u32, u32>> {
    let mut taken: Vec<Range<u32>> = Vec::new();
    let end = |bus: u32, index: &u32| Some(bus.checked_add(*needs.get(index)?)?).filter(|end| *end <= BUSES);
    let is_free = |taken: &[Range<u32>], new: &Range<u32>| {
        new.start <= MAX_BUS_NR && taken.iter().all(|old| new.end <= old.start || old.end <= new.start)
    };
    for (index, bus) in &kept {
        let own = *bus..end(*bus, index)?;
        if !is_free(&taken, &own) {
            return None;
        }
        taken.push(own);
    }
    let mut placed = kept;
    for (index, count) in needs.iter().rev() {
        if placed.contains_key(index) {
            continue;
        }
        let lowest = taken.iter().map(|own| own.start).min().unwrap_or(BUSES);
        let below = lowest.checked_sub(*count).map(|bus| bus.min(MAX_BUS_NR));
        let starts = below.into_iter().chain((1..=MAX_BUS_NR).rev()).filter(|bus| *bus > at_root);
        let own = starts.filter_map(|bus| Some(bus..end(bus, index)?)).find(|own| is_free(&taken, own))?;
        placed.insert(*index, own.start);
        taken.push(own);
    }
    Some(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buses(ports: &[u32]) -> PciBuses {
        let mut buses = PciBuses::default();
        for (node, count) in ports.iter().enumerate() {
            let expander = buses.free_index().unwrap();
            buses.add_expander(expander, node as u32);
            for _ in 0..*count {
                let port = buses.free_index().unwrap();
                buses.add_port(port, expander);
            }
        }
        buses
    }

    #[test]
    fn each_expander_has_numbers_for_all_its_ports() {
        let placed = buses(&[10, 10, 10, 10]).assign_bus_numbers(20).unwrap();
        assert_eq!(placed.into_values().collect::<Vec<_>>(), [212, 223, 234, 245]);
        assert!(buses(&[32, 32, 32, 32, 32]).assign_bus_numbers(91).is_none());
        assert!(buses(&[32, 32, 32, 32, 32]).assign_bus_numbers(90).is_some());
    }

    #[test]
    fn existing_bus_numbers_stay_if_they_fit() {
        let mut small = buses(&[1, 1]);
        small.all.get_mut(&1).unwrap().bus = Some(100);
        assert_eq!(small.assign_bus_numbers(10).unwrap(), BTreeMap::from([(1, 100), (3, 98)]));
        small.all.get_mut(&3).unwrap().bus = Some(101);
        assert_eq!(
            small.assign_bus_numbers(10).unwrap(),
            BTreeMap::from([(1, 252), (3, 254)]),
            "101 was in the way"
        );
    }

    #[test]
    fn looping_controllers_have_no_expander() {
        let mut buses = PciBuses::default();
        buses.all.insert(1, Controller { parent: Some((2, 0)), ..Controller::default() });
        buses.all.insert(2, Controller { parent: Some((1, 0)), ..Controller::default() });
        assert_eq!(buses.expander_of(1), None);
    }

    proptest! {
        #[test]
        fn numbers_never_collide(ports in prop::collection::vec(0u32..33, 1..6), at_root in 0u32..100) {
            let buses = buses(&ports);
            let total: u32 = ports.iter().map(|count| count + 1).sum();
            let Some(placed) = buses.assign_bus_numbers(at_root) else {
                prop_assert!(total + at_root + 2 > BUSES);
                return Ok(());
            };
            let needs = buses.needs();
            let taken: Vec<u32> =
                placed.iter().flat_map(|(index, bus)| *bus..*bus + needs[index]).collect();
            let distinct: std::collections::BTreeSet<u32> = taken.iter().copied().collect();
            prop_assert_eq!(distinct.len(), taken.len());
            prop_assert!(taken.iter().all(|bus| *bus > at_root && *bus < BUSES));
        }
    }
}
