//! Planning of a domain: edits its XML so that the guest sees the hardware it runs on.

mod cells;
mod cpu;
mod devices;
mod huge_pages;
mod initial_vcpus;
mod leftovers;
mod machine_type;
mod memory;
mod memory_check;
mod other_threads;
mod topology;
mod tune;
mod vcpu_placement;

use super::{
    edit::Edits,
    guest::{GuestCache, GuestHardware},
    read::os_type,
    request::PlanRequest,
    xml::DomainXml,
};
use crate::{
    error::PlanError,
    remedy::{Notes, PlanNote},
};
use machine_type::MachineTypeCapabilities;
use manycore_topology::{CpuSet, Machine, machine::CacheKind};
use serde::Serialize;
use std::collections::BTreeMap;
use vcpu_placement::{DomainPlacement, place_domain};

/// A planned domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainPlan {
    /// The whole XML. Everything that the plan does not change stays byte for byte.
    pub xml: String,
    /// The guest's hardware as that XML describes it.
    pub guest: GuestHardware,
    /// Host node of each guest node, in order; empty if the guest's nodes were left unchanged.
    pub host_nodes: Vec<u32>,
    /// What could not be planned, and what the plan decided.
    pub notes: Vec<PlanNote>,
}

/// A plan as it is printed: the guest's hardware, with fields that a check of the guest does not need.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrintedPlan<'a> {
    /// The guest's hardware after the plan.
    #[serde(flatten)]
    pub guest: &'a GuestHardware,
    /// [`Machine::fingerprint`] of the host that the plan is for.
    pub machine_fingerprint: String,
    /// Host node of each guest node, in order; empty if the guest's nodes were left unchanged.
    pub host_nodes: &'a [u32],
    /// What could not be planned, and what the plan decided, one sentence each.
    pub notes: &'a [String],
}

impl DomainPlan {
    /// Combines the plan with its host and its notes as text.
    pub fn printed<'a>(&'a self, machine: &Machine, notes: &'a [String]) -> PrintedPlan<'a> {
        let machine_fingerprint = machine.fingerprint();
        PrintedPlan { guest: &self.guest, machine_fingerprint, host_nodes: &self.host_nodes, notes }
    }
}

/// Input that the parts of the planning share.
struct PlanInput<'t, 'a> {
    xml: &'t DomainXml<'a>,
    /// The guest as the XML describes it now.
    before: GuestHardware,
    machine: &'t Machine,
    request: &'t PlanRequest,
    /// `x86_64`, `aarch64`: that of the domain, or else that of the machine.
    arch: String,
    machine_type: MachineTypeCapabilities,
}

impl PlanInput<'_, '_> {
    fn is_x86(&self) -> bool {
        ["x86_64", "i686"].contains(&self.arch.as_str())
    }
}

/// Plans a domain for a machine.
///
/// # Errors
/// [`PlanError`] if the XML is not a QEMU domain, the machine cannot meet the request, or the dialect cannot
/// express it. Nothing is planned then.
pub fn plan(text: &str, machine: &Machine, request: &PlanRequest) -> Result<DomainPlan, PlanError> {
    let xml = DomainXml::parse(text)?;
    let arch = os_type(&xml, "arch").map(str::to_owned);
    let arch = arch.or_else(|| machine.system.architecture.clone()).unwrap_or_else(|| "x86_64".to_owned());
    if let Some(error) = machine_type::kvm_refusal(&xml, &arch, machine.system.architecture.as_deref()) {
        return Err(error);
    }
    let machine_type = MachineTypeCapabilities::new(&xml, &arch);
    let input =
        PlanInput { xml: &xml, before: GuestHardware::from_xml(&xml)?, machine, request, arch, machine_type };
    let mut notes = Notes::default();
    let placement = place_domain(&input, &mut notes)?;
    leftovers::check_memory_binding(&input, &placement)?;
    let mut edits = Edits::new(&xml);
    cpu::pin(&input, &placement, &mut edits)?;
    tune::tune(&input, &placement, &mut edits, &mut notes)?;
    leftovers::remove_dialect_elements(&input, &mut edits, &mut notes);
    leftovers::note_uncovered_limits(&input, &placement, &mut notes)?;
    memory::bind(&input, &placement, &mut edits, &mut notes)?;
    huge_pages::update_nodesets(&input, &placement, &mut edits)?;
    memory_check::check(&input, &placement, &mut notes)?;
    cpu::write_cpu_element(&input, &placement, &mut edits, &mut notes);
    devices::place_devices(&input, &placement, &mut edits, &mut notes)?;
    if let Some(note) = removed_comments_note(&edits.removed_comments().collect::<Vec<_>>()) {
        notes.push(note);
    }
    let xml = edits.apply();
    let guest = parse_planned(&xml, machine, &placement)?;
    let host_nodes = placement.cells.iter().map(|cell| cell.host_node).collect();
    Ok(DomainPlan { xml, guest, host_nodes, notes: notes.into_vec() })
}

/// Returns a note about removed comments, with the first few of them.
fn removed_comments_note(comments: &[&str]) -> Option<String> {
    const SHOWN: usize = 3;
    const MAX_LENGTH: usize = 60;
    let brief = |comment: &&str| {
        let mut line = comment.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = line.char_indices().nth(MAX_LENGTH) {
            line.truncate(cut);
            line.push_str("...");
        }
        line
    };
    let shown = comments.iter().take(SHOWN).map(brief).collect::<Vec<_>>().join(", ");
    match comments.len() {
        0 => None,
        1 => Some(format!("a comment is removed with the element around it: {shown}")),
        count if count <= SHOWN => {
            Some(format!("{count} comments are removed with the elements around them: {shown}"))
        }
        count => Some(format!(
            "{count} comments are removed with the elements around them: {shown} and {} more",
            count - SHOWN
        )),
    }
}

/// Parses the planned XML and adds what is only known from the description of the host.
fn parse_planned(
    text: &str,
    machine: &Machine,
    placement: &DomainPlacement,
) -> Result<GuestHardware, PlanError> {
    let mut guest = GuestHardware::from_xml(&DomainXml::parse(text)?)?;
    for device in &mut guest.devices {
        let known = device.host.as_deref().and_then(|host| machine.device(host));
        device.id = known.and_then(|known| known.id.clone());
    }
    if guest.cache_passthrough {
        let cpus = CpuSet::union_of(&placement.pins);
        let data = machine.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        let near = data.filter(|cache| cache.cpus.intersects(&cpus));
        let sizes: BTreeMap<u32, u64> =
            near.filter_map(|cache| Some((cache.level, cache.size_bytes?))).collect();
        guest.caches =
            sizes.into_iter().map(|(level, size_bytes)| GuestCache { level, size_bytes }).collect();
    }
    Ok(guest)
}
