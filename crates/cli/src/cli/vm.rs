//! The subcommand `vm`.

use super::{
    Format, Source,
    value::{interval, whole_percent},
};
use clap::{Args, ValueEnum};
use manycore_placement::{Policy, Reserve};
use manycore_vm::domain::{CacheShareRequest, Version};
use std::{path::PathBuf, time::Duration};

/// Watch, plan and check virtual machines
///
/// Shows virtual machines and their usage, plans libvirt domains for the host's topology, and checks them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore vm list                                    the virtual machines that run on this host
  manycore vm top                                     what they use: CPU, time in the guest, waiting, memory
  manycore vm plan web1.xml --xml web1-planned.xml    pins, nodes, topology, caches and devices for this host
  virsh define web1-planned.xml                       apply the plan; manycore itself changes nothing
  manycore vm check web1                              does the running domain match its XML?
  manycore vm check --guest --plan web1-planned.xml   the same check, run inside the guest")]
pub struct Vm {
    #[command(subcommand)]
    pub subcommand: VmSubcommand,
}

/// What to do with virtual machines.
#[derive(Debug, clap::Subcommand)]
pub enum VmSubcommand {
    List(VmList),
    Top(VmTop),
    Plan(Box<VmPlan>),
    Check(VmCheck),
}

/// List running virtual machines
///
/// Lists the virtual machines that run on this host, whether or not libvirt started them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore vm list
  sudo manycore vm list --numa               also the memory of each by NUMA node (slow)
  manycore vm list --format json | jq -r '.domains[] | [.name, .pid] | @tsv'

A virtual machine is a process of QEMU (qemu-system-*, qemu-kvm). Its name is NAME in the option -name guest=NAME.")]
pub struct VmList {
    /// Also show the memory by NUMA node. The kernel walks every page: large machines take seconds
    #[arg(long)]
    pub numa: bool,
    /// Read /proc, /sys and /run below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Watch what virtual machines use
///
/// Watches what running virtual machines use, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore vm top                                   busiest first, updated in place each second on a terminal
  manycore vm top --vcpus                           a line for each virtual CPU, with the CPU it runs on
  manycore vm top --sort wait                       longest wait for a CPU first
  sudo manycore vm top --sort bandwidth             highest memory traffic first
  manycore vm top --interval 5s --count 12 --format json >minute.jsonl

  cpu      CPU time in percent of one CPU, all threads of the emulator
  guest    the part of it spent in the guest; the rest is work of the emulator and the kernel for the guest
  sys      the part of it spent in the host's kernel
  wait     time that virtual CPUs were ready but not running, summed over them; the guest sees it as steal
  switch   context switches of virtual CPUs per second
  exits    VM exits of virtual CPUs per second; needs a readable debugfs (root)
  memory   memory of the host that the virtual machine uses, huge pages included
  traffic  memory traffic, in total and by NUMA node. It needs a mounted resctrl and a resctrl group that holds only \
this domain. libvirt (memorytune, cachetune, monitors) and 'manycore qos set --domain' create such groups

'-' marks an unknown figure; the reason is printed below the table. state (running, paused) needs readable files \
of libvirt in /run.")]
pub struct VmTop {
    /// Time between readings, 100ms or more
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Stop after N readings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Show a line for each virtual CPU
    #[arg(long)]
    pub vcpus: bool,
    /// Also show the memory by NUMA node. The kernel walks every page: large machines take seconds
    #[arg(long)]
    pub numa: bool,
    /// Column to sort by
    #[arg(long, value_enum, default_value_t = VmOrder::Cpu)]
    pub sort: VmOrder,
    /// Append each reading to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Output format; json prints one object per line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Mount point of the resctrl file system [default: detected]
    #[arg(long, value_name = "DIR")]
    pub resctrl: Option<PathBuf>,
    /// Read /proc, /sys and /run below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Sort key of domains: figures in descending order, names and process ids in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VmOrder {
    /// CPU time.
    Cpu,
    /// Time in the guest.
    Guest,
    /// Time in the host's kernel.
    Sys,
    /// Time that virtual CPUs waited for a CPU.
    Wait,
    /// Context switches.
    Switch,
    /// Memory of the host.
    Memory,
    /// Memory traffic.
    Bandwidth,
    /// Name of the virtual machine.
    Name,
    /// Process id.
    Pid,
}

/// Adapt the XML of a domain to the host
///
/// Adapts a domain's XML to the host's hardware and prints the change as a diff. Applies nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  virsh dumpxml --inactive web1 > web1.xml
  manycore vm plan web1.xml                           print the changes as a diff, for patch
  manycore vm plan web1.xml --xml planned.xml         write the whole XML, for virsh define; --xml - prints it
  manycore vm plan web1.xml --machine host7.machine --place spread --reserve 2
  manycore vm plan web1.xml --bandwidth 40% --cache l3=50%
  manycore vm plan web1.xml --dialect openeuler --bandwidth 60% --min-bandwidth 10% --priority 2
  manycore vm plan web1.xml --format json             print what the guest gets, for vm check --plan

The placement pins each virtual CPU to a CPU. The guest gets a NUMA node for each host node that its virtual CPUs run \
on, with the distances of the host and memory from that node. It gets the topology (with clusters if QEMU and \
libvirt support them) and the host's caches. Passed-through devices move behind an expander bus of their own NUMA \
node. The emulator and I/O threads run on the reserve, or else on the CPUs of these nodes. Everything else in the XML \
stays byte for byte the same. Notes on standard error report what could not be planned.")]
pub struct VmPlan {
    /// Domain XML, as virsh dumpxml prints it; - reads standard input
    #[arg(value_name = "DOMAIN.xml")]
    pub domain: PathBuf,
    #[command(flatten)]
    pub source: Source,
    /// Placement of virtual CPUs: close, spread, spread@core|cluster|llc|node|package, cpus=LIST,
    /// near=DEVICE, free, each optionally +nosmt
    #[arg(long, value_name = "PLACE", default_value = "close")]
    pub place: Policy,
    /// CPUs kept free of virtual CPUs, for the emulator and I/O threads: a number of CPUs, or cpus=LIST
    #[arg(long, value_name = "RESERVE", default_value = "0")]
    pub reserve: Reserve,
    /// Let virtual CPUs share CPUs if there are fewer CPUs than virtual CPUs
    #[arg(long)]
    pub overcommit: bool,
    /// The libvirt that will read the XML
    #[arg(long, value_enum, default_value_t = VmDialect::Upstream)]
    pub dialect: VmDialect,
    /// Version of the QEMU that will run the domain [default: the version installed here]
    #[arg(long, value_name = "VERSION")]
    pub qemu: Option<Version>,
    /// Version of the libvirt that will read the XML [default: the version of the virsh installed here]
    #[arg(long, value_name = "VERSION")]
    pub libvirt: Option<Version>,
    /// Set the CPU mode to host-passthrough, which passing through the caches requires
    #[arg(long)]
    pub host_passthrough: bool,
    /// Maximum memory bandwidth, in percent (memorytune). Not available on AMD, where the limit is not in
    /// percent
    #[arg(long, value_name = "SHARE", value_parser = whole_percent::<1>)]
    pub bandwidth: Option<u8>,
    /// Minimum memory bandwidth, in percent (openEuler)
    #[arg(long, value_name = "SHARE", value_parser = whole_percent::<0>)]
    pub min_bandwidth: Option<u8>,
    /// Whether the bandwidth limit also applies while memory bandwidth is idle (openEuler)
    #[arg(long, value_name = "on|off", value_parser = super::value::on_or_off)]
    pub hardlimit: Option<bool>,
    /// Priority of memory accesses, 7 is the highest (openEuler)
    #[arg(long, value_name = "0..7", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: Option<u8>,
    /// Share of each L3 cache (cachetune): l3=50%, l3=4ways, l3=8MiB; or l3code= and l3data=
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub cache: Vec<CacheShareRequest>,
    /// Write the whole XML to FILE instead of printing the diff; - is standard output
    #[arg(long, value_name = "FILE")]
    pub xml: Option<PathBuf>,
    /// Output format of the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The libvirt that will read the XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VmDialect {
    /// The upstream libvirt of libvirt.org.
    Upstream,
    /// The libvirt of openEuler, which accepts NUMA nodes in hostdev and more attributes in memorytune.
    #[value(name = "openeuler")]
    OpenEuler,
}

/// Check a domain or guest against its plan
///
/// Checks that a running domain, or the guest this program runs in, matches its XML or plan.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo manycore vm check web1                         threads, memory and devices of a running domain
  sudo manycore vm check web1 --plan planned.xml      compared with a plan instead of its own XML
  manycore vm check --guest                           in a guest: nodes, topology, caches, nodes of devices
  manycore vm check --guest --plan planned.xml        the same, compared with the plan

A plan is a domain's XML or the JSON of vm plan. In a guest, the binary of manycore is all that is needed. The exit \
code is 1 if something differs from the plan. Reading the memory of another user's domain needs root or that user.")]
pub struct VmCheck {
    /// Name, id or UUID of a running domain
    #[arg(value_name = "DOMAIN", required_unless_present = "guest", conflicts_with = "guest")]
    pub domain: Option<String>,
    /// Check the hardware that this machine, a guest, has
    #[arg(long)]
    pub guest: bool,
    /// Expected state: domain XML, or JSON of vm plan [default: the domain's own XML]
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Connection URI of libvirt [default: virsh's own default]
    #[arg(long, value_name = "URI", conflicts_with = "guest")]
    pub connect: Option<String>,
    #[command(flatten)]
    pub source: Source,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
