//! Resolves what `qos set` has to do: the group of the target and its limits in the syntax of this kernel.
//! Finds all errors before anything is changed.

use super::former;
use crate::{
    cli::QosSet,
    failure::{Failure, Outcome},
};
use manycore_linux::{
    resctrl,
    targets::{Members, Target},
    vms::{Domains, Wanted},
};
use manycore_linux::{
    resctrl::{
        schemata::Schemata,
        state::{Group, Role, State},
    },
    vms::{bandwidth, usage::Identity},
};
use manycore_qos::translate::{Refusal, Write, translate};
use manycore_text::names;
use manycore_topology::CpuSet;
use manycore_topology::SysTree;

/// The resolved request.
pub(super) struct Aim {
    /// The group, if it exists already.
    pub(super) group: Option<Group>,
    /// Processes whose tasks are moved into the group.
    pub(super) members: Option<Members>,
    /// CPUs that are moved into the group.
    pub(super) cpus: CpuSet,
    pub(super) writes: Vec<Write>,
    pub(super) notes: Vec<String>,
}

/// Where the group of a target comes from.
enum Origin {
    /// It has to be created.
    New,
    /// An earlier `qos set` created it for the same target.
    Former(Group),
    /// It is named with `--group`.
    Named(Group),
    /// libvirt created it for the domain.
    Libvirt(Group),
}

impl Origin {
    fn group(self) -> Option<Group> {
        match self {
            Self::New => None,
            Self::Former(group) | Self::Named(group) | Self::Libvirt(group) => Some(group),
        }
    }
}

/// Finds the group of the target, and the processes whose tasks are moved into it.
fn find(args: &QosSet, system: &SysTree, state: &State) -> Outcome<(Origin, Option<Members>)> {
    if let Some(name) = &args.target.group {
        return Ok((Origin::Named(existing(state, name)?), None));
    }
    let members = match args.target.target() {
        Some(Target::Domain(name)) => {
            let domain = Domains::new(system, Wanted::default()).find(&name).map_err(Failure::input)?;
            if let Some(group) = libvirts(state, &domain)? {
                return Ok((Origin::Libvirt(group), None));
            }
            Some(Members::Trees(vec![domain.pid]))
        }
        Some(target) => Some(target.find().map_err(Failure::input)?),
        None => None,
    };
    let former = former::group(args, system, state, members.as_ref());
    Ok((former.map_or(Origin::New, Origin::Former), members))
}

/// Checks that the options suit a group of this origin, and returns a note for the user about it.
fn suits(args: &QosSet, state: &State, origin: &Origin) -> Outcome<Option<String>> {
    let group = match origin {
        Origin::New => return check_room(args, state).map(|()| None),
        Origin::Former(group) => {
            former::check_name(args, group)?;
            return Ok(Some(format!(
                "the group {} was made for this target before: the given limits are changed, its other limits stay",
                group.title()
            )));
        }
        Origin::Named(group) | Origin::Libvirt(group) => group,
    };
    if args.name.is_some() {
        return Err(Failure::input(format!(
            "--name: the group {} exists already and cannot be renamed; leave --name out",
            group.title()
        )));
    }
    if args.follow {
        return Err(Failure::input(format!(
            "--follow: no tasks are moved into the group {}, which exists already: leave --follow out",
            group.title()
        )));
    }
    let is_libvirts = matches!(origin, Origin::Libvirt(_));
    Ok(is_libvirts
        .then(|| format!("libvirt has made the group {} for this domain; it is changed", group.name)))
}

/// Resolves the request and checks that all of it can be done, before anything is changed.
pub(super) fn aim(args: &QosSet, system: &SysTree, state: &State) -> Outcome<Aim> {
    let (origin, members) = find(args, system, state)?;
    let mut notes: Vec<String> = suits(args, state, &origin)?.into_iter().collect();
    let group = origin.group();
    let others: Vec<&Schemata> = state
        .control_groups()
        .filter(|other| {
            other.role == Role::Control && group.as_ref().is_none_or(|own| own.name != other.name)
        })
        .map(|other| &other.schemata)
        .collect();
    let writes = translate(&args.wish.wish(), &state.offer, &resctrl::places(system), &others)
        .map_err(|refusals| refuse(&refusals))?;
    let cpus = args.target.cpus.clone().unwrap_or_default();
    check_cpus(args, system, &cpus)?;
    let own = group.as_ref().map(|group| group.name.as_str());
    notes.extend(losers(state, &cpus, own));
    Ok(Aim { group, members, cpus, writes, notes })
}

fn existing(state: &State, name: &str) -> Outcome<Group> {
    match state.group(name) {
        Some(group) if group.role == Role::Monitor => {
            let control = name.split("/mon_groups").next().filter(|name| !name.is_empty()).unwrap_or("/");
            Err(Failure::input(format!("{name} is a monitoring group, set the limits of {control} instead")))
        }
        Some(group) => Ok(group.clone()),
        None => {
            let there = names::instead(state.control_groups().map(Group::title), name);
            Err(Failure::input(format!("there is no group {name:?}; {there}")))
        }
    }
}

/// Returns the group that libvirt has made for a domain. libvirt makes one for each set of virtual CPUs that
/// the domain's XML limits.
///
/// # Errors
/// [`Failure::Input`] if there are several groups, of which one has to be named.
fn libvirts(state: &State, domain: &Identity) -> Outcome<Option<Group>> {
    let is_its = |group: &&Group| bandwidth::is_named(&group.name, domain);
    let mut its: Vec<&Group> = state.control_groups().filter(is_its).collect();
    if its.len() > 1 {
        let names: Vec<&str> = its.iter().map(|group| group.title()).collect();
        return Err(Failure::input(format!(
            "libvirt has made {} groups for {}, each for some of its virtual CPUs: {}; choose one with --group",
            names.len(),
            domain.name,
            names.join(", ")
        )));
    }
    Ok(its.pop().cloned())
}

/// Returns a note for each group that loses CPUs to the target's group.
fn losers(state: &State, cpus: &CpuSet, own: Option<&str>) -> Vec<String> {
    let lost = |group: &Group| {
        let lost = group.cpus.intersection(cpus);
        let note = format!("the group {} loses CPUs {lost} until 'manycore undo'", group.title());
        let is_own = own == Some(group.name.as_str());
        (group.role != Role::Default && !is_own && !lost.is_empty()).then_some(note)
    };
    state.groups.iter().filter_map(lost).collect()
}

/// Checks that one more group can be created, as far as the kernel reports the limits of the hardware.
fn check_room(args: &QosSet, state: &State) -> Outcome {
    if let Some(name) = args.name.as_deref().filter(|name| state.group(name).is_some()) {
        return Err(Failure::input(format!(
            "the group {name} exists already: change its limits with --group {name}, or choose another --name"
        )));
    }
    let there = state.control_groups().count();
    let all = state.groups.len();
    let full = match (state.offer.groups, state.offer.monitors) {
        (Some(most), _) if there >= most as usize => Some((there, "groups")),
        (_, Some(most)) if all >= most as usize => Some((all, "groups with monitors")),
        _ => None,
    };
    let Some((count, what)) = full else { return Ok(()) };
    Err(Failure::missing(format!(
        "the hardware has room for {count} {what}, including the default group, and there are {count}: remove one \
         (listed by 'manycore qos show'), or change an existing one with --group"
    )))
}

fn check_cpus(args: &QosSet, system: &SysTree, cpus: &CpuSet) -> Outcome {
    if args.target.cpus.is_none() {
        return Ok(());
    }
    let online =
        system.cpu_list("sys/devices/system/cpu/online").map_err(Failure::missing)?.unwrap_or_default();
    let absent = cpus.difference(&online);
    if cpus.is_empty() || !absent.is_empty() {
        let which = if cpus.is_empty() {
            "an empty list".to_owned()
        } else {
            format!("{} not online", absent.brief())
        };
        return Err(Failure::input(format!("--cpus {cpus}: {which}; online are {}", online.brief())));
    }
    Ok(())
}

/// Joins all reasons in one message. The failure is "missing" if the machine lacks any of the controls, else
/// "input".
fn refuse(refusals: &[Refusal]) -> Failure {
    let lacks = refusals.iter().any(|refusal| matches!(refusal, Refusal::Lacks(_)));
    let mut texts: Vec<&str> = refusals.iter().map(Refusal::text).collect();
    texts.dedup();
    let message = texts.join("; also, ");
    if lacks { Failure::missing(message) } else { Failure::input(message) }
}
