//! `manycore qos set`.

mod apply;
mod follow;
mod former;

use super::{files, ours, system};
use crate::{
    cli::{Format, QosSet},
    failure::{Failure, Outcome},
    output, placing,
    report::qos_text,
    signals::{self, Signals},
};
use apply::Job;
use manycore_host::{
    Tree,
    journal::Journal,
    libvirt::{Domains, Wanted},
    resctrl::{self, Missing, Refused},
    targets::{Members, Target},
};
use manycore_model::{
    CpuSet,
    domain::{bandwidth, usage::Identity},
    names,
    qos::{
        Group, Role, State,
        applied::{APPLIED_SCHEMA, Applied},
        schemata::Schemata,
        told::tell,
        translate::{Refusal, Write, translate},
    },
};
use std::path::Path;

/// Finds the target and what its limits are in this kernel's words; then makes or finds the group, writes, reads back
/// and moves the tasks, each change written down before it is made.
///
/// # Errors
/// [`Failure::Input`] for a target, group or value that is none; [`Failure::Missing`] where there is no such control
/// or right; [`Failure::Check`] where the kernel kept an old limit without a word. But for the last, nothing is
/// changed then.
pub fn run(args: &QosSet) -> Outcome {
    check_name(args.name.as_deref())?;
    if args.wish.wish().is_empty() {
        return Err(Failure::input(
            "nothing is asked for: name a limit, such as --bandwidth 50% or --cache l3=25% (qos show tells what can be set)",
        ));
    }
    let system = system()?;
    let mut mounted = None;
    if args.mount && !args.dry_run && resctrl::find(&system, None) == Err(Missing::NotMounted) {
        mounted = Some(mount(args)?);
    }
    let result = aimed(args, &system, &mut mounted);
    // What was mounted for nothing.
    if let Some(journal) = mounted {
        give_back(journal)?;
    }
    result
}

/// All but mounting. The journal of the mount is taken over by what is done to groups.
fn aimed(args: &QosSet, system: &Tree, mounted: &mut Option<Journal>) -> Outcome {
    let files = files(system, &args.resctrl)?;
    let state = files.state(&ours());
    let aim = aim(args, system, &state)?;
    if args.dry_run {
        return print(args.format, &foreseen(args, &state, &aim));
    }
    let signals = Signals::catch(&signals::ENDS)?;
    let journal = match mounted.take() {
        Some(journal) => journal,
        None => begin(args)?,
    };
    let name = aim.group.as_ref().map(|group| group.name.clone());
    let name = name.or_else(|| args.name.clone()).unwrap_or_else(|| named_after(&journal));
    let job = Job { files: &files, journal: &journal, name: &name, made: aim.group.is_none() };
    let applied = match job.apply(args, &aim) {
        Ok(applied) => applied,
        Err(refused) => {
            let failure = failure(&refused);
            give_back(journal)?;
            return Err(failure);
        }
    };
    if !signals.take().is_empty() {
        give_back(journal)?;
        return Err(Failure::Interrupted("interrupted; nothing is left changed".to_owned()));
    }
    if matches!(&aim.members, Some(members @ Members::Trees(_)) if members.tasks().is_empty()) {
        give_back(journal)?;
        let target = args.target.words();
        return Err(Failure::input(format!("{target}: it has ended meanwhile; nothing is left changed")));
    }
    let printed = print(args.format, &applied);
    if let Some(members) = aim.members.as_ref().filter(|_| args.follow) {
        let followed = match printed {
            Err(Failure::ReaderGone) => {
                Err(Failure::missing("nobody reads standard output any more; nothing is left changed"))
            }
            printed => printed.and_then(|()| follow::follow(&job, members, &signals)),
        };
        return give_back(journal).and(followed);
    }
    printed?;
    match applied.ignored().count() {
        0 => Ok(()),
        count => Err(Failure::Check(format!(
            "the kernel took {count} of {} limits without a word and kept what was in force; 'manycore undo {}' takes \
             all of it back",
            applied.limits.len(),
            journal.id()
        ))),
    }
}

/// What is to be done.
struct Aim {
    /// The group that is there already.
    group: Option<Group>,
    /// Whose tasks go into it.
    members: Option<Members>,
    /// CPUs that go into the new one.
    cpus: CpuSet,
    writes: Vec<Write>,
    notes: Vec<String>,
}

/// Finds out whether all of it can be had, before anything is changed.
fn aim(args: &QosSet, system: &Tree, state: &State) -> Outcome<Aim> {
    let target = args.target.target();
    let mut notes = Vec::new();
    let (group, members) = match (&args.target.group, &target) {
        (Some(name), _) => (Some(existing(state, name)?), None),
        (None, Some(Target::Domain(name))) => {
            let domain = Domains::new(system, Wanted::default()).find(name).map_err(Failure::input)?;
            match libvirts(state, &domain)? {
                Some(group) => (Some(group), None),
                None => {
                    let members = Members::Trees(vec![domain.pid]);
                    (former::group(args, system, state, Some(&members)), Some(members))
                }
            }
        }
        (None, Some(target)) => {
            let members = target.find().map_err(Failure::input)?;
            (former::group(args, system, state, Some(&members)), Some(members))
        }
        (None, None) => (former::group(args, system, state, None), None),
    };
    if let Some(group) =
        group.as_ref().filter(|_| members.is_some() || target.is_none() && args.target.group.is_none())
    {
        former::check_name(args, group)?;
        notes.push(format!(
            "the group {} was made for this target before: its limits are changed, and those that are not named stay",
            group.title()
        ));
    } else if let Some(group) = &group {
        if args.name.is_some() {
            return Err(Failure::input(format!(
                "--name: the group {} is there already and keeps its name",
                group.title()
            )));
        }
        if args.follow {
            return Err(Failure::input(format!(
                "--follow: nobody enters the group {}, which is there already, from elsewhere: leave --follow out",
                group.title()
            )));
        }
        if args.target.group.is_none() {
            notes.push(format!(
                "libvirt has made the group {} for it: the limits of that one are set",
                group.name
            ));
        }
    } else {
        check_room(args, state)?;
    }
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
            Err(Failure::input(format!("{name} only monitors: the limits are those of {control}")))
        }
        Some(group) => Ok(group.clone()),
        None => {
            let there = names::instead(state.control_groups().map(Group::title), name);
            Err(Failure::input(format!("there is no group {name:?}; {there}")))
        }
    }
}

/// The group that libvirt has made for a domain: it makes one for each set of virtual CPUs that its XML limits.
///
/// # Errors
/// [`Failure::Input`] where there are several: one has to be named.
fn libvirts(state: &State, domain: &Identity) -> Outcome<Option<Group>> {
    let is_its = |group: &&Group| bandwidth::is_named(&group.name, domain);
    let mut its: Vec<&Group> = state.control_groups().filter(is_its).collect();
    if its.len() > 1 {
        let names: Vec<&str> = its.iter().map(|group| group.title()).collect();
        return Err(Failure::input(format!(
            "libvirt has made {} groups for {}, of some virtual CPUs each: {}; name one of them with --group",
            names.len(),
            domain.name,
            names.join(", ")
        )));
    }
    Ok(its.pop().cloned())
}

/// Which groups lose CPUs to the one that is made or changed.
fn losers(state: &State, cpus: &CpuSet, own: Option<&str>) -> Vec<String> {
    let lost = |group: &Group| {
        let lost = group.cpus.intersection(cpus);
        let note = format!("the group {} is without CPUs {lost} until undo", group.title());
        let is_own = own == Some(group.name.as_str());
        (group.role != Role::Default && !is_own && !lost.is_empty()).then_some(note)
    };
    state.groups.iter().filter_map(lost).collect()
}

/// A name that the kernel takes as a folder and that no tool mistakes for another.
fn check_name(name: Option<&str>) -> Outcome {
    let Some(name) = name else { return Ok(()) };
    let why = match name {
        "" => "it is empty",
        "info" | "mon_data" | "mon_groups" => "the kernel has a folder of that name",
        "tasks" | "schemata" | "cpus" | "cpus_list" | "mode" | "size" => "the kernel has a file of that name",
        _ if name.contains('/') => "groups with limits stand side by side, so there is no '/' in their names",
        _ if name.starts_with('.') => "it begins with a dot",
        _ if name.starts_with("qemu-") => "libvirt calls its groups so",
        _ if name.len() > 200 => "it is longer than 200 letters",
        _ if name.chars().any(|letter| letter.is_whitespace() || letter.is_control()) => "it holds a blank",
        _ => return Ok(()),
    };
    Err(Failure::input(format!("--name {name:?}: {why}")))
}

/// Whether there is room for one more group, as far as the kernel tells.
fn check_room(args: &QosSet, state: &State) -> Outcome {
    if let Some(name) = args.name.as_deref().filter(|name| state.group(name).is_some()) {
        return Err(Failure::input(format!(
            "the group {name} is there already: --group {name} changes its limits, another --name makes one more"
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
        "the hardware has room for {count} {what}, the default one included, and there are {count}: remove one \
         (manycore qos show lists them), or change one (--group)"
    )))
}

fn check_cpus(args: &QosSet, system: &Tree, cpus: &CpuSet) -> Outcome {
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

/// All reasons in one message: what the machine lacks weighs more than what was written wrongly.
fn refuse(refusals: &[Refusal]) -> Failure {
    let lacks = refusals.iter().any(|refusal| matches!(refusal, Refusal::Lacks(_)));
    let mut texts: Vec<&str> = refusals.iter().map(Refusal::text).collect();
    texts.dedup();
    let message = texts.join("; also, ");
    if lacks { Failure::missing(message) } else { Failure::input(message) }
}

fn failure(refused: &Refused) -> Failure {
    let message = format!("{refused}; nothing is left changed");
    match refused {
        Refused::Exists(_) | Refused::Gone(_) => Failure::input(message),
        _ => Failure::missing(message),
    }
}

/// What a journal says that was asked for.
fn asked(args: &QosSet) -> String {
    format!("qos set {}", args.target.words())
}

fn begin(args: &QosSet) -> Outcome<Journal> {
    let what = asked(args);
    let folder = manycore_host::journal::folder();
    Journal::begin(&folder, "qos", &what, !args.follow).map_err(|error| {
        Failure::missing(format!(
            "cannot write a journal in {}: {error}; nothing was changed",
            folder.display()
        ))
    })
}

fn mount(args: &QosSet) -> Outcome<Journal> {
    let journal = begin(args)?;
    match resctrl::mount(&journal, Path::new(resctrl::DEFAULT)) {
        Ok(()) => Ok(journal),
        Err(refused) => {
            journal.close();
            Err(failure(&refused))
        }
    }
}

/// Takes back what was done, and tells where that is not possible.
pub(super) fn give_back(journal: Journal) -> Outcome {
    let id = journal.id();
    let restored = journal
        .take_back()
        .map_err(|error| Failure::missing(format!("cannot read our journal {id}: {error}")))?;
    placing::told(&restored, &id, false)
}

/// `manycore-812`, of the journal `qos-812`.
fn named_after(journal: &Journal) -> String {
    let id = journal.id();
    format!("manycore-{}", id.strip_prefix("qos-").unwrap_or(&id))
}

/// What would be done.
fn foreseen(args: &QosSet, state: &State, aim: &Aim) -> Applied {
    let before = aim.group.as_ref().map(|group| &group.schemata);
    Applied {
        schema: APPLIED_SCHEMA.to_owned(),
        target: args.target.words(),
        group: aim.group.as_ref().map(|group| group.title().to_owned()).or_else(|| args.name.clone()),
        made: aim.group.is_none(),
        dialect: state.offer.dialect,
        tasks: aim.members.as_ref().map_or(0, |members| members.tasks().len()),
        cpus: aim.cpus.clone(),
        limits: aim.writes.iter().flat_map(|write| tell(write, before, None, &state.offer)).collect(),
        notes: aim.notes.clone(),
        journal: None,
        offer: state.offer.clone(),
    }
}

fn print(format: Format, applied: &Applied) -> Outcome {
    match format {
        Format::Text => output::print(&qos_text::applied(applied)),
        Format::Json => output::print(&output::json(applied)?),
    }
}
