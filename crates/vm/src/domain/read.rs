//! Functions that read values of elements and attributes of a domain, as libvirt reads them.

use crate::domain::xml::{DomainXml, DomainXmlError};
use manycore_text::xml::{self, Node, number, text_of};
use manycore_topology::CpuSet;

/// Returns the text of an element below the root.
pub(super) fn text(xml: &DomainXml, name: &str) -> String {
    xml.at(&[name]).map(text_of).unwrap_or_default().trim().to_owned()
}

/// Returns the bytes of `<memory unit='GiB'>4</memory>` and the like; KiB if there is no unit
/// (`formatdomain`).
pub(super) fn bytes(node: Node) -> Result<u64, DomainXmlError> {
    bytes_with_unit(node, &text_of(node))
}

/// Returns the bytes of the number in `text`, in the unit of the element.
pub(super) fn bytes_with_unit(node: Node, text: &str) -> Result<u64, DomainXmlError> {
    xml::bytes(text, node.attribute("unit").unwrap_or_default()).ok_or_else(|| DomainXmlError::Value {
        what: format!("<{}>", node.tag_name().name()),
        found: format!("{} {}", text.trim(), node.attribute("unit").unwrap_or_default()).trim().to_owned(),
        expected: "a number and a unit such as KiB, MiB or GiB",
    })
}

/// Parses a list of CPUs or nodes in an attribute. Lists of libvirt may exclude members: `0-7,^3`.
pub(super) fn cpu_list(node: Node, name: &str) -> Result<CpuSet, DomainXmlError> {
    let text = node.attribute(name).unwrap_or_default();
    let bad = |_| DomainXmlError::Value {
        what: format!("{name} of <{}>", node.tag_name().name()),
        found: text.to_owned(),
        expected: "a list such as 0-3,8",
    };
    let (out, into): (Vec<&str>, Vec<&str>) =
        text.split(',').map(str::trim).partition(|part| part.starts_with('^'));
    let into: CpuSet = into.join(",").parse().map_err(bad)?;
    let out: CpuSet = out.iter().map(|part| &part[1..]).collect::<Vec<_>>().join(",").parse().map_err(bad)?;
    Ok(into.difference(&out))
}

/// Parses a number in a required attribute.
pub(super) fn attribute(node: Node, name: &str) -> Result<u32, DomainXmlError> {
    let found = node.attribute(name).unwrap_or_default();
    number(found).and_then(|value| u32::try_from(value).ok()).ok_or_else(|| DomainXmlError::Value {
        what: format!("{name} of <{}>", node.tag_name().name()),
        found: found.to_owned(),
        expected: "a number",
    })
}

/// Returns an attribute of `<type arch= machine=>` in `<os>`.
pub(super) fn os_type<'x>(xml: &'x DomainXml, name: &str) -> Option<&'x str> {
    xml.at(&["os", "type"])?.attribute(name)
}
