//! All that a mounted resctrl file system holds.

use super::dialect::{Info, Offer};
use super::rates::Monitor;
use super::schemata::Schemata;
use manycore_topology::CpuSet;
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`State::schema`] that this version writes.
pub const QOS_SCHEMA: &str = "manycore/qos/1";

/// All that a mounted resctrl file system tells at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// Always [`QOS_SCHEMA`].
    pub schema: String,
    /// The mount point.
    pub root: String,
    /// Its mount options.
    pub options: Vec<String>,
    /// What can be set.
    pub offer: Offer,
    /// The folders below `info`.
    pub info: BTreeMap<String, Info>,
    /// The default group first, each group followed by its monitoring groups.
    pub groups: Vec<Group>,
}

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// All that is in no other one.
    Default,
    /// It has limits, and monitors.
    Control,
    /// It only has monitors; its limits are those of the group that it is in.
    Monitor,
}

/// Whose a group is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Owner {
    /// The kernel made it.
    Kernel,
    /// We did, as this journal says.
    Manycore {
        /// Its name, as `undo` takes it.
        journal: String,
    },
    /// libvirt, for a domain.
    Libvirt {
        /// The domain's number.
        id: u32,
        /// The domain's name.
        domain: String,
    },
    /// Kubernetes: a class of its nodes or of Rubik.
    Kubernetes,
    /// A container engine, for the container of this id.
    Container {
        /// 64 hexadecimal digits.
        id: String,
    },
    /// Nobody that we know.
    Unknown,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Its folder below the mount point: empty for the default one, `web`, `web/mon_groups/one`.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Whose it is.
    pub owner: Owner,
    /// Its limits; none for one that only monitors.
    pub schemata: Schemata,
    /// How its cache may be shared: `shareable`, `exclusive`, `pseudo-locked`.
    pub mode: Option<String>,
    /// Bytes of cache that its masks stand for, of each line and domain.
    pub size: BTreeMap<String, BTreeMap<u32, u64>>,
    /// CPUs whose tasks belong to it, unless these are in a group themselves.
    pub cpus: CpuSet,
    /// Tasks that were put into it or inherited it.
    pub tasks: usize,
    /// What its monitors say.
    pub monitors: Vec<Monitor>,
}

impl Owner {
    /// Whose a group of this name is, as far as the name tells; `journal` of ours says that we made it.
    pub fn of(name: &str, journal: Option<&str>) -> Self {
        if let Some(journal) = journal {
            return Self::Manycore { journal: journal.to_owned() };
        }
        // A monitoring group of libvirt's is named after its allocation; what counts is whose group it is in.
        let name = name.split('/').next().unwrap_or(name);
        if name.is_empty() {
            return Self::Kernel;
        }
        if let Some((id, domain)) = of_libvirt(name) {
            // One of several groups of a domain is named after the virtual CPUs that it holds.
            let of_some = |at: &usize| domain[at + VCPUS.len()..].parse::<CpuSet>().is_ok();
            let end = domain.rfind(VCPUS).filter(of_some).unwrap_or(domain.len());
            return Self::Libvirt { id, domain: domain[..end].to_owned() };
        }
        if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Self::Container { id: name.to_owned() };
        }
        let classes = ["Guaranteed", "Burstable", "BestEffort", "BESTEFFORT", "system/default"];
        if classes.contains(&name) || name.starts_with("rubik_") || name.starts_with("cri-resmgr.") {
            return Self::Kubernetes;
        }
        Self::Unknown
    }
}

/// Number and name of the domain that libvirt calls a group after; behind the name may be [`VCPUS`].
pub fn of_libvirt(group: &str) -> Option<(u32, &str)> {
    let (id, domain) = group.strip_prefix("qemu-")?.split_once('-')?;
    Some((id.parse().ok()?, domain)).filter(|_| !domain.is_empty())
}

/// Behind a domain's name, this and a list of virtual CPUs makes the name of a group for these alone
/// (`virResctrlDeterminePath`).
pub const VCPUS: &str = "-vcpus_";

impl State {
    /// The group of this name; the default one is `/` or empty.
    pub fn group(&self, name: &str) -> Option<&Group> {
        let name = if name == "/" { "" } else { name };
        self.groups.iter().find(|group| group.name == name)
    }

    /// Groups with limits, the default one included.
    pub fn control_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.role != Role::Monitor)
    }
}

impl Group {
    /// The name as people read it: the default group is `/`.
    pub fn title(&self) -> &str {
        if self.name.is_empty() { "/" } else { &self.name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_a_group_is() {
        let id = "ab".repeat(32);
        for (name, owner) in [
            ("", Owner::Kernel),
            ("qemu-10-web-1", Owner::Libvirt { id: 10, domain: "web-1".to_owned() }),
            ("qemu-10-web-1-vcpus_0-3,8", Owner::Libvirt { id: 10, domain: "web-1".to_owned() }),
            ("qemu-10-web-vcpus_x", Owner::Libvirt { id: 10, domain: "web-vcpus_x".to_owned() }),
            ("qemu-10-web-1/mon_groups/vcpus_0-3", Owner::Libvirt { id: 10, domain: "web-1".to_owned() }),
            ("qemu-10", Owner::Unknown),
            ("qemu-x-y", Owner::Unknown),
            ("rubik_low", Owner::Kubernetes),
            ("BestEffort", Owner::Kubernetes),
            (&id, Owner::Container { id: id.clone() }),
            ("COS1", Owner::Unknown),
        ] {
            assert_eq!(Owner::of(name, None), owner, "{name}");
        }
        assert_eq!(Owner::of("x", Some("qos-1")), Owner::Manycore { journal: "qos-1".to_owned() });
    }
}
