//! `manycore vm check`: compares a running domain, or the guest this program runs in, with its plan.

use crate::{
    cli::{Format, VmCheck as Args},
    failure::{Failure, Outcome},
    load, output, source,
};
use manycore_linux::{
    targets::TargetError,
    vms::{Domains, Wanted},
};
use manycore_topology::SysTree;
use manycore_vm::domain::{
    self, Guest,
    check::{Check, of_guest, of_running},
};
use manycore_vm::libvirt::{self, VirshError};
use manycore_vm::text;
use std::path::Path;

/// Prints the planned and the found values of each property.
///
/// # Errors
/// [`Failure::Check`] if something differs from the plan; [`Failure::Input`] if there is no such domain or it
/// does not run; [`Failure::Missing`] if libvirt cannot be reached or the process cannot be read.
pub fn run(args: &Args) -> Outcome {
    let plan = args.plan.as_deref().map(load::guest).transpose()?;
    let (check, unseen) = match &args.domain {
        Some(name) => of_domain(args, name, plan)?,
        None => (of_guest(plan.as_ref(), &source::machine(&args.source)?), None),
    };
    output::print(&match args.format {
        Format::Text => text::check(&check),
        Format::Json => {
            let mut value = serde_json::to_value(&check).map_err(Failure::missing)?;
            value["holds"] = check.holds().into();
            format!("{value:#}\n")
        }
    })?;
    let (judged, right) = check.count();
    if !check.holds() {
        let wrong = judged - right;
        return Err(Failure::Check(format!("{}: {wrong} of {judged} differ from the plan", check.of)));
    }
    unseen.map_or(Ok(()), |why| Err(Failure::Missing(why)))
}

/// Returns the check of a running domain, and a text about what could not be read.
fn of_domain(args: &Args, name: &str, plan: Option<Guest>) -> Outcome<(Check, Option<String>)> {
    let (guest, uuid) = match plan {
        Some(plan) => (plan, None),
        None => own_xml(args, name)?,
    };
    let machine = source::machine(&args.source)?;
    let tree = SysTree::open(Path::new("/")).map_err(Failure::missing)?;
    let domain =
        Domains::new(&tree, Wanted::default()).find(uuid.as_deref().unwrap_or(name)).map_err(|error| {
            // The message names the domain as the user did, not by the UUID that libvirt has for it.
            let error = match error {
                TargetError::NotFound { what, near, .. } => {
                    TargetError::NotFound { what, name: name.to_owned(), near }
                }
                other => other,
            };
            Failure::input(format!("{error}; if it is defined but not running, start it: virsh start {name}"))
        })?;
    let running = libvirt::running(domain.pid).ok_or_else(|| {
        let pid = domain.pid;
        Failure::input(format!(
            "threads of domain '{name}' (pid {pid}) have no names, so that virtual CPUs cannot be identified: start \
             QEMU with -name {name},debug-threads=on, as libvirt does"
        ))
    })?;
    let guest = Guest { name: domain.name, ..guest };
    let unseen = (guest.is_bound() && running.memory.is_none()).then(|| {
        format!("the memory of domain '{name}' (pid {}) cannot be read: try again as root", running.pid)
    });
    Ok((of_running(&guest, &running, &machine), unseen))
}

/// Returns the domain as libvirt has it, and its UUID.
fn own_xml(args: &Args, name: &str) -> Outcome<(Guest, Option<String>)> {
    let xml = libvirt::dumpxml(args.connect.as_deref(), name).map_err(|error| match error {
        VirshError::NoDomain(_) => Failure::input(error),
        VirshError::Absent(_) => {
            Failure::missing(format!("{error}, or give the XML or plan of the domain with --plan"))
        }
        error => Failure::missing(error),
    })?;
    let bad = |error| Failure::input(format!("domain '{name}' cannot be checked: {error}"));
    Ok((xml.parse().map_err(bad)?, domain::uuid(&xml).map_err(bad)?))
}
