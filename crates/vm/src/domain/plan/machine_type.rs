//! Capabilities of a guest's machine type: NUMA nodes, threads per core, and a CPU that libvirt can describe.

use crate::{
    domain::{read::os_type, xml::DomainXml},
    error::PlanError,
    remedy::Remedy,
};

/// What QEMU and libvirt support for the machine type of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineTypeCapabilities {
    /// Name for notes.
    pub name: String,
    /// Whether the guest can have NUMA nodes, a topology and the host's CPU: QEMU accepts `-numa` and the
    /// firmware describes the nodes (ACPI or device tree).
    pub has_nodes: bool,
    /// Whether a core can have more than one thread.
    pub has_threads: bool,
}

impl MachineTypeCapabilities {
    /// Returns the capabilities for a domain whose guest has this architecture.
    pub fn new(xml: &DomainXml, arch: &str) -> Self {
        let named = os_type(xml, "machine");
        // The default of libvirt.
        let default = match arch {
            "x86_64" | "i686" => "pc",
            "aarch64" | "riscv64" | "riscv32" | "loongarch64" => "virt",
            "ppc64" | "ppc64le" => "pseries",
            _ => "",
        };
        let machine = named.unwrap_or(default);
        let is = |family: &str| {
            machine.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let is_kvm = xml.root().attribute("type") == Some("kvm");
        let (has_nodes, has_threads) = match arch {
            // These machine types have no ACPI tables for NUMA.
            "x86_64" | "i686" => {
                let known =
                    !["isapc", "microvm", "xenfv", "xenpv", "nitro", "none"].iter().any(|other| is(other));
                (known, true)
            }
            "aarch64" => (is("virt") || is("sbsa-ref"), true),
            "loongarch64" => (is("virt"), true),
            "riscv64" | "riscv32" => (is("virt") || is("spike"), false),
            // Without KVM, QEMU supports only one thread per core.
            "ppc64" | "ppc64le" => (is("pseries"), is_kvm),
            _ => (false, false),
        };
        let name = match named {
            Some(named) => format!("{named} ({arch})"),
            None => format!("(default of {arch})"),
        };
        Self { name, has_nodes, has_threads: has_nodes && has_threads }
    }
}

/// Returns an error if KVM on this host cannot run a guest of that architecture.
pub(super) fn kvm_refusal(xml: &DomainXml, guest: &str, host: Option<&str>) -> Option<PlanError> {
    let host = host?;
    if xml.root().attribute("type") != Some("kvm") || can_run_natively(host, guest) {
        return None;
    }
    Some(PlanError::resolved_by(
        Remedy::Machine,
        format!(
            "it is a KVM domain of architecture {guest}, but this machine is {host}. KVM runs only guests of the \
             host's architecture: plan it for a {guest} machine, or change its type to qemu"
        ),
    ))
}

/// Returns whether CPUs of `host` execute programs of `guest` natively, as KVM needs.
fn can_run_natively(host: &str, guest: &str) -> bool {
    host == guest
        || matches!(
            (host, guest),
            ("x86_64", "i686")
                | ("aarch64", "armv7l" | "armv6l")
                | ("ppc64le", "ppc64")
                | ("ppc64", "ppc64le")
                | ("s390x", "s390")
        )
        || ["i386", "i486", "i586", "i686"].contains(&host) && guest == "i686"
}
