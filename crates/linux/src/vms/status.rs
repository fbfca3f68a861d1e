//! The status file that libvirt writes for a running domain (`/run/libvirt/qemu/NAME.xml`).

use manycore_text::xml::{self, Node};
use std::collections::BTreeMap;

/// State of a running domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainStatus {
    /// Process id of the emulator.
    pub pid: u32,
    /// `running`, `paused`.
    pub state: String,
    /// Number of the running domain.
    pub id: Option<u32>,
    /// Thread id of each virtual CPU.
    pub vcpus: BTreeMap<u32, u32>,
}

impl DomainStatus {
    /// Parses a status file. Returns `None` if the text is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let document = xml::parse(text).ok()?;
        let root = document.root_element();
        let number = |node: Node, name| node.attribute(name)?.parse::<u32>().ok();
        let below = |name: &'static str| root.children().find(move |node| node.has_tag_name(name));
        let threads = below("vcpus").into_iter().flat_map(|vcpus| vcpus.children());
        root.has_tag_name("domstatus").then_some(())?;
        Some(Self {
            pid: number(root, "pid")?,
            state: root.attribute("state").unwrap_or_default().to_owned(),
            id: below("domain").and_then(|domain| number(domain, "id")),
            vcpus: threads.filter_map(|vcpu| Some((number(vcpu, "id")?, number(vcpu, "pid")?))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_file_is_parsed() {
        let text = "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\
            <domstatus state='paused' reason='user' pid='812'>\n  <vcpus>\n    <vcpu id='0' pid='820'/>\n    \
            <vcpu id='1' pid='821'/>\n  </vcpus>\n  <domain type='kvm' id='3'>\n    <name>web1</name>\n  </domain>\n\
            </domstatus>\n";
        let status = DomainStatus::parse(text).unwrap();
        assert_eq!((status.pid, status.state.as_str(), status.id), (812, "paused", Some(3)));
        assert_eq!(status.vcpus, BTreeMap::from([(0, 820), (1, 821)]));
        for other in [
            "",
            "<domstatus state='running'/>",
            "<domain id='1' pid='3'/>",
            "<!DOCTYPE a><domstatus pid='1'/>",
        ] {
            assert_eq!(DomainStatus::parse(other), None, "{other}");
        }
    }
}
