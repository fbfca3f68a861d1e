//! Limits of cache and memory bandwidth for groups of tasks: the capabilities of a machine, the limits in
//! force, the requests of a user, and their outcome (`Documentation/filesystems/resctrl.rst`).

use super::dialect::{Capabilities, Info};
use super::rates::MonitorReading;
use super::schemata::Schemata;
use manycore_topology::CpuSet;
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`QosState::schema`] that this version writes.
pub const QOS_SCHEMA: &str = "manycore/qos/1";

/// The state of a mounted resctrl file system at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QosState {
    /// Always [`QOS_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = QOS_SCHEMA)))]
    pub schema: String,
    /// The mount point.
    pub root: String,
    /// The mount options.
    pub options: Vec<String>,
    /// What can be set.
    pub capabilities: Capabilities,
    /// The directories below `info`.
    pub info: BTreeMap<String, Info>,
    /// The default group first, each group followed by its monitoring groups.
    pub groups: Vec<QosGroup>,
}

/// The purpose of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupRole {
    /// The default group: all tasks that are in no other group.
    Default,
    /// It has limits, and monitors.
    Control,
    /// It only has monitors; its limits are those of its parent group.
    Monitor,
}

/// The owner of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum GroupOwner {
    /// The kernel: the default group.
    Kernel,
    /// manycore, according to this journal.
    Manycore {
        /// Name of the journal, as `undo` takes it.
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
    /// Unknown: the name has no known form.
    Unknown,
}

/// One control group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QosGroup {
    /// Its directory below the mount point: empty for the default group, `web`, `web/mon_groups/one`.
    pub name: String,
    /// Its purpose.
    pub role: GroupRole,
    /// Its owner.
    pub owner: GroupOwner,
    /// Its limits; empty for a monitoring group.
    pub schemata: Schemata,
    /// How its cache may be shared: `shareable`, `exclusive`, `pseudo-locked`.
    pub mode: Option<String>,
    /// Size of its cache portions in bytes, by line and domain.
    pub size: BTreeMap<String, BTreeMap<u32, u64>>,
    /// CPUs whose tasks belong to the group, unless a task is in a group itself.
    pub cpus: CpuSet,
    /// Number of tasks that were moved into it or inherited it.
    pub tasks: usize,
    /// The readings of its monitors.
    pub monitors: Vec<MonitorReading>,
}

impl GroupOwner {
    /// Returns the owner of a group, as far as the name shows it. A `journal` means that manycore created the group.
    pub fn from_group_name(name: &str, journal: Option<&str>) -> Self {
        if let Some(journal) = journal {
            return Self::Manycore { journal: journal.to_owned() };
        }
        // libvirt names a monitoring group after its allocation; the owner is that of the parent group.
        let name = name.split('/').next().unwrap_or(name);
        if name.is_empty() {
            return Self::Kernel;
        }
        if let Some((id, domain)) = of_libvirt(name) {
            // A domain with several groups: each one is named after the virtual CPUs that it holds.
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

/// Returns number and name of the domain if libvirt named the group after one; [`VCPUS`] may follow the name.
pub fn of_libvirt(group: &str) -> Option<(u32, &str)> {
    let (id, domain) = group.strip_prefix("qemu-")?.split_once('-')?;
    Some((id.parse().ok()?, domain)).filter(|_| !domain.is_empty())
}

/// libvirt appends this and a list of virtual CPUs to the name of a domain to name a group for only these
/// CPUs (`virResctrlDeterminePath`).
pub const VCPUS: &str = "-vcpus_";

impl QosState {
    /// Returns the group of this name; the default group is `/` or empty.
    pub fn group(&self, name: &str) -> Option<&QosGroup> {
        let name = if name == "/" { "" } else { name };
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the groups with limits, including the default group.
    pub fn control_groups(&self) -> impl Iterator<Item = &QosGroup> {
        self.groups.iter().filter(|group| group.role != GroupRole::Monitor)
    }
}

impl QosGroup {
    /// Returns the name for display: the default group is `/`.
    pub fn display_name(&self) -> &str {
        if self.name.is_empty() { "/" } else { &self.name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_derived_from_group_names() {
        let id = "ab".repeat(32);
        for (name, owner) in [
            ("", GroupOwner::Kernel),
            ("qemu-10-web-1", GroupOwner::Libvirt { id: 10, domain: "web-1".to_owned() }),
            ("qemu-10-web-1-vcpus_0-3,8", GroupOwner::Libvirt { id: 10, domain: "web-1".to_owned() }),
            ("qemu-10-web-vcpus_x", GroupOwner::Libvirt { id: 10, domain: "web-vcpus_x".to_owned() }),
            (
                "qemu-10-web-1/mon_groups/vcpus_0-3",
                GroupOwner::Libvirt { id: 10, domain: "web-1".to_owned() },
            ),
            ("qemu-10", GroupOwner::Unknown),
            ("qemu-x-y", GroupOwner::Unknown),
            ("rubik_low", GroupOwner::Kubernetes),
            ("BestEffort", GroupOwner::Kubernetes),
            (&id, GroupOwner::Container { id: id.clone() }),
            ("COS1", GroupOwner::Unknown),
        ] {
            assert_eq!(GroupOwner::from_group_name(name, None), owner, "{name}");
        }
        assert_eq!(
            GroupOwner::from_group_name("x", Some("qos-1")),
            GroupOwner::Manycore { journal: "qos-1".to_owned() }
        );
    }
}
