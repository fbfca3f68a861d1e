//! What the machine type of a guest can show it: NUMA nodes, threads of a core, a CPU that libvirt can describe.

use crate::domain::read::os_type;
use manycore_linux::vms::xml::Xml;

/// What QEMU and libvirt take for the machine type of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Board {
    /// In words, for notes.
    pub name: String,
    /// Whether its guest can have NUMA nodes, a topology and the host's CPU: QEMU takes `-numa` and firmware shows it
    /// (ACPI or a device tree).
    pub has_nodes: bool,
    /// Whether a core can have more than one thread.
    pub has_threads: bool,
}

impl Board {
    /// The board of a domain whose guest has this architecture.
    pub fn of(xml: &Xml, arch: &str) -> Self {
        let named = os_type(xml, "machine");
        // What libvirt takes where none is named.
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
            // These have no ACPI tables of nodes.
            "x86_64" | "i686" => {
                let known =
                    !["isapc", "microvm", "xenfv", "xenpv", "nitro", "none"].iter().any(|other| is(other));
                (known, true)
            }
            "aarch64" => (is("virt") || is("sbsa-ref"), true),
            "loongarch64" => (is("virt"), true),
            "riscv64" | "riscv32" => (is("virt") || is("spike"), false),
            // In emulation QEMU takes one thread in a core.
            "ppc64" | "ppc64le" => (is("pseries"), is_kvm),
            _ => (false, false),
        };
        let name = match named {
            Some(named) => format!("{named} ({arch})"),
            None => format!("that {arch} has by default"),
        };
        Self { name, has_nodes, has_threads: has_nodes && has_threads }
    }
}

/// Why KVM of this host cannot run a guest of that architecture, where it cannot.
pub(super) fn kvm_refusal(xml: &Xml, guest: &str, host: Option<&str>) -> Option<String> {
    let host = host?;
    if xml.root().attribute("type") != Some("kvm") || runs(host, guest) {
        return None;
    }
    Some(format!(
        "it is a KVM domain of {guest}, and this machine is {host}: KVM runs guests of the host's own architecture; \
         plan it for a machine of {guest} (--machine), or make its type qemu"
    ))
}

/// Whether CPUs of `host` run programs of `guest` themselves, so that KVM does.
fn runs(host: &str, guest: &str) -> bool {
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
