//! Resolves a request: the group of the target and its limits in the syntax of this kernel. Finds all errors
//! before anything is changed.

use super::{LimitTarget, Options, earlier_group};
use crate::{
    error::{Error, Result},
    translate::{SchemataWrite, translate},
};
use manycore_linux::{
    resctrl::{
        self, Files,
        schemata::Schemata,
        state::{GroupRole, QosGroup, QosState},
    },
    targets::{Members, Target},
    vms::{DomainIdentity, ReadOptions, RunningDomains, resctrl_groups},
};
use manycore_text::names;
use manycore_topology::{CpuSet, SysTree};

/// The resolved request.
#[derive(Debug)]
pub(super) struct ResolvedRequest {
    /// The group, if it exists already.
    pub(super) group: Option<QosGroup>,
    /// Processes whose tasks are moved into the group.
    pub(super) members: Option<Members>,
    /// CPUs that are moved into the group.
    pub(super) cpus: CpuSet,
    pub(super) writes: Vec<SchemataWrite>,
    pub(super) notes: Vec<String>,
}

/// Where the group of a target comes from.
enum Origin {
    /// It has to be created.
    New,
    /// An earlier request created it for the same target.
    EarlierSet(QosGroup),
    /// The request names it.
    Named(QosGroup),
    /// libvirt created it for the domain.
    Libvirt(QosGroup),
}

impl Origin {
    fn group(self) -> Option<QosGroup> {
        match self {
            Self::New => None,
            Self::EarlierSet(group) | Self::Named(group) | Self::Libvirt(group) => Some(group),
        }
    }
}

/// Resolves the request and checks that all of it can be done, before anything is changed.
pub(super) fn resolve(
    options: &Options,
    system: &SysTree,
    files: &Files,
    state: &QosState,
) -> Result<ResolvedRequest> {
    let (origin, members) = find(options, system, files, state)?;
    let mut notes: Vec<String> = check_options(options, state, &origin)?.into_iter().collect();
    let group = origin.group();
    let others: Vec<&Schemata> = state
        .control_groups()
        .filter(|other| {
            other.role == GroupRole::Control && group.as_ref().is_none_or(|own| own.name != other.name)
        })
        .map(|other| &other.schemata)
        .collect();
    let writes = translate(&options.limits, &state.capabilities, &resctrl::domain_cpus(system), &others)
        .map_err(Error::Request)?;
    let cpus = match &options.target {
        LimitTarget::Cpus(cpus) => online(system, cpus)?,
        _ => CpuSet::new(),
    };
    let own = group.as_ref().map(|group| group.name.as_str());
    notes.extend(notes_on_lost_cpus(state, &cpus, own));
    Ok(ResolvedRequest { group, members, cpus, writes, notes })
}

/// Finds the group of the target, and the processes whose tasks are moved into it.
fn find(
    options: &Options,
    system: &SysTree,
    files: &Files,
    state: &QosState,
) -> Result<(Origin, Option<Members>)> {
    let members = match &options.target {
        LimitTarget::Group(name) => return Ok((Origin::Named(existing(state, name)?), None)),
        LimitTarget::Tasks(Target::Domain(name)) => {
            let domain = RunningDomains::new(system, ReadOptions::default()).find(name)?;
            if let Some(group) = libvirt_group(state, &domain)? {
                return Ok((Origin::Libvirt(group), None));
            }
            Some(Members::ProcessTrees(vec![domain.pid]))
        }
        LimitTarget::Tasks(target) => Some(target.find()?),
        LimitTarget::Cpus(_) => None,
    };
    let earlier = earlier_group::find(options, files, state, members.as_ref());
    Ok((earlier.map_or(Origin::New, Origin::EarlierSet), members))
}

/// Checks that the options suit a group of this origin, and returns a note for the user about it.
fn check_options(options: &Options, state: &QosState, origin: &Origin) -> Result<Option<String>> {
    let group = match origin {
        Origin::New => return check_free_group(options, state).map(|()| None),
        Origin::EarlierSet(group) => {
            earlier_group::check_name(options, group)?;
            return Ok(Some(format!(
                "the group {} was made for this target before: the given limits are changed, its other limits stay",
                group.display_name()
            )));
        }
        Origin::Named(group) | Origin::Libvirt(group) => group,
    };
    if options.name.is_some() {
        return Err(Error::Rename(group.display_name().to_owned()));
    }
    if options.follow {
        return Err(Error::NotFollowed(group.display_name().to_owned()));
    }
    let is_libvirts = matches!(origin, Origin::Libvirt(_));
    Ok(is_libvirts
        .then(|| format!("libvirt has made the group {} for this domain; it is changed", group.name)))
}

fn existing(state: &QosState, name: &str) -> Result<QosGroup> {
    match state.group(name) {
        Some(group) if group.role == GroupRole::Monitor => {
            let parent = name.split("/mon_groups").next().filter(|name| !name.is_empty()).unwrap_or("/");
            Err(Error::MonitoringGroup { name: name.to_owned(), parent: parent.to_owned() })
        }
        Some(group) => Ok(group.clone()),
        None => {
            let instead = names::instead(state.control_groups().map(QosGroup::display_name), name);
            Err(Error::NoGroup { name: name.to_owned(), instead })
        }
    }
}

/// Returns the group that libvirt has made for a domain. libvirt makes one for each set of virtual CPUs that
/// the domain's XML limits.
///
/// # Errors
/// [`Error::SeveralGroups`] if there are several groups, of which one has to be named.
fn libvirt_group(state: &QosState, domain: &DomainIdentity) -> Result<Option<QosGroup>> {
    let is_its = |group: &&QosGroup| resctrl_groups::is_named_after(&group.name, domain);
    let mut its: Vec<&QosGroup> = state.control_groups().filter(is_its).collect();
    if its.len() > 1 {
        let groups = its.iter().map(|group| group.display_name().to_owned()).collect();
        return Err(Error::SeveralGroups { domain: domain.name.clone(), groups });
    }
    Ok(its.pop().cloned())
}

/// Returns a note for each group that loses CPUs to the target's group.
fn notes_on_lost_cpus(state: &QosState, cpus: &CpuSet, own: Option<&str>) -> Vec<String> {
    let lost = |group: &QosGroup| {
        let lost = group.cpus.intersection(cpus);
        let note = format!("the group {} loses CPUs {lost} until 'manycore undo'", group.display_name());
        let is_own = own == Some(group.name.as_str());
        (group.role != GroupRole::Default && !is_own && !lost.is_empty()).then_some(note)
    };
    state.groups.iter().filter_map(lost).collect()
}

/// Checks that one more group can be created, as far as the kernel reports the limits of the hardware.
fn check_free_group(options: &Options, state: &QosState) -> Result {
    if let Some(name) = options.name.as_deref().filter(|name| state.group(name).is_some()) {
        return Err(Error::GroupExists(name.to_owned()));
    }
    let there = state.control_groups().count();
    let all = state.groups.len();
    match (state.capabilities.groups, state.capabilities.monitors) {
        (Some(maximum), _) if there >= maximum as usize => {
            Err(Error::NoGroupLeft { count: there, what: "groups" })
        }
        (_, Some(maximum)) if all >= maximum as usize => {
            Err(Error::NoGroupLeft { count: all, what: "groups with monitors" })
        }
        _ => Ok(()),
    }
}

/// Returns `cpus`, all of which are online.
fn online(system: &SysTree, cpus: &CpuSet) -> Result<CpuSet> {
    let online = system.cpu_list("sys/devices/system/cpu/online")?.unwrap_or_default();
    let absent = cpus.difference(&online);
    if cpus.is_empty() || !absent.is_empty() {
        return Err(Error::Cpus { requested: cpus.clone(), absent, online });
    }
    Ok(cpus.clone())
}
