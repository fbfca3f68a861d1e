//! Planning of a domain: edits its XML so that the guest sees the hardware it runs on.

mod board;
mod boot;
mod cells;
mod cpu;
mod devices;
mod earlier;
mod memory;
mod pages;
mod room;
mod seats;
mod topology;
mod tune;

use super::{
    edit::Edits,
    guest::{Guest, GuestCache},
    read::os_type,
    wish::Wish,
};
use board::Board;
use manycore_linux::vms::xml::{Xml, XmlError};
use manycore_placement::PlacementError;
use manycore_topology::{CpuSet, Machine, machine::CacheKind};
use seats::Seats;
use std::collections::BTreeMap;

/// A planned domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The whole XML. Everything that the plan does not change stays byte for byte.
    pub xml: String,
    /// The guest's hardware as that XML describes it.
    pub guest: Guest,
    /// Host node of each guest node, in order; empty if the guest's nodes were left unchanged.
    pub host_nodes: Vec<u32>,
    /// What could not be planned, and why: one sentence each.
    pub notes: Vec<String>,
}

/// Reason why a domain cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The XML cannot be planned.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// The machine cannot meet the requested placement.
    #[error("{0}")]
    Place(PlacementError),
    /// There are more virtual CPUs than CPUs.
    #[error(
        "{vcpus} virtual CPUs cannot have a CPU each on {cpus} CPUs: use --overcommit to let them share, or reduce \
         <vcpu>"
    )]
    TooFewCpus {
        /// Virtual CPUs to place.
        vcpus: usize,
        /// CPUs available for them.
        cpus: usize,
    },
    /// Another request that this machine or this libvirt cannot meet.
    #[error("{0}")]
    Demand(String),
}

/// Input that the parts of the planning share.
struct Task<'t, 'a> {
    xml: &'t Xml<'a>,
    /// The guest as the XML describes it now.
    before: Guest,
    machine: &'t Machine,
    wish: &'t Wish,
    /// `x86_64`, `aarch64`: that of the domain, or else that of the machine.
    arch: String,
    board: Board,
}

impl Task<'_, '_> {
    fn is_x86(&self) -> bool {
        ["x86_64", "i686"].contains(&self.arch.as_str())
    }
}

/// Plans a domain for a machine.
///
/// # Errors
/// [`Refused`] if the XML is not a QEMU domain, the machine cannot meet the request, or the dialect cannot
/// express it. Nothing is planned then.
pub fn plan(text: &str, machine: &Machine, wish: &Wish) -> Result<Planned, Refused> {
    let xml = Xml::parse(text)?;
    let arch = os_type(&xml, "arch").map(str::to_owned);
    let arch = arch.or_else(|| machine.system.architecture.clone()).unwrap_or_else(|| "x86_64".to_owned());
    if let Some(why) = board::kvm_refusal(&xml, &arch, machine.system.architecture.as_deref()) {
        return Err(Refused::Demand(why));
    }
    let board = Board::of(&xml, &arch);
    let task = Task { xml: &xml, before: Guest::of(&xml)?, machine, wish, arch, board };
    let mut notes = Vec::new();
    let seats = seats::seats(&task, &mut notes)?;
    earlier::check_bound(&task, &seats)?;
    let mut edits = Edits::new(&xml);
    cpu::pin(&task, &seats, &mut edits)?;
    tune::tune(&task, &seats, &mut edits, &mut notes)?;
    earlier::leave_dialect(&task, &mut edits, &mut notes);
    earlier::say_uncovered(&task, &seats, &mut notes)?;
    memory::bind(&task, &seats, &mut edits, &mut notes)?;
    pages::follow(&task, &seats, &mut edits)?;
    room::check(&task, &seats, &mut notes)?;
    cpu::describe(&task, &seats, &mut edits, &mut notes);
    devices::place(&task, &seats, &mut edits, &mut notes)?;
    notes.extend(lost(&edits.lost().collect::<Vec<_>>()));
    let xml = edits.apply();
    let guest = read_back(&xml, machine, &seats)?;
    let host_nodes = seats.cells.iter().map(|cell| cell.host).collect();
    Ok(Planned { xml, guest, host_nodes, notes })
}

/// Returns a note about removed comments, with the first few of them.
fn lost(comments: &[&str]) -> Option<String> {
    const SHOWN: usize = 3;
    const LONGEST: usize = 60;
    let brief = |comment: &&str| {
        let mut line = comment.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = line.char_indices().nth(LONGEST) {
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
fn read_back(text: &str, machine: &Machine, seats: &Seats) -> Result<Guest, Refused> {
    let mut guest = Guest::of(&Xml::parse(text)?)?;
    for device in &mut guest.devices {
        let known = device.host.as_deref().and_then(|host| machine.device(host));
        device.id = known.and_then(|known| known.id.clone());
    }
    if guest.cache_passthrough {
        let cpus = CpuSet::union_of(&seats.pins);
        let data = machine.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        let near = data.filter(|cache| cache.cpus.intersects(&cpus));
        let sizes: BTreeMap<u32, u64> =
            near.filter_map(|cache| Some((cache.level, cache.size_bytes?))).collect();
        guest.caches =
            sizes.into_iter().map(|(level, size_bytes)| GuestCache { level, size_bytes }).collect();
    }
    Ok(guest)
}
