//! The interrupts of a device.

use crate::error::{Error, Result};
use manycore_linux::interrupts::{
    Interrupt,
    counts::{self, InterruptCounts},
};
use manycore_text::names;
use manycore_topology::{Machine, SysTree};

/// Returns the current counters.
pub(crate) fn counts(tree: &SysTree) -> Result<InterruptCounts> {
    counts::counts(tree)?.ok_or_else(|| Error::NoCounters(tree.name().to_string()))
}

/// Returns the interrupts of the device called `name`, by number.
pub(crate) fn of_device(all: Vec<Interrupt>, machine: &Machine, name: &str) -> Result<Vec<Interrupt>> {
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
    Err(match device {
        Some(device) => Error::NoInterrupts {
            name: name.to_owned(),
            address: device.address.clone(),
            driver: device.driver.clone().unwrap_or_else(|| "no driver".to_owned()),
        },
        None => {
            let known = machine.device_names().chain(known.iter().map(String::as_str));
            let near = match names::similar(known, name).join(", ") {
                none if none.is_empty() => "no device has interrupts here".to_owned(),
                near => format!("similar names: {near}"),
            };
            Error::NoDevice { name: name.to_owned(), near }
        }
    })
}
