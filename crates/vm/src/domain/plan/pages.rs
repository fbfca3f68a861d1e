//! Planning of `<hugepages>`: the page size of each guest node.

use super::{Refused, Task, seats::Seats};
use crate::domain::{
    edit::Edits,
    read::{cpu_list, sized},
};
use manycore_linux::vms::xml::children;
use manycore_topology::CpuSet;
use roxmltree::Node;

/// A `<page>` element of `<hugepages>`.
struct Kind<'n, 'a> {
    page: Node<'n, 'a>,
    /// Guest nodes with this page size; `None` for all nodes that no other element names.
    cells: Option<CpuSet>,
}

fn kinds<'n, 'a>(task: &'n Task<'_, 'a>) -> Result<Vec<Kind<'n, 'a>>, Refused> {
    let huge = task.xml.at(&["memoryBacking", "hugepages"]);
    let mut kinds = Vec::new();
    for page in huge.into_iter().flat_map(|huge| children(huge, "page")) {
        let cells = if page.has_attribute("nodeset") { Some(cpu_list(page, "nodeset")?) } else { None };
        kinds.push(Kind { page, cells });
    }
    Ok(kinds)
}

/// Returns the guest's nodes in the XML. A guest without nodes counts as node 0.
fn before(task: &Task) -> CpuSet {
    let before: CpuSet = task.before.cells.iter().map(|cell| cell.id).collect();
    if before.is_empty() { std::iter::once(0).collect() } else { before }
}

/// Returns the element that names all of these nodes.
fn of_all<'k, 'n, 'a>(kinds: &'k [Kind<'n, 'a>], cells: &CpuSet) -> Option<&'k Kind<'n, 'a>> {
    kinds.iter().find(|kind| kind.cells.as_ref().is_some_and(|named| cells.difference(named).is_empty()))
}

/// Returns the size of the largest pages that back the memory, in KiB; 2 MiB, the size of transparent huge
/// pages, if none are named.
pub(super) fn largest_kib(task: &Task) -> Result<u64, Refused> {
    let mut largest = 2048;
    for kind in kinds(task)? {
        largest = largest.max(size_kib(kind.page)?);
    }
    Ok(largest)
}

fn size_kib(page: Node) -> Result<u64, Refused> {
    Ok(sized(page, page.attribute("size").unwrap_or_default())? >> 10)
}

/// Returns the size of the huge pages of each guest node, in KiB: `None` for normal pages, and `default` if
/// the domain requests huge pages without a size.
pub(super) fn of_cells(
    task: &Task,
    cells: &CpuSet,
    default: Option<u64>,
) -> Result<Vec<(u32, Option<u64>)>, Refused> {
    let Some(_) = task.xml.at(&["memoryBacking", "hugepages"]) else {
        return Ok(cells.iter().map(|cell| (cell, None)).collect());
    };
    let kinds = kinds(task)?;
    let is_whole = kinds.iter().all(|kind| kind.cells.is_none());
    let of_all = of_all(&kinds, &before(task));
    let mut sizes = Vec::new();
    for cell in cells.iter() {
        let own = kinds.iter().find(|kind| kind.cells.as_ref().is_some_and(|cells| cells.contains(cell)));
        let kind = of_all.or(own).or_else(|| kinds.iter().find(|kind| kind.cells.is_none()));
        let size = match kind {
            Some(kind) => Some(size_kib(kind.page)?),
            None if is_whole => default,
            None => None,
        };
        sizes.push((cell, size.filter(|size| *size > 4)));
    }
    Ok(sizes)
}

/// Updates `nodeset` to the guest's nodes of the plan, since libvirt refuses unknown nodes. If all nodes had
/// pages of one size, the new nodes get them, too.
pub(super) fn follow<'a>(
    task: &Task<'_, 'a>,
    seats: &Seats,
    edits: &mut Edits<'_, 'a>,
) -> Result<(), Refused> {
    let after = seats.node_ids();
    let before = before(task);
    let kinds = kinds(task)?;
    if seats.cells.is_empty() || before == after || kinds.iter().all(|kind| kind.cells.is_none()) {
        return Ok(());
    }
    let Some(all) = of_all(&kinds, &before) else {
        return Err(Refused::Demand(format!(
            "the <page> elements of <hugepages> do not give all of the guest's nodes ({before}) pages of one size, \
             and by this plan the nodes are {after}: remove nodeset from <page>, or choose a policy that makes the \
             same number of nodes (--policy close, spread or cpus=LIST)"
        )));
    };
    edits.set(all.page, "nodeset", &after);
    Ok(())
}
