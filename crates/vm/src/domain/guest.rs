//! The hardware of a guest as its domain XML describes it: CPUs, memory, caches, devices, and their host
//! resources.

use super::{
    address::PciAddress,
    buses::PciBuses,
    read::{attribute, bytes, bytes_with_unit, cpu_list, os_type, text},
};
use crate::domain::xml::{DomainXml, DomainXmlError};
use manycore_text::xml::{Node, child, children, is_element, number, text_of};
use manycore_topology::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`GuestHardware::schema`] that this version writes.
pub const GUEST_SCHEMA: &str = "manycore/guest/1";

/// Maximum number of virtual CPUs of a domain; the limit of QEMU.
pub const MAX_VCPUS: u32 = 4096;

/// Maximum number of NUMA nodes of a domain in QEMU (`MAX_NODES` in its `numa.h`).
const MAX_CELLS: usize = 128;

/// Description of a guest's hardware and of its host resources, as the XML of a domain gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuestHardware {
    /// Always [`GUEST_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = GUEST_SCHEMA)))]
    pub schema: String,
    /// Name of the domain.
    pub name: String,
    /// Number of virtual CPUs that the guest starts with. [`GuestHardware::pins`] has an entry for each that it can
    /// ever have.
    pub vcpus: u32,
    /// Host CPUs that each virtual CPU may use; `None` if it is not pinned.
    pub pins: Vec<Option<CpuSet>>,
    /// Host CPUs of the emulator's own threads.
    pub emulator: Option<CpuSet>,
    /// Host CPUs of I/O threads, by id.
    pub iothreads: BTreeMap<u32, CpuSet>,
    /// NUMA nodes of the guest, in ascending order of their ids.
    pub cells: Vec<Cell>,
    /// Memory of a guest without NUMA nodes, if it is bound to nodes of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<BoundMemory>,
    /// CPU topology of the guest.
    pub topology: Option<Topology>,
    /// Whether the guest sees the host's caches (`<cache mode='passthrough'/>`).
    pub cache_passthrough: bool,
    /// Data and unified caches of the host that the guest must then see, if they are known; lowest level
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<GuestCache>,
    /// Expander buses that have a NUMA node of the guest.
    pub expanders: Vec<ExpanderBus>,
    /// Devices that are passed through, or behind an expander bus.
    pub devices: Vec<GuestDevice>,
}

/// A NUMA node of the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// Id of the node in the guest.
    pub id: u32,
    /// Virtual CPUs.
    pub vcpus: CpuSet,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Distances to the nodes, in the order of [`GuestHardware::cells`]; empty if the XML has none.
    pub distances: Vec<u32>,
    /// Host nodes that its memory comes from; empty if it is not bound.
    pub host_nodes: CpuSet,
    /// Whether only the control groups restrict the memory (`mode='restrictive'`). QEMU then sets no memory
    /// policy, and a page may come from the host nodes of any cell: the virtual CPU that first touches it
    /// decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_restrictive: bool,
}

/// Binding of a guest's whole memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundMemory {
    /// Size in KiB.
    pub kib: u64,
    /// Host nodes that the memory comes from.
    pub host_nodes: CpuSet,
}

/// CPU topology: sockets, dies, clusters, cores and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Topology {
    /// Sockets in the guest.
    pub sockets: u32,
    /// Dies per socket.
    pub dies: u32,
    /// Clusters per die.
    pub clusters: u32,
    /// Cores per cluster.
    pub cores: u32,
    /// Threads per core.
    pub threads: u32,
}

/// A cache level that the guest must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuestCache {
    /// Cache level; 1 is nearest to the core.
    pub level: u32,
    /// Bytes of one instance.
    pub size_bytes: u64,
}

/// An expander bus: a separate PCI root bus on a NUMA node of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExpanderBus {
    /// Index of its controller.
    pub index: u32,
    /// First bus number in the guest; absent if libvirt chooses it.
    pub bus: Option<u32>,
    /// Highest bus number that can belong to it: one below the first number of the next expander.
    pub last_bus: Option<u32>,
    /// NUMA node of the guest.
    pub node: u32,
}

/// A device that is passed through or behind an expander bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuestDevice {
    /// Name of the XML element: `hostdev`, `interface`, `disk`.
    pub kind: String,
    /// Address on the host of a device that is passed through.
    pub host: Option<String>,
    /// Vendor and device id, which the guest sees as well; only set in plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Index of the expander that it is behind.
    pub expander: Option<u32>,
    /// NUMA node of the guest that the device is on.
    pub node: Option<u32>,
}

impl GuestHardware {
    /// Reads the description from a domain's XML.
    ///
    /// # Errors
    /// [`DomainXmlError`] if a value is not valid, or if there are more virtual CPUs than [`MAX_VCPUS`].
    pub fn from_xml(xml: &DomainXml) -> Result<Self, DomainXmlError> {
        let most = vcpus(xml)?;
        let current = xml.at(&["vcpu"]).and_then(|vcpu| number(vcpu.attribute("current")?));
        let iothreads: Vec<(u32, CpuSet)> = pins(xml, "iothreadpin", "iothread")?;
        let mut guest = Self {
            schema: GUEST_SCHEMA.to_owned(),
            name: text(xml, "name"),
            vcpus: current.and_then(|count| u32::try_from(count).ok()).map_or(most, |count| count.min(most)),
            pins: vec![None; most as usize],
            iothreads: iothreads.into_iter().collect(),
            topology: topology(xml)?,
            cache_passthrough: xml
                .at(&["cpu", "cache"])
                .is_some_and(|cache| cache.attribute("mode") == Some("passthrough")),
            cells: cells(xml, most)?,
            ..Self::default()
        };
        for (vcpu, cpus) in pins(xml, "vcpupin", "vcpu")? {
            if let Some(pin) = guest.pins.get_mut(vcpu as usize) {
                *pin = Some(cpus);
            }
        }
        guest.emulator = match xml.at(&["cputune", "emulatorpin"]) {
            Some(pin) => Some(cpu_list(pin, "cpuset")?),
            None => None,
        };
        if guest.cells.is_empty() {
            guest.memory = memory(xml)?;
        }
        let buses = PciBuses::from_xml(xml);
        guest.expanders = buses.expanders();
        guest.devices = devices(xml, &buses);
        Ok(guest)
    }

    /// Returns whether any memory is bound to nodes of the host.
    pub fn has_bound_memory(&self) -> bool {
        self.memory.is_some() || self.cells.iter().any(|cell| !cell.host_nodes.is_empty())
    }
}

/// Returns the maximum number of virtual CPUs of the domain.
pub(super) fn vcpus(xml: &DomainXml) -> Result<u32, DomainXmlError> {
    let Some(node) = xml.at(&["vcpu"]) else { return Ok(1) };
    let found = text_of(node).trim().to_owned();
    let count = number(&found).and_then(|count| u32::try_from(count).ok());
    count.filter(|count| (1..=MAX_VCPUS).contains(count)).ok_or_else(|| DomainXmlError::Value {
        what: "<vcpu>".to_owned(),
        found,
        expected: "1 to 4096 virtual CPUs",
    })
}

/// Returns the pins in `<cputune>`, by the number in attribute `key`.
fn pins(xml: &DomainXml, name: &str, key: &str) -> Result<Vec<(u32, CpuSet)>, DomainXmlError> {
    let Some(tune) = xml.at(&["cputune"]) else { return Ok(Vec::new()) };
    children(tune, name).map(|pin| Ok((attribute(pin, key)?, cpu_list(pin, "cpuset")?))).collect()
}

fn topology(xml: &DomainXml) -> Result<Option<Topology>, DomainXmlError> {
    let Some(node) = xml.at(&["cpu", "topology"]) else { return Ok(None) };
    let part = |name: &str| if node.has_attribute(name) { attribute(node, name) } else { Ok(1) };
    Ok(Some(Topology {
        sockets: part("sockets")?,
        dies: part("dies")?,
        clusters: part("clusters")?,
        cores: part("cores")?,
        threads: part("threads")?,
    }))
}

fn cells(xml: &DomainXml, vcpus: u32) -> Result<Vec<Cell>, DomainXmlError> {
    let Some(numa) = xml.at(&["cpu", "numa"]) else { return Ok(Vec::new()) };
    let count = children(numa, "cell").count();
    if count > MAX_CELLS {
        return Err(DomainXmlError::Value {
            what: "the number of <cell> in <numa>".to_owned(),
            found: count.to_string(),
            expected: "at most 128, the limit of QEMU",
        });
    }
    let mut elements = Vec::new();
    for (at, cell) in children(numa, "cell").enumerate() {
        let id = if cell.has_attribute("id") { attribute(cell, "id")? } else { at as u32 };
        let memory = bytes_with_unit(cell, cell.attribute("memory").unwrap_or_default())?;
        elements.push((id, cell, memory));
    }
    elements.sort_by_key(|(id, ..)| *id);
    let ids: Vec<u32> = elements.iter().map(|(id, ..)| *id).collect();
    check_ids(&ids)?;
    let mut cells = Vec::new();
    for (id, cell, memory) in elements {
        cells.push(Cell {
            id,
            vcpus: cpu_list(cell, "cpus")?,
            memory_kib: memory >> 10,
            distances: distances(cell, &ids)?,
            host_nodes: host_nodes(xml, Some(id))?,
            is_restrictive: tuned(xml, Some(id)).and_then(|memory| memory.attribute("mode"))
                == Some("restrictive"),
        });
    }
    // libvirt assigns virtual CPUs that no cell names to the first cell.
    let named = CpuSet::union_of(cells.iter().map(|cell| &cell.vcpus));
    if let Some(first) = cells.first_mut() {
        first.vcpus = first.vcpus.union(&(0..vcpus).collect::<CpuSet>().difference(&named));
    }
    Ok(cells)
}

/// Checks that the ids of the nodes are 0, 1, 2 and so on, as libvirt requires.
fn check_ids(ids: &[u32]) -> Result<(), DomainXmlError> {
    if ids.iter().copied().eq(0..ids.len() as u32) {
        return Ok(());
    }
    Err(DomainXmlError::Value {
        what: "id of the <cell> elements in <numa>".to_owned(),
        found: ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        expected: "the numbers from 0 on, each once and without a gap, as libvirt requires",
    })
}

/// Returns the distances to all nodes; empty if any is missing.
fn distances(cell: Node, ids: &[u32]) -> Result<Vec<u32>, DomainXmlError> {
    let Some(node) = child(cell, "distances") else { return Ok(Vec::new()) };
    let by_id: Result<BTreeMap<u32, u32>, DomainXmlError> =
        children(node, "sibling").map(|to| Ok((attribute(to, "id")?, attribute(to, "value")?))).collect();
    let by_id = by_id?;
    let all: Option<Vec<u32>> = ids.iter().map(|id| by_id.get(id).copied()).collect();
    Ok(all.unwrap_or_default())
}

/// Returns the `<numatune>` element of a cell: its own `<memnode>`, or else the common `<memory>`.
fn tuned<'n, 'a: 'n>(xml: &'n DomainXml<'a>, cell: Option<u32>) -> Option<Node<'n, 'a>> {
    let tune = xml.at(&["numatune"])?;
    let is_own =
        |node: &Node| cell.is_some() && node.attribute("cellid").and_then(number) == cell.map(u64::from);
    children(tune, "memnode").find(is_own).or_else(|| child(tune, "memory"))
}

fn host_nodes(xml: &DomainXml, cell: Option<u32>) -> Result<CpuSet, DomainXmlError> {
    match tuned(xml, cell) {
        Some(memory) if memory.has_attribute("nodeset") => cpu_list(memory, "nodeset"),
        _ => Ok(CpuSet::new()),
    }
}

/// Returns the binding of the whole memory of a guest without NUMA nodes.
fn memory(xml: &DomainXml) -> Result<Option<BoundMemory>, DomainXmlError> {
    let host_nodes = host_nodes(xml, None)?;
    if host_nodes.is_empty() {
        return Ok(None);
    }
    Ok(initial_bytes(xml)?.map(|bytes| BoundMemory { kib: bytes >> 10, host_nodes }))
}

/// Returns the bytes that the guest starts with: `<memory>` less the memory modules that it includes.
pub(super) fn initial_bytes(xml: &DomainXml) -> Result<Option<u64>, DomainXmlError> {
    let Some(memory) = xml.at(&["memory"]) else { return Ok(None) };
    let total = bytes(memory)?;
    let mut modules = 0_u64;
    for device in devices_of(xml).filter(|node| is_element(*node, "memory")) {
        let size = device.descendants().find(|node| is_element(*node, "size"));
        modules = modules.saturating_add(size.map_or(Ok(0), bytes)?);
    }
    Ok(Some(total.saturating_sub(modules)))
}

fn devices(xml: &DomainXml, buses: &PciBuses) -> Vec<GuestDevice> {
    let Some(devices) = xml.at(&["devices"]) else { return Vec::new() };
    let mut found = Vec::new();
    for device in devices.children().filter(Node::is_element) {
        let kind = device.tag_name().name();
        if kind == "controller" && device.attribute("type") == Some("pci") {
            continue;
        }
        let place = PciAddress::in_guest(device);
        let expander = place.and_then(|place| buses.expander_of(place.bus));
        let host = PciAddress::on_host(device);
        let numa = child(device, "numa").and_then(|numa| numa.attribute("node").and_then(number));
        let node = numa.map(|node| node as u32).or_else(|| buses.node_above(place?.bus));
        if host.is_some() || expander.is_some() {
            let host = host.map(|host| host.to_string());
            found.push(GuestDevice { kind: kind.to_owned(), host, id: None, expander, node });
        }
    }
    found
}

/// Returns whether the machine type has PCI express ports, so that devices can be moved to chosen ports.
pub(super) fn has_pcie(xml: &DomainXml) -> bool {
    let machine = os_type(xml, "machine").unwrap_or_default();
    let is = |name: &str| machine == name || machine.starts_with(&format!("{name}-"));
    is("q35") || is("pc-q35") || is("virt")
}

/// Returns the elements below `<devices>`.
pub(super) fn devices_of<'n, 'a: 'n>(xml: &'n DomainXml<'a>) -> impl Iterator<Item = Node<'n, 'a>> {
    xml.at(&["devices"]).into_iter().flat_map(|devices| devices.children()).filter(Node::is_element)
}

/// Returns the guest node of a controller or a memory module: `<target><node>0</node></target>`.
pub(super) fn node_of<'n, 'a>(device: Node<'n, 'a>) -> Option<(Node<'n, 'a>, u64)> {
    let node = child(child(device, "target")?, "node")?;
    Some((node, number(&text_of(node))?))
}

/// Returns the controllers of PCI buses.
pub(super) fn controllers<'n, 'a: 'n>(xml: &'n DomainXml<'a>) -> impl Iterator<Item = Node<'n, 'a>> {
    devices_of(xml).filter(|node| is_element(*node, "controller") && node.attribute("type") == Some("pci"))
}
