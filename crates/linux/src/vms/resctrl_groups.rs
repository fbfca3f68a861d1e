//! Assignment of resctrl groups to running domains.

use super::DomainIdentity;
use crate::resctrl::{
    state::{VCPUS, of_libvirt},
    watch::parent_group,
};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the groups that count only for this domain; none of them lies within another. These are the groups
/// that libvirt names `qemu-ID-NAME`, or `qemu-ID-NAME-vcpus_0-3` for some of the virtual CPUs, and groups
/// whose tasks are all `threads` of this domain. `tasks` holds the tasks of each group.
pub fn groups_of_domain(
    identity: &DomainIdentity,
    threads: &BTreeSet<u32>,
    tasks: &BTreeMap<String, BTreeSet<u32>>,
) -> Vec<String> {
    let holds = |tasks: &BTreeSet<u32>| !tasks.is_empty() && tasks.is_subset(threads);
    let is_own = |name: &String| is_named_after(name, identity) || tasks.get(name).is_some_and(holds);
    let own: BTreeSet<&String> = tasks.keys().filter(|name| !name.is_empty() && is_own(name)).collect();
    let is_inside =
        |name: &str| parent_group(name) != name && own.iter().any(|other| *other == parent_group(name));
    own.iter().filter(|name| !is_inside(name)).map(|name| (*name).clone()).collect()
}

/// Returns whether libvirt named a control group of resctrl after this domain. Compares the whole domain id,
/// so that `qemu-1-` does not match `qemu-10-`.
pub fn is_named_after(group: &str, identity: &DomainIdentity) -> bool {
    let Some((id, domain)) = of_libvirt(group) else { return false };
    let machine =
        identity.machine.as_deref().and_then(|machine| machine.strip_prefix("qemu-")?.split_once('-'));
    let names = [Some(identity.name.as_str()), machine.map(|(_, name)| name)];
    let is_after =
        |name: &str| domain.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(VCPUS));
    !group.contains('/') && identity.id == Some(id) && names.into_iter().flatten().any(is_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str, id: u32) -> DomainIdentity {
        DomainIdentity {
            name: name.to_owned(),
            id: Some(id),
            machine: Some(format!("qemu-{id}-{}", name.replace(' ', ""))),
            ..DomainIdentity::default()
        }
    }

    fn tasks(groups: &[(&str, &[u32])]) -> BTreeMap<String, BTreeSet<u32>> {
        groups.iter().map(|(name, tids)| ((*name).to_owned(), tids.iter().copied().collect())).collect()
    }

    #[test]
    fn groups_match_by_exact_id_or_by_tasks() {
        let all = tasks(&[
            ("", &[1, 2]),
            ("qemu-1-web", &[]),
            ("qemu-1-web/mon_groups/vcpus_0", &[11]),
            ("qemu-10-web", &[21]),
            ("qemu-2-myvm-vcpus_0-3", &[31]),
            ("qemu-2-myvm-vcpus_4-7", &[32]),
            ("qemu-2-myvm2", &[39]),
            ("mine", &[41, 42]),
            ("shared", &[41, 51]),
            ("shared/mon_groups/one", &[51]),
        ]);
        let of = |identity: &DomainIdentity, threads: &[u32]| {
            groups_of_domain(identity, &threads.iter().copied().collect::<BTreeSet<u32>>(), &all)
        };
        assert_eq!(of(&identity("web", 1), &[11, 12]), ["qemu-1-web"]);
        assert_eq!(of(&identity("web", 10), &[21]), ["qemu-10-web"]);
        assert_eq!(of(&identity("my vm", 2), &[31, 32]), ["qemu-2-myvm-vcpus_0-3", "qemu-2-myvm-vcpus_4-7"]);
        assert_eq!(of(&identity("hand", 7), &[41, 42, 43]), ["mine"]);
        assert_eq!(of(&identity("other", 8), &[51]), ["shared/mon_groups/one"]);
        assert!(of(&identity("none", 9), &[1, 2]).is_empty());
    }
}
