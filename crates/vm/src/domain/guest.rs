//! The hardware of a guest as its domain XML describes it: CPUs, memory, caches, devices, and their host
//! resources.

use super::{
    address::PciAddress,
    buses::Buses,
    read::{attribute, bytes, cpu_list, os_type, sized, text},
};
use manycore_linux::vms::xml::{Xml, XmlError, child, children, is, number, text_of};
use manycore_topology::CpuSet;
use roxmltree::Node;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`Guest::schema`] that this version writes.
pub const GUEST_SCHEMA: &str = "manycore/guest/1";

/// Maximum number of virtual CPUs of a domain; the limit of QEMU.
pub const MOST_VCPUS: u32 = 4096;

/// Maximum number of NUMA nodes of a domain in QEMU (`MAX_NODES` in its `numa.h`).
const MOST_CELLS: usize = 128;

/// Description of a guest's hardware and of its host resources, as the XML of a domain gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Always [`GUEST_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// Name of the domain.
    pub name: String,
    /// Number of virtual CPUs that the guest starts with. [`Guest::pins`] has an entry for each that it can
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
    /// Data and unified caches of the host that the guest must then see, if the plan knows them; lowest level
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<GuestCache>,
    /// Expander buses that have a NUMA node of the guest.
    pub expanders: Vec<Expander>,
    /// Devices that are passed through, or behind an expander bus.
    pub devices: Vec<GuestDevice>,
}

/// A NUMA node of the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Id of the node in the guest.
    pub id: u32,
    /// Virtual CPUs.
    pub vcpus: CpuSet,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Distances to the nodes, in the order of [`Guest::cells`]; empty if the XML has none.
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
pub struct BoundMemory {
    /// Size in KiB.
    pub kib: u64,
    /// Host nodes that it comes from.
    pub host_nodes: CpuSet,
}

/// CPU topology: sockets, dies, clusters, cores and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct GuestCache {
    /// Cache level; 1 is nearest to the core.
    pub level: u32,
    /// Bytes of one instance.
    pub size_bytes: u64,
}

/// An expander bus: a separate PCI root bus on a NUMA node of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expander {
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

impl Guest {
    /// Reads the description from a domain's XML.
    ///
    /// # Errors
    /// [`XmlError`] if a value is not valid, or if there are more virtual CPUs than [`MOST_VCPUS`].
    pub fn of(xml: &Xml) -> Result<Self, XmlError> {
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
        let buses = Buses::of(xml);
        guest.expanders = buses.expanders();
        guest.devices = devices(xml, &buses);
        Ok(guest)
    }

    /// Returns whether any memory is bound to nodes of the host.
    pub fn is_bound(&self) -> bool {
        self.memory.is_some() || self.cells.iter().any(|cell| !cell.host_nodes.is_empty())
    }

    /// Returns the guest node whose memory comes from host node `host`.
    pub fn cell_on(&self, host: u32) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.host_nodes.contains(host))
    }
}

/// Returns the maximum number of virtual CPUs of the domain.
pub(super) fn vcpus(xml: &Xml) -> Result<u32, XmlError> {
    let Some(node) = xml.at(&["vcpu"]) else { return Ok(1) };
    let found = text_of(node).trim().to_owned();
    let count = number(&found).and_then(|count| u32::try_from(count).ok());
    count.filter(|count| (1..=MOST_VCPUS).contains(count)).ok_or_else(|| XmlError::Value {
        what: "<vcpu>".to_owned(),
        found,
        expected: "1 to 4096 virtual CPUs",
    })
}

/// Returns the pins in `<cputune>`, by the number in attribute `key`.
fn pins(xml: &Xml, name: &str, key: &str) -> Result<Vec<(u32, CpuSet)>, XmlError> {
    let Some(tune) = xml.at(&["cputune"]) else { return Ok(Vec::new()) };
    children(tune, name).map(|pin| Ok((attribute(pin, key)?, cpu_list(pin, "cpuset")?))).collect()
}

fn topology(xml: &Xml) -> Result<Option<Topology>, XmlError> {
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

fn cells(xml: &Xml, vcpus: u32) -> Result<Vec<Cell>, XmlError> {
    let Some(numa) = xml.at(&["cpu", "numa"]) else { return Ok(Vec::new()) };
    let count = children(numa, "cell").count();
    if count > MOST_CELLS {
        return Err(XmlError::Value {
            what: "the number of <cell> in <numa>".to_owned(),
            found: count.to_string(),
            expected: "at most 128, the limit of QEMU",
        });
    }
    let mut told = Vec::new();
    for (at, cell) in children(numa, "cell").enumerate() {
        let id = if cell.has_attribute("id") { attribute(cell, "id")? } else { at as u32 };
        let memory = sized(cell, cell.attribute("memory").unwrap_or_default())?;
        told.push((id, cell, memory));
    }
    told.sort_by_key(|(id, ..)| *id);
    let ids: Vec<u32> = told.iter().map(|(id, ..)| *id).collect();
    check_ids(&ids)?;
    let mut cells = Vec::new();
    for (id, cell, memory) in told {
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
fn check_ids(ids: &[u32]) -> Result<(), XmlError> {
    if ids.iter().copied().eq(0..ids.len() as u32) {
        return Ok(());
    }
    Err(XmlError::Value {
        what: "id of the <cell> elements in <numa>".to_owned(),
        found: ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        expected: "the numbers from 0 on, each once and without a gap, as libvirt requires",
    })
}

/// Returns the distances to all nodes; empty if any is missing.
fn distances(cell: Node, ids: &[u32]) -> Result<Vec<u32>, XmlError> {
    let Some(node) = child(cell, "distances") else { return Ok(Vec::new()) };
    let told: Result<BTreeMap<u32, u32>, XmlError> =
        children(node, "sibling").map(|to| Ok((attribute(to, "id")?, attribute(to, "value")?))).collect();
    let told = told?;
    let all: Option<Vec<u32>> = ids.iter().map(|id| told.get(id).copied()).collect();
    Ok(all.unwrap_or_default())
}

/// Returns the `<numatune>` element of a cell: its own `<memnode>`, or else the common `<memory>`.
fn tuned<'n, 'a: 'n>(xml: &'n Xml<'a>, cell: Option<u32>) -> Option<Node<'n, 'a>> {
    let tune = xml.at(&["numatune"])?;
    let is_own =
        |node: &Node| cell.is_some() && node.attribute("cellid").and_then(number) == cell.map(u64::from);
    children(tune, "memnode").find(is_own).or_else(|| child(tune, "memory"))
}

fn host_nodes(xml: &Xml, cell: Option<u32>) -> Result<CpuSet, XmlError> {
    match tuned(xml, cell) {
        Some(memory) if memory.has_attribute("nodeset") => cpu_list(memory, "nodeset"),
        _ => Ok(CpuSet::new()),
    }
}

/// Returns the binding of the whole memory of a guest without NUMA nodes.
fn memory(xml: &Xml) -> Result<Option<BoundMemory>, XmlError> {
    let host_nodes = host_nodes(xml, None)?;
    if host_nodes.is_empty() {
        return Ok(None);
    }
    Ok(initial_bytes(xml)?.map(|bytes| BoundMemory { kib: bytes >> 10, host_nodes }))
}

/// Returns the bytes that the guest starts with: `<memory>` less the memory modules that it includes.
pub(super) fn initial_bytes(xml: &Xml) -> Result<Option<u64>, XmlError> {
    let Some(memory) = xml.at(&["memory"]) else { return Ok(None) };
    let total = bytes(memory)?;
    let mut modules = 0_u64;
    for device in devices_of(xml).filter(|node| is(*node, "memory")) {
        let size = device.descendants().find(|node| is(*node, "size"));
        modules = modules.saturating_add(size.map_or(Ok(0), bytes)?);
    }
    Ok(Some(total.saturating_sub(modules)))
}

fn devices(xml: &Xml, buses: &Buses) -> Vec<GuestDevice> {
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
pub(super) fn has_pcie(xml: &Xml) -> bool {
    let machine = os_type(xml, "machine").unwrap_or_default();
    let is = |name: &str| machine == name || machine.starts_with(&format!("{name}-"));
    is("q35") || is("pc-q35") || is("virt")
}

/// Returns the elements below `<devices>`.
pub(super) fn devices_of<'n, 'a: 'n>(xml: &'n Xml<'a>) -> impl Iterator<Item = Node<'n, 'a>> {
    xml.at(&["devices"]).into_iter().flat_map(|devices| devices.children()).filter(Node::is_element)
}

/// Returns the guest node of a controller or a memory module: `<target><node>0</node></target>`.
pub(super) fn node_of<'n, 'a>(device: Node<'n, 'a>) -> Option<(Node<'n, 'a>, u64)> {
    let node = child(child(device, "target")?, "node")?;
    Some((node, number(&text_of(node))?))
}

/// Returns the controllers of PCI buses.
pub(super) fn controllers<'n, 'a: 'n>(xml: &'n Xml<'a>) -> impl Iterator<Item = Node<'n, 'a>> {
    devices_of(xml).filter(|node| is(*node, "controller") && node.attribute("type") == Some("pci"))
}
