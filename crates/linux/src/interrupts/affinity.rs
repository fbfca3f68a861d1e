//! Reads which interrupts belong to a device, and reads and sets the CPUs that may handle them (`/proc/irq`,
//! `Documentation/core-api/irq/irq-affinity.rst`).

use crate::interrupts::{Interrupt, counts::InterruptCounts};
use manycore_topology::{CpuSet, Error, Machine, machine::Device, sys_tree::SysTree};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Returns the interrupts of devices among `counts`, in their order, with the number that each CPU took.
///
/// An interrupt belongs to the PCI device that lists it (`msi_irqs`, or `irq` if it has none), else to the
/// device that a handler is named after (`eth0`, `eth0-TxRx-3`).
///
/// # Errors
/// An affinity in the tree is not a CPU list.
pub fn read(tree: &SysTree, machine: &Machine, counts: &InterruptCounts) -> Result<Vec<Interrupt>, Error> {
    let owners = owners(tree, machine);
    let mut found = Vec::new();
    for row in &counts.rows {
        let Some(irq) = row.irq() else { continue };
        let interrupt = Interrupt { name: row.handlers.clone(), ..read_affinity(tree, irq)? };
        let is_its = |device: &&Device| device.names.iter().any(|name| interrupt.is_named_after(name));
        let device = owners.get(&irq).copied().or_else(|| machine.devices.iter().find(is_its));
        found.push(Interrupt {
            device: device.map(|device| device.address.clone()),
            device_names: device.map(|device| device.names.clone()).unwrap_or_default(),
            node: device.and_then(|device| device.node),
            counts: counts.by_cpu(row),
            ..interrupt
        });
    }
    Ok(found)
}

/// Reads the current affinity of one interrupt; the other fields are empty.
///
/// # Errors
/// The affinity is not a CPU list.
pub fn read_affinity(tree: &SysTree, irq: u32) -> Result<Interrupt, Error> {
    let folder = format!("proc/irq/{irq}");
    let allowed = format!("{folder}/smp_affinity_list");
    Ok(Interrupt {
        irq,
        unmovable: tree.is_read_only(&allowed) || is_unmovable_in_debugfs(tree, irq),
        allowed: tree.cpu_list(&allowed)?,
        handled_on: tree.cpu_list(&format!("{folder}/effective_affinity_list"))?,
        ..Interrupt::default()
    })
}

/// Returns the device that lists each interrupt. Of the devices that share a line, the first one with a name.
fn owners<'a>(tree: &SysTree, machine: &'a Machine) -> BTreeMap<u32, &'a Device> {
    let mut owners: BTreeMap<u32, &Device> = BTreeMap::new();
    for device in &machine.devices {
        for irq in of_device(tree, device) {
            let owner = owners.entry(irq).or_insert(device);
            if owner.names.is_empty() {
                *owner = device;
            }
        }
    }
    owners
}

/// Returns the interrupts of a device. `msi_irqs` holds a file per message-signalled interrupt; otherwise
/// `irq` is the interrupt line. The firmware assigns a line also to devices without a driver, which is
/// ignored.
fn of_device(tree: &SysTree, device: &Device) -> BTreeSet<u32> {
    let folder = format!("sys/bus/pci/devices/{}", device.address);
    let signalled: BTreeSet<u32> =
        tree.list(&format!("{folder}/msi_irqs")).iter().filter_map(|name| name.parse().ok()).collect();
    if !signalled.is_empty() || device.driver.is_none() {
        return signalled;
    }
    tree.number(&format!("{folder}/irq")).filter(|&irq| irq > 0).into_iter().collect()
}

/// Whether debugfs (`CONFIG_GENERIC_IRQ_DEBUGFS`) shows a flag of an interrupt that cannot be moved.
fn is_unmovable_in_debugfs(tree: &SysTree, irq: u32) -> bool {
    const FIXED: [&str; 3] = ["IRQD_AFFINITY_MANAGED", "IRQD_PER_CPU", "IRQD_NO_BALANCING"];
    let text = tree.read(&format!("sys/kernel/debug/irq/irqs/{irq}")).unwrap_or_default();
    text.split_whitespace().any(|word| FIXED.contains(&word))
}

/// Why an interrupt cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
    /// Its affinity is managed: the kernel distributes the queues of a device itself. EIO, since Linux 6.11
    /// EPERM.
    #[error("the kernel manages it, so it cannot be moved")]
    Managed,
    /// The file cannot be opened for writing.
    #[error("no permission to move interrupts: run it as root (sudo)")]
    NoRight,
    /// `/proc` is mounted read-only, as in a container.
    #[error("/proc is read-only here, as in a container: move it from the host")]
    ReadOnly,
    /// EINVAL.
    #[error("none of these CPUs is online")]
    Offline,
    /// ENOSPC.
    #[error("the CPUs have no interrupt vector left: choose more CPUs")]
    NoVector,
    /// The device is gone.
    #[error("the interrupt no longer exists")]
    Gone,
    /// Any other error.
    #[error("{0}")]
    Other(io::Error),
}

impl From<io::Error> for AffinityError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS) => Self::NoRight,
            Some(Errno::IO | Errno::PERM) => Self::Managed,
            Some(Errno::ROFS) => Self::ReadOnly,
            Some(Errno::INVAL) => Self::Offline,
            Some(Errno::NOSPC) => Self::NoVector,
            Some(Errno::NOENT) => Self::Gone,
            _ => Self::Other(error),
        }
    }
}

/// The affinity of an interrupt, opened for writing, so that a missing permission is found before any change.
#[derive(Debug)]
pub struct Affinity {
    file: File,
    path: PathBuf,
    old: String,
}

impl Affinity {
    /// Opens the affinity of `irq` in the tree at `root`.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open(root: &Path, irq: u32) -> Result<Self, AffinityError> {
        let path = root.join(format!("proc/irq/{irq}/smp_affinity_list"));
        let mut old = String::new();
        File::open(&path)?.read_to_string(&mut old)?;
        let file = OpenOptions::new().write(true).open(&path)?;
        Ok(Self { file, path, old: old.trim().to_owned() })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents at the time of opening, without the newline.
    pub fn old(&self) -> &str {
        &self.old
    }

    /// Writes `cpus`. The kernel moves the interrupt at once, or when it occurs next.
    ///
    /// # Errors
    /// Why the kernel refuses it.
    pub fn write(&mut self, cpus: &CpuSet) -> Result<(), AffinityError> {
        // In one call: the kernel treats each call as a setting of its own.
        self.file.write_all(cpus.to_string().as_bytes()).map_err(AffinityError::from)
    }
}

#[cfg(test)]
mod tests;
