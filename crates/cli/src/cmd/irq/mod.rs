//! `manycore irq`: shows and sets the CPUs that handle the interrupts of devices.

mod place;
mod show;

use crate::{
    cli::{Irq, IrqVerb},
    failure::{Failure, Outcome},
};
use manycore_linux::interrupts::Interrupt;
use manycore_linux::interrupts::counts::{self, Counts};
use manycore_text::names;
use manycore_topology::Machine;
use manycore_topology::SysTree;

/// Shows or places interrupts.
pub fn run(args: &Irq) -> Outcome {
    match &args.verb {
        IrqVerb::Show(args) => show::run(args),
        IrqVerb::Place(args) => place::run(args),
    }
}

/// Returns the current counters.
fn counts(tree: &SysTree) -> Outcome<Counts> {
    counts::counts(tree).map_err(Failure::input)?.ok_or_else(|| {
        Failure::missing(format!(
            "{} has no readable proc/interrupts, which lists the interrupts",
            tree.name()
        ))
    })
}

/// Returns the interrupts of the device called `name`, by number.
fn of_device(all: Vec<Interrupt>, machine: &Machine, name: &str) -> Outcome<Vec<Interrupt>> {
    let device = machine.device(name);
    let known: Vec<String> = all.iter().flat_map(|one| one.names().map(str::to_owned)).collect();
    let is_meant = |one: &Interrupt| match device {
        Some(device) => one.device.as_ref() == Some(&device.address),
        None => one.is_named_after(name),
    };
    let mut found: Vec<Interrupt> = all.into_iter().filter(is_meant).collect();
    found.sort_by_key(|one| one.irq);
    if !found.is_empty() {
        return Ok(found);
    }
    Err(Failure::input(match device {
        Some(device) => format!(
            "{name} ({}, {}) has no interrupts in use",
            device.address,
            device.driver.as_deref().unwrap_or("no driver")
        ),
        None => {
            let known = machine.device_names().chain(known.iter().map(String::as_str));
            let near = match names::similar(known, name).join(", ") {
                none if none.is_empty() => "no device has interrupts here".to_owned(),
                near => format!("similar names: {near}"),
            };
            format!(
                "no PCI device is called {name:?}, and no interrupt is named after it; {near} ('manycore topo' lists \
                 all devices)"
            )
        }
    }))
}
