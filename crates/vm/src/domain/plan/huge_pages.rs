//! Planning of `<hugepages>`: the page size of each guest node.

use super::{PlanInput, vcpu_placement::DomainPlacement};
use crate::{
    domain::{
        edit::Edits,
        read::{bytes_with_unit, cpu_list},
    },
    error::PlanError,
    remedy::Remedy,
};
use manycore_text::xml::{Node, children};
use manycore_topology::CpuSet;

/// A `<page>` element of `<hugepages>`.
struct PageElement<'n, 'a> {
    page: Node<'n, 'a>,
    /// Guest nodes with this page size; `None` for all nodes that no other element names.
    cells: Option<CpuSet>,
}

fn page_elements<'n, 'a>(input: &'n PlanInput<'_, 'a>) -> Result<Vec<PageElement<'n, 'a>>, PlanError> {
    let huge = input.xml.at(&["memoryBacking", "hugepages"]);
    let mut page_elements = Vec::new();
    for page in huge.into_iter().flat_map(|huge| children(huge, "page")) {
        let cells = if page.has_attribute("nodeset") { Some(cpu_list(page, "nodeset")?) } else { None };
        page_elements.push(PageElement { page, cells });
    }
    Ok(page_elements)
}

/// Returns the guest's nodes in the XML. A guest without nodes counts as node 0.
fn cells_in_xml(input: &PlanInput) -> CpuSet {
    let before: CpuSet = input.before.cells.iter().map(|cell| cell.id).collect();
    if before.is_empty() { std::iter::once(0).collect() } else { before }
}

/// Returns the element that names all of these nodes.
fn covering_all<'k, 'n, 'a>(
    page_elements: &'k [PageElement<'n, 'a>],
    cells: &CpuSet,
) -> Option<&'k PageElement<'n, 'a>> {
    page_elements
        .iter()
        .find(|element| element.cells.as_ref().is_some_and(|named| cells.difference(named).is_empty()))
}

/// Returns the size of the largest pages that back the memory, in KiB; 2 MiB, the size of transparent huge
/// pages, if none are named.
pub(super) fn largest_page_kib(input: &PlanInput) -> Result<u64, PlanError> {
    let mut largest = 2048;
    for element in page_elements(input)? {
        largest = largest.max(size_kib(element.page)?);
    }
    Ok(largest)
}

fn size_kib(page: Node) -> Result<u64, PlanError> {
    Ok(bytes_with_unit(page, page.attribute("size").unwrap_or_default())? >> 10)
}

/// Returns the size of the huge pages of each guest node, in KiB: `None` for normal pages, and `default` if
/// the domain requests huge pages without a size.
pub(super) fn page_sizes_of_cells(
    input: &PlanInput,
    cells: &CpuSet,
    default: Option<u64>,
) -> Result<Vec<(u32, Option<u64>)>, PlanError> {
    let Some(_) = input.xml.at(&["memoryBacking", "hugepages"]) else {
        return Ok(cells.iter().map(|cell| (cell, None)).collect());
    };
    let page_elements = page_elements(input)?;
    let is_whole = page_elements.iter().all(|element| element.cells.is_none());
    let covering_all = covering_all(&page_elements, &cells_in_xml(input));
    let mut sizes = Vec::new();
    for cell in cells.iter() {
        let own = page_elements
            .iter()
            .find(|element| element.cells.as_ref().is_some_and(|cells| cells.contains(cell)));
        let element =
            covering_all.or(own).or_else(|| page_elements.iter().find(|element| element.cells.is_none()));
        let size = match element {
            Some(element) => Some(size_kib(element.page)?),
            None if is_whole => default,
            None => None,
        };
        sizes.push((cell, size.filter(|size| *size > 4)));
    }
    Ok(sizes)
}

/// Updates `nodeset` to the guest's nodes of the plan, since libvirt refuses unknown nodes. If all nodes had
/// pages of one size, the new nodes get them, too.
pub(super) fn update_nodesets<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
) -> Result<(), PlanError> {
    let after = placement.node_ids();
    let before = cells_in_xml(input);
    let page_elements = page_elements(input)?;
    if placement.cells.is_empty()
        || before == after
        || page_elements.iter().all(|element| element.cells.is_none())
    {
        return Ok(());
    }
    let Some(all) = covering_all(&page_elements, &before) else {
        return Err(PlanError::resolved_by(
            Remedy::Policy,
            format!(
                "the <page> elements of <hugepages> do not give all of the guest's nodes ({before}) pages of one \
                 size, and by this plan the nodes are {after}: remove nodeset from <page>, or choose a policy that \
                 makes the same number of nodes (close, spread or cpus=LIST)"
            ),
        ));
    };
    edits.set(all.page, "nodeset", &after);
    Ok(())
}
