//! The verb `irq`.

use super::{Format, measure::time};
use clap::{Args, Subcommand};
use manycore_placement::Policy;
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// Show which CPUs handle the interrupts of a device, and bind them to CPUs of your choice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore irq show                                   the busiest interrupts, and what each CPU takes
  manycore irq show --device eth0 --for 5s            those of one network card
  sudo manycore irq place --device eth0 --place near=eth0    one CPU each, next to the card
  sudo manycore undo                                  all as before

A device is a PCI address (0000:03:00.0), a network interface (eth0), a disk (nvme0n1), or the name under which
an interrupt is handled (ttyS0).")]
pub struct Irq {
    #[command(subcommand)]
    pub verb: IrqVerb,
}

/// What to do with interrupts.
#[derive(Debug, Subcommand)]
pub enum IrqVerb {
    Show(IrqShow),
    Place(IrqPlace),
}

/// Show whose interrupts came, where they may be handled and which CPUs took them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore irq show                          all that came in one second, busiest first
  manycore irq show --device eth0            all of one device, also those that did not come
  manycore irq show --all --for 10s          also timers, calls between CPUs and the like
  manycore irq show --root host7             of another machine's files: since its start
  manycore irq show --format json | jq '.devices[] | select(.fixed)'")]
pub struct IrqShow {
    /// Only those of this device: PCI address, network interface, disk, or name of the interrupt
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// How long to count
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = time)]
    pub time: Duration,
    /// Also those of the architecture: timers, calls between CPUs, TLB shootdowns
    #[arg(long)]
    pub all: bool,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Read the sysfs and procfs trees below DIR
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Bind all interrupts of a device to CPUs, until `manycore undo` takes it back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore irq place --device eth0 --cpus 1           all of them on CPU 1
  manycore irq place --device eth0 --cpus 2-5         each on any of these: the kernel chooses
  manycore irq place --device eth0 --cpus 2-5 --spread      dealt to these CPUs, one CPU each
  manycore irq place --device eth0 --place near=eth0+nosmt  one CPU each, on the cores next to the card

Needs root. What is changed is written down first; it stays in force until `manycore undo`, or a restart. Queues
of NVMe disks and of some others are managed by the kernel, which lets nobody move them. Exit code 3 means that
none could be moved.")]
pub struct IrqPlace {
    /// Whose: PCI address, network interface, disk, or name of the interrupt
    #[arg(long, value_name = "NAME")]
    pub device: String,
    /// CPUs that may handle each of the interrupts
    #[arg(long, value_name = "LIST", required_unless_present = "place")]
    pub cpus: Option<CpuSet>,
    /// Deal the CPUs of LIST to the interrupts, one each
    #[arg(long, requires = "cpus")]
    pub spread: bool,
    /// Deal the CPUs of a placement to the interrupts: close, spread, near=DEVICE, each optionally +nosmt
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["cpus", "spread"])]
    pub place: Option<Policy>,
    /// How to print what was done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
