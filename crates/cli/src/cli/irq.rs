//! The subcommand `irq`.

use super::{Format, value::duration};
use clap::Args;
use manycore_placement::Policy;
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// Show and bind the interrupts of devices
///
/// Shows which CPUs handle the interrupts of a device, and binds them to chosen CPUs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore irq show                                   the busiest interrupts, and the load of each CPU
  manycore irq show --device eth0 --budget 5s         the interrupts of one network card
  sudo manycore irq place --device eth0 --place near=eth0    one CPU each, near the card
  sudo manycore undo                                  restore the previous CPUs

A device is a PCI address (0000:03:00.0), a network interface (eth0), a disk (nvme0n1), or the name of an \
interrupt's handler (ttyS0).")]
pub struct Irq {
    #[command(subcommand)]
    pub subcommand: IrqSubcommand,
}

/// What to do with interrupts.
#[derive(Debug, clap::Subcommand)]
pub enum IrqSubcommand {
    Show(IrqShow),
    Place(IrqPlace),
}

/// Show interrupts and their CPUs
///
/// Shows the interrupts that occurred, the CPUs that may handle them and the CPUs that did.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore irq show                          all that occurred in one second, busiest first
  manycore irq show --device eth0            all of one device, also idle ones
  manycore irq show --all --budget 10s       also timers, inter-processor interrupts and the like
  manycore irq show --root host7             counts since boot, from copied files of another machine
  manycore irq show --format json | jq '.devices[] | select(.unmovable)'")]
pub struct IrqShow {
    /// Only interrupts of this device: PCI address, network interface, disk, or name of an interrupt
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// How long to count
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub budget: Duration,
    /// Also interrupts of the architecture: timers, inter-processor interrupts, TLB shootdowns
    #[arg(long)]
    pub all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Read the sysfs and procfs trees below DIR
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Bind the interrupts of a device to CPUs
///
/// The interrupts stay there until `manycore undo` restores the previous CPUs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore irq place --device eth0 --cpus 1           all of them on CPU 1
  manycore irq place --device eth0 --cpus 2-5         each on any of these: the kernel chooses
  manycore irq place --device eth0 --cpus 2-5 --one-each    distributed over these CPUs, one CPU each
  manycore irq place --device eth0 --place near=eth0+nosmt  one CPU each, on the cores next to the card

Needs root. The old CPUs are recorded before anything is changed. A change stays in force until `manycore undo` or a \
reboot. The kernel manages the interrupts of NVMe queues and of some other devices itself; these cannot be moved. Exit \
code 3 means that no interrupt could be moved.")]
pub struct IrqPlace {
    /// The device: PCI address, network interface, disk, or name of an interrupt
    #[arg(long, value_name = "NAME")]
    pub device: String,
    /// CPUs that may handle each of the interrupts
    #[arg(long, value_name = "LIST", required_unless_present = "place")]
    pub cpus: Option<CpuSet>,
    /// Distribute the CPUs of LIST over the interrupts, one CPU each
    #[arg(long, requires = "cpus")]
    pub one_each: bool,
    /// Distribute the CPUs of a placement over the interrupts: close, spread, near=DEVICE, each optionally
    /// +nosmt
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["cpus", "one_each"])]
    pub place: Option<Policy>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
