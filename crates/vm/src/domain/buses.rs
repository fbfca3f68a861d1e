//! The PCI buses of a domain: which controller is below which, and which bus numbers an expander bus needs.
//!
//! A `pcie-expander-bus` (QEMU's `pxb-pcie`) is a root bus beside bus 0, on a NUMA node of the guest. The guest
//! believes all below it to be on that node. Its numbers begin at `busNr` and end before the next expander's, and each
//! port below it takes one.

use super::guest::{Expander, controllers, node_of};
use manycore_linux::vms::xml::{Xml, child, number};
use std::{collections::BTreeMap, ops::Range};

/// Ports that an expander takes: a slot each.
pub(super) const PORTS: usize = 32;
/// One past the highest bus number, and the highest index of a controller.
const BUSES: u32 = 256;
/// Highest `busNr` that libvirt takes.
const LAST: u32 = 254;

/// A PCI controller.
#[derive(Clone, Debug, Default)]
struct Controller {
    is_expander: bool,
    /// Index of the controller that it is plugged into, and the slot there.
    parent: Option<(u32, u32)>,
    /// `busNr` of an expander.
    bus: Option<u32>,
    /// Node of an expander.
    node: Option<u32>,
}

/// All PCI controllers, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Buses {
    all: BTreeMap<u32, Controller>,
    /// Highest index that a device names, whether or not there is such a controller: libvirt makes those that are
    /// missing.
    named: u32,
}

impl Buses {
    pub fn of(xml: &Xml) -> Self {
        let mut all = BTreeMap::new();
        for controller in controllers(xml) {
            let Some(index) = controller.attribute("index").and_then(number) else { continue };
            let target = child(controller, "target");
            let place = child(controller, "address");
            let value = |name: &str| place.and_then(|place| number(place.attribute(name)?));
            let told = Controller {
                is_expander: controller.attribute("model") == Some("pcie-expander-bus"),
                parent: value("bus").map(|bus| (bus as u32, value("slot").unwrap_or(0) as u32)),
                bus: target.and_then(|target| Some(number(target.attribute("busNr")?)? as u32)),
                node: node_of(controller).map(|(_, node)| node as u32),
            };
            all.insert(index as u32, told);
        }
        Self { all, named: 0 }
    }

    /// The expander above a bus, or the bus itself where it is one.
    pub fn expander_of(&self, bus: u32) -> Option<u32> {
        let mut at = bus;
        // A loop of controllers is no bus.
        for _ in 0..=self.all.len() {
            let controller = self.all.get(&at)?;
            if controller.is_expander {
                return Some(at);
            }
            at = controller.parent?.0;
        }
        None
    }

    /// Keeps an index for a device that stays there.
    pub fn keep(&mut self, bus: u32) {
        self.named = self.named.max(bus);
    }

    /// The node that devices on a bus are on.
    pub fn node_above(&self, bus: u32) -> Option<u32> {
        self.node_of(self.expander_of(bus)?)
    }

    pub fn node_of(&self, expander: u32) -> Option<u32> {
        self.all.get(&expander)?.node
    }

    /// Expanders that are on a node, with the numbers that are theirs.
    pub fn expanders(&self) -> Vec<Expander> {
        let next = |bus: u32| {
            let others = self.all.values().filter_map(|other| other.bus);
            others.filter(|other| *other > bus).min().unwrap_or(BUSES) - 1
        };
        let told = self.all.iter().filter(|(_, controller)| controller.is_expander);
        told.filter_map(|(&index, controller)| {
            let (bus, node) = (controller.bus, controller.node?);
            Some(Expander { index, bus, last_bus: bus.map(next), node })
        })
        .collect()
    }

    /// An index that no controller has; 0 is the root bus.
    pub fn free_index(&self) -> Option<u32> {
        let last = self.all.keys().next_back().copied().unwrap_or(0);
        let next = last.max(self.named) + 1;
        Some(next).filter(|next| *next < BUSES)
    }

    /// An expander of a node that still takes a port.
    pub fn with_room(&self, node: u32) -> Option<u32> {
        let mut own = self.all.iter().filter(|(_, one)| one.is_expander && one.node == Some(node));
        own.find(|(index, _)| self.slots(**index).count() < PORTS).map(|(index, _)| *index)
    }

    /// Adds an expander.
    pub fn add_expander(&mut self, index: u32, node: u32) {
        let node = Some(node);
        self.all.insert(index, Controller { is_expander: true, node, ..Controller::default() });
    }

    /// Adds a port below an expander that has room; its slot.
    pub fn add_port(&mut self, index: u32, expander: u32) -> u32 {
        let used: Vec<u32> = self.slots(expander).collect();
        let slot = (0..PORTS as u32).find(|slot| !used.contains(slot)).unwrap_or(0);
        self.all.insert(index, Controller { parent: Some((expander, slot)), ..Controller::default() });
        slot
    }

    /// Adds a port beside the expanders, where libvirt finds a slot for it.
    pub fn add_root_port(&mut self, index: u32) {
        self.all.insert(index, Controller::default());
    }

    /// An expander and all controllers below it; none where that is no expander.
    pub fn below(&self, expander: u32) -> Vec<u32> {
        self.all.keys().copied().filter(|index| self.expander_of(*index) == Some(expander)).collect()
    }

    /// Whether there is such a controller, and no expander above it.
    pub fn is_at_root(&self, index: u32) -> bool {
        self.all.contains_key(&index) && self.expander_of(index).is_none()
    }

    /// Takes a controller away.
    pub fn remove(&mut self, index: u32) {
        self.all.remove(&index);
    }

    fn slots(&self, expander: u32) -> impl Iterator<Item = u32> + '_ {
        let parents = self.all.values().filter_map(|controller| controller.parent);
        parents.filter(move |(parent, _)| *parent == expander).map(|(_, slot)| slot)
    }

    /// The first bus number of each expander, so that each has as many as are below it, and those for bus 0 are
    /// left. What is there stays unless something collides with it. `at_root` is how many may be needed below bus 0.
    ///
    /// `None` where there are not enough numbers.
    pub fn arrange(&self, at_root: u32) -> Option<BTreeMap<u32, u32>> {
        let needs: BTreeMap<u32, u32> = self.needs();
        let told = needs.keys().filter_map(|index| Some((*index, self.all.get(index)?.bus?))).collect();
        // Where what is there leaves enough for the controllers that are told, libvirt finds the rest by itself.
        let leaves = |kept: &BTreeMap<u32, u32>| kept.values().all(|bus| *bus as usize > self.at_root());
        let kept = [told, BTreeMap::new()].into_iter().filter(leaves);
        kept.into_iter().find_map(|kept| place(&needs, kept, at_root))
    }

    /// The `busNr` that an expander has.
    pub fn bus_of(&self, expander: u32) -> Option<u32> {
        self.all.get(&expander)?.bus
    }

    /// Bus numbers that each expander takes: its own and one for each controller below.
    fn needs(&self) -> BTreeMap<u32, u32> {
        let mut needs: BTreeMap<u32, u32> = BTreeMap::new();
        for index in self.all.keys() {
            if let Some(expander) = self.expander_of(*index) {
                *needs.entry(expander).or_default() += 1;
            }
        }
        needs
    }

    /// Controllers below bus 0.
    pub fn at_root(&self) -> usize {
        self.all.keys().filter(|index| self.expander_of(**index).is_none()).count()
    }
}

/// Places the expanders that have no number: below the lowest that has one, or else in the highest gap.
fn place(needs: &BTreeMap<u32, u32>, kept: BTreeMap<u32, u32>, at_root: u32) -> Option<BTreeMap<u32, u32>> {
    let mut taken: Vec<Range<u32>> = Vec::new();
    let end = |bus: u32, index: &u32| Some(bus.checked_add(*needs.get(index)?)?).filter(|end| *end <= BUSES);
    let is_free = |taken: &[Range<u32>], new: &Range<u32>| {
        new.start <= LAST && taken.iter().all(|old| new.end <= old.start || old.end <= new.start)
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
        let below = lowest.checked_sub(*count).map(|bus| bus.min(LAST));
        let starts = below.into_iter().chain((1..=LAST).rev()).filter(|bus| *bus > at_root);
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

    fn buses(ports: &[u32]) -> Buses {
        let mut buses = Buses::default();
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
        let placed = buses(&[10, 10, 10, 10]).arrange(20).unwrap();
        assert_eq!(placed.into_values().collect::<Vec<_>>(), [212, 223, 234, 245]);
        assert!(buses(&[32, 32, 32, 32, 32]).arrange(91).is_none());
        assert!(buses(&[32, 32, 32, 32, 32]).arrange(90).is_some());
    }

    #[test]
    fn what_is_there_stays_where_it_fits() {
        let mut small = buses(&[1, 1]);
        small.all.get_mut(&1).unwrap().bus = Some(100);
        assert_eq!(small.arrange(10).unwrap(), BTreeMap::from([(1, 100), (3, 98)]));
        small.all.get_mut(&3).unwrap().bus = Some(101);
        assert_eq!(small.arrange(10).unwrap(), BTreeMap::from([(1, 252), (3, 254)]), "101 was in the way");
    }

    #[test]
    fn controllers_in_a_circle_have_no_expander() {
        let mut buses = Buses::default();
        buses.all.insert(1, Controller { parent: Some((2, 0)), ..Controller::default() });
        buses.all.insert(2, Controller { parent: Some((1, 0)), ..Controller::default() });
        assert_eq!(buses.expander_of(1), None);
    }

    proptest! {
        #[test]
        fn numbers_never_collide(ports in prop::collection::vec(0u32..33, 1..6), at_root in 0u32..100) {
            let buses = buses(&ports);
            let total: u32 = ports.iter().map(|count| count + 1).sum();
            let Some(placed) = buses.arrange(at_root) else {
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
