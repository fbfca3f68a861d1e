//! Which interrupts belong to a device, and which CPUs may handle them (`/proc/irq`,
//! `Documentation/core-api/irq/irq-affinity.rst`).

use crate::interrupts::Interrupt;
use crate::interrupts::counts::Counts;
use manycore_topology::{CpuSet, Machine, machine::Device};
use manycore_topology::{read::ReadError, tree::Tree};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The devices' interrupts among `counts`, in their order, with what the CPUs took.
///
/// An interrupt belongs to the PCI device that lists it (`msi_irqs`, or `irq` where it has none), or else to the
/// one that an action is named after (`eth0`, `eth0-TxRx-3`).
///
/// # Errors
/// An affinity in the tree is no CPU list.
pub fn read(tree: &Tree, machine: &Machine, counts: &Counts) -> Result<Vec<Interrupt>, ReadError> {
    let owners = owners(tree, machine);
    let mut found = Vec::new();
    for row in &counts.rows {
        let Some(irq) = row.irq() else { continue };
        let interrupt = Interrupt { name: row.what.clone(), ..setting(tree, irq)? };
        let is_its = |device: &&Device| device.names.iter().any(|name| interrupt.is_named_after(name));
        let device = owners.get(&irq).copied().or_else(|| machine.devices.iter().find(is_its));
        found.push(Interrupt {
            device: device.map(|device| device.address.clone()),
            device_names: device.map(|device| device.names.clone()).unwrap_or_default(),
            node: device.and_then(|device| device.node),
            taken: counts.taken(row),
            ..interrupt
        });
    }
    Ok(found)
}

/// What the kernel says now about the affinity of one interrupt; the rest is empty.
///
/// # Errors
/// It is no CPU list.
pub fn setting(tree: &Tree, irq: u32) -> Result<Interrupt, ReadError> {
    let folder = format!("proc/irq/{irq}");
    let allowed = format!("{folder}/smp_affinity_list");
    Ok(Interrupt {
        irq,
        fixed: tree.is_read_only(&allowed) || debug_says_fixed(tree, irq),
        allowed: tree.cpu_list(&allowed)?,
        handled_on: tree.cpu_list(&format!("{folder}/effective_affinity_list"))?,
        ..Interrupt::default()
    })
}

/// The device that lists each interrupt. On a line that several share, the first one that has a name.
fn owners<'a>(tree: &Tree, machine: &'a Machine) -> BTreeMap<u32, &'a Device> {
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

/// `msi_irqs` holds a file for each message-signalled interrupt; `irq` is the line that the device has otherwise,
/// which the firmware chooses also for a device that nobody drives.
fn of_device(tree: &Tree, device: &Device) -> BTreeSet<u32> {
    let folder = format!("sys/bus/pci/devices/{}", device.address);
    let signalled: BTreeSet<u32> =
        tree.list(&format!("{folder}/msi_irqs")).iter().filter_map(|name| name.parse().ok()).collect();
    if !signalled.is_empty() || device.driver.is_none() {
        return signalled;
    }
    tree.number(&format!("{folder}/irq")).filter(|&irq| irq > 0).into_iter().collect()
}

/// Whether debugfs (`CONFIG_GENERIC_IRQ_DEBUGFS`) shows a flag that keeps everybody from moving it.
fn debug_says_fixed(tree: &Tree, irq: u32) -> bool {
    const FIXED: [&str; 3] = ["IRQD_AFFINITY_MANAGED", "IRQD_PER_CPU", "IRQD_NO_BALANCING"];
    let text = tree.read(&format!("sys/kernel/debug/irq/irqs/{irq}")).unwrap_or_default();
    text.split_whitespace().any(|word| FIXED.contains(&word))
}

/// Why an interrupt stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its affinity is managed: the kernel spreads the queues of a device itself. EIO, since Linux 6.11 EPERM.
    #[error("the kernel manages it and lets nobody move it")]
    Fixed,
    /// The file cannot be opened for writing.
    #[error("no right to move interrupts: root may (sudo)")]
    NoRight,
    /// `/proc` is mounted read-only, as in a container.
    #[error("/proc is read-only here, as in a container: move it from the host")]
    ReadOnly,
    /// EINVAL.
    #[error("the kernel finds none of these CPUs online")]
    Offline,
    /// ENOSPC.
    #[error("the CPUs have no interrupt vector left: name more CPUs")]
    NoVector,
    /// The device has gone.
    #[error("it is gone")]
    Gone,
    /// Anything else.
    #[error("{0}")]
    Other(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS) => Self::NoRight,
            Some(Errno::IO | Errno::PERM) => Self::Fixed,
            Some(Errno::ROFS) => Self::ReadOnly,
            Some(Errno::INVAL) => Self::Offline,
            Some(Errno::NOSPC) => Self::NoVector,
            Some(Errno::NOENT) => Self::Gone,
            _ => Self::Other(error),
        }
    }
}

/// The affinity of an interrupt, open for writing: that it may be changed is known before anything is.
#[derive(Debug)]
pub struct Affinity {
    file: File,
    path: PathBuf,
    old: String,
}

impl Affinity {
    /// Opens that of `irq` in the tree at `root`.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open(root: &Path, irq: u32) -> Result<Self, Refusal> {
        let path = root.join(format!("proc/irq/{irq}/smp_affinity_list"));
        let mut old = String::new();
        File::open(&path)?.read_to_string(&mut old)?;
        let file = OpenOptions::new().write(true).open(&path)?;
        Ok(Self { file, path, old: old.trim().to_owned() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says, without the newline.
    pub fn old(&self) -> &str {
        &self.old
    }

    /// Writes `cpus`. The kernel moves the interrupt at once, or when it comes next.
    ///
    /// # Errors
    /// Why it does not.
    pub fn write(&mut self, cpus: &CpuSet) -> Result<(), Refusal> {
        // In one call: each is a setting of its own to the kernel.
        self.file.write_all(cpus.to_string().as_bytes()).map_err(Refusal::from)
    }
}

#[cfg(test)]
mod tests;
