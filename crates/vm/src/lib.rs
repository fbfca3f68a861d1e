//! Virtual machines on this host: plans and checks of libvirt domains, and what running domains use.
//!
//! [`domain`] is pure: it edits the XML of a domain so that the guest sees the hardware it runs on, and compares a
//! description of the guest's hardware with what was found. [`planning`] and [`checking`] add what must be read
//! from the running system. [`monitor`] reads the domains that run on this host, whether or not libvirt started them.
//!
//! ```text
//! XML, Machine, request  ->  edits of byte ranges  ->  XML  ->  GuestHardware  ->  CheckReport
//!                                                              (compared with the running domain or the guest)
//! ```
//!
//! # Edits
//!
//! The XML of a domain belongs to its owner. It is read with positions (roxmltree) and changed by replacing ranges of
//! bytes. Nothing is written from a tree, so comments, order, quotes and elements of later versions stay as they are.
//! Added text follows the indentation, line ends and quotes of the text around it. After the change the text is read
//! again. `GuestHardware` is read from the XML of any domain, planned by this tool or not. So `check` needs no file of
//! ours. A plan of an already planned domain changes nothing, which is a tested property on domains in random styles.
//!
//! A text is bounded before it is read: 8 MiB, 256 levels, half a million nodes, no document type.
//!
//! # Topology of the guest
//!
//! Virtual CPUs are numbered in the order of the host's packages, nodes, caches, clusters and cores, because QEMU
//! numbers its CPUs in this order. The size of a level is the greatest common divisor of the runs of virtual CPUs
//! that share a group of the host. So no core, die or socket of the guest lies in two of the host's. Where runs
//! differ in length, the levels of the guest are smaller than those of the host.
//!
//! Only some machine types can show NUMA nodes to a guest. On others, QEMU refuses them or the firmware hides them.
//! The list of types that are known to work, and their other capabilities, is in `domain::plan::machine_type`.
//!
//! # Planning again
//!
//! A new plan for fewer nodes than an earlier plan leaves nothing that names a removed node. Expander buses without a
//! device are removed with their ports, and a domain with something that cannot be moved is refused. A new controller
//! never takes an index that a device already names.
//!
//! # Expander buses
//!
//! An expander bus owns the bus numbers from its `busNr` up to the next expander's, and each port below it takes one.
//! libvirt leaves space for one port when it chooses `busNr`, so the plan writes the number itself. `check`
//! identifies devices in a guest by these numbers: the firmware may number the buses within an expander as it likes,
//! and the `bus` in the XML is only the index of a controller.
//!
//! # Usage
//!
//! `vm top` reads counters at equal times. A figure is a pure function of two readings. What the first reading lacks
//! has no rate. A domain is identified by its process id and start time, so a reused id starts anew. A sum is missing
//! where one of its parts is missing.
//!
//! Domains are found by the command lines of processes. A process that is not an emulator is read again only while it
//! is young, because libvirt's child executes QEMU shortly after its creation, and then in every 32nd scan. The names
//! of a domain's threads are read again in every 32nd scan, or when their number changes. The resctrl groups that
//! belong to a domain follow from libvirt's names for them (`qemu-ID-`, with the whole number) or from their tasks.
//! The tasks of groups are read rarely: the kernel walks all tasks of the machine for each group.
//!
//! # Tests
//!
//! `crates/cli/tests/vm_domains.rs` plans the domains of libvirt's own tests in six ways. What libvirt's grammar
//! accepts must still be accepted afterwards, a second plan must change nothing, and a reason for refusal that is not
//! listed fails the test. `lab/domains` has the installed libvirt define them before and after.
#![forbid(unsafe_code)]

pub mod checking;
pub mod domain;
pub mod error;
mod libvirt;
pub mod monitor;
pub mod planning;
mod remedy;
pub mod text;
mod traffic;
pub mod usage;
pub mod usage_text;

pub use error::Error;
pub use libvirt::{libvirt_version, qemu_version};
pub use remedy::{PlanNote, Remedy};
