//! The verb `vm`.

use super::{Format, Source, audit::interval};
use clap::{Args, Subcommand, ValueEnum};
use manycore_placement::{Policy, Reserve};
use manycore_vm::domain::{CacheWish, Version};
use std::{path::PathBuf, time::Duration};

/// Make libvirt's virtual machines know the hardware that they run on, and check that they do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore vm list                                    which domains run here
  manycore vm top                                     what they use: CPU, time in the guest, waiting, memory
  manycore vm plan web1.xml --out web1-planned.xml    pins, nodes, topology, caches and devices for this host
  virsh define web1-planned.xml                       nothing is applied before
  manycore vm check web1                              does the running domain have what its XML says?
  manycore vm check --guest --plan web1-planned.xml   the same, asked in the guest")]
pub struct Vm {
    #[command(subcommand)]
    pub verb: VmVerb,
}

/// What to do with virtual machines.
#[derive(Debug, Subcommand)]
pub enum VmVerb {
    List(VmList),
    Top(VmTop),
    Plan(Box<VmPlan>),
    Check(VmCheck),
}

/// List the virtual machines that run here, whoever started them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore vm list
  sudo manycore vm list --numa               also each one's memory by node, which takes a while
  manycore vm list --format json | jq -r '.domains[] | [.name, .pid] | @tsv'

A virtual machine is a process of QEMU (qemu-system-*, qemu-kvm); its name is the whole of -name guest=NAME.")]
pub struct VmList {
    /// Also the memory by node: the kernel looks at each page, so that large ones take seconds
    #[arg(long)]
    pub numa: bool,
    /// Read /proc, /sys and /run below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Watch what running virtual machines use, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore vm top                                   busiest first, each second, drawn anew on a terminal
  manycore vm top --vcpus                           a line for each virtual CPU, with the CPU that it is on
  manycore vm top --sort wait                       who waits most for a CPU
  sudo manycore vm top --sort bandwidth             who moves most to and from memory
  manycore vm top --interval 5s --count 12 --format json >minute.jsonl

  cpu     time on CPUs in percent of one CPU, all threads of the emulator
  guest   part of it in the guest; the rest is the emulator's and the kernel's work for it
  sys     part of it in the host's kernel
  wait    time that virtual CPUs were ready and did not run, summed over them: the guest sees it as steal
  switch  context switches of virtual CPUs in a second
  exits   exits of virtual CPUs in a second, where debugfs may be read (root)
  memory  what it has from the host, huge pages included
  traffic to and from memory, and by node: where resctrl is mounted and a group is the domain's own, as those of
          libvirt (memorytune, cachetune, monitors) and of 'manycore qos set --domain' are

'-' is a figure that is not known; below the table stands why. state: running, paused, where libvirt's notes may be read")]
pub struct VmTop {
    /// Time between looks, 100ms or more
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// End after so many looks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// A line for each virtual CPU
    #[arg(long)]
    pub vcpus: bool,
    /// Also the memory by node: the kernel looks at each page, so that large ones take seconds
    #[arg(long)]
    pub numa: bool,
    /// What comes first
    #[arg(long, value_enum, default_value_t = VmOrder::Cpu)]
    pub sort: VmOrder,
    /// Add each look to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// How to print it; json is one object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The mounted resctrl file system [default: where it is mounted, if it is]
    #[arg(long, value_name = "DIR")]
    pub resctrl: Option<PathBuf>,
    /// Read /proc, /sys and /run below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// What domains are ordered by: figures from the highest down, names and processes upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VmOrder {
    /// Time on CPUs.
    Cpu,
    /// Time in the guest.
    Guest,
    /// Time in the kernel.
    Sys,
    /// Waiting for CPUs.
    Wait,
    /// Context switches.
    Switch,
    /// Memory.
    Memory,
    /// To and from memory.
    Bandwidth,
    /// Name.
    Name,
    /// Process.
    Pid,
}

/// Change a domain's XML so that its guest knows the hardware it runs on; shown as a diff, applied by nobody.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  virsh dumpxml --inactive web1 > web1.xml
  manycore vm plan web1.xml                           what would change, as a diff (patch reads it)
  manycore vm plan web1.xml --out planned.xml         the whole XML, for virsh define; --out - prints it
  manycore vm plan web1.xml --machine host7.machine --policy spread --reserve 2
  manycore vm plan web1.xml --bandwidth 40 --cache l3=50%
  manycore vm plan web1.xml --dialect openeuler --bandwidth 60 --min-bandwidth 10 --priority 2
  manycore vm plan web1.xml --format json             what the guest gets, for vm check --plan

Each virtual CPU is pinned by the policy; the guest gets a NUMA node for each of the host's that it is on, with
their distances and memory from there, the topology (clusters where its QEMU and libvirt take them), the host's caches,
and an expander bus on each node with the passed-through devices of that node behind it. The emulator and I/O
threads get the reserve, or the CPUs of these nodes. All else in the XML stays byte for byte. What could not be
planned is told on standard error.")]
pub struct VmPlan {
    /// The domain, as virsh dumpxml prints it; - reads standard input
    #[arg(value_name = "DOMAIN.xml")]
    pub domain: PathBuf,
    #[command(flatten)]
    pub source: Source,
    /// Where virtual CPUs run: close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE,
    /// free, each optionally +nosmt
    #[arg(long, value_name = "PLACE", default_value = "close", alias = "place")]
    pub policy: Policy,
    /// CPUs that no virtual CPU gets, for the emulator and I/O threads: how many, or cpus=LIST
    #[arg(long, value_name = "RESERVE", default_value = "0")]
    pub reserve: Reserve,
    /// Let virtual CPUs share CPUs where there is not one for each
    #[arg(long)]
    pub overcommit: bool,
    /// Whose libvirt reads the XML
    #[arg(long, value_enum, default_value_t = VmDialect::Upstream)]
    pub dialect: VmDialect,
    /// Version of the QEMU that will run it [default: ask the one that is installed here]
    #[arg(long, value_name = "VERSION")]
    pub qemu: Option<Version>,
    /// Version of the libvirt that will read the XML [default: ask the virsh that is installed here]
    #[arg(long, value_name = "VERSION")]
    pub libvirt: Option<Version>,
    /// Make the CPU mode host-passthrough, which passing through the caches needs
    #[arg(long)]
    pub host_passthrough: bool,
    /// Most of the memory bandwidth, in percent (memorytune); AMD's CPUs have no percent of it
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub bandwidth: Option<u8>,
    /// Least of it, in percent; openEuler
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub min_bandwidth: Option<u8>,
    /// Whether the limit holds also while nobody else wants the memory; openEuler
    #[arg(long, value_name = "on|off", value_parser = super::on_or_off)]
    pub hardlimit: Option<bool>,
    /// Whose accesses go first, 7 before 0; openEuler
    #[arg(long, value_name = "0..7", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: Option<u8>,
    /// Part of each L3 (cachetune): l3=50%, l3=4ways, l3=8MiB; or l3code= and l3data=
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub cache: Vec<CacheWish>,
    /// Write the whole XML to FILE instead of the diff; - is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Whose libvirt reads the XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VmDialect {
    /// That of libvirt.org.
    Upstream,
    /// openEuler's, which takes nodes in hostdev and more in memorytune.
    #[value(name = "openeuler")]
    OpenEuler,
}

/// Check that a running domain, or the guest that this runs in, has what its XML or plan says.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo manycore vm check web1                         threads, memory and devices of a running domain
  sudo manycore vm check web1 --plan planned.xml      against a plan instead of its own XML
  manycore vm check --guest                           in a guest: nodes, topology, caches, nodes of devices
  manycore vm check --guest --plan planned.xml        and whether they are as planned

A plan is a domain's XML or the JSON of vm plan. One file of this program is enough in a guest. The exit code is
1 where something is not as planned. Memory of other users' domains can be looked at with their rights, or root's.")]
pub struct VmCheck {
    /// Name, id or UUID of a running domain
    #[arg(value_name = "DOMAIN", required_unless_present = "guest", conflicts_with = "guest")]
    pub domain: Option<String>,
    /// Check what this machine, a guest, sees
    #[arg(long)]
    pub guest: bool,
    /// What should be: XML of a domain, or JSON of vm plan [default: the domain's own XML]
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Libvirt to ask [default: virsh's own choice]
    #[arg(long, value_name = "URI", conflicts_with = "guest")]
    pub connect: Option<String>,
    #[command(flatten)]
    pub source: Source,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
