//! Reads names of the hardware, the software and the hypervisor, and the total memory.

use crate::{
    machine::System,
    read::{cpuinfo::CpuInfo, modules},
    sys_tree::{SysTree, kilobytes},
};

const CLOCKSOURCES: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Reads the names of the system.
pub fn read(tree: &SysTree, cpuinfo: &CpuInfo) -> System {
    let foreign = HwlocUname::read(tree);
    let dmi = |name: &str| {
        ["sys/class/dmi/id", "sys/devices/virtual/dmi/id"]
            .iter()
            .find_map(|folder| tree.read(&format!("{folder}/{name}")))
            .map(|text| text.trim().to_owned())
    };
    let (vendor, product) = (dmi("sys_vendor"), dmi("product_name"));
    System {
        hostname: tree.read("proc/sys/kernel/hostname").or(foreign.host),
        kernel: kernel(tree).or(foreign.release),
        os: os(tree),
        architecture: tree
            .read("proc/sys/kernel/arch")
            .or(foreign.machine)
            .or_else(|| cpuinfo.architecture()),
        cpu_model: cpuinfo.model(),
        cpu_id: cpuinfo.id(),
        cpu_flags: cpuinfo.flags(),
        hypervisor: hypervisor(tree, cpuinfo, vendor.as_deref(), product.as_deref()),
        hardware: hardware(vendor, product).or_else(|| tree.read("proc/device-tree/model")),
        bios: bios(dmi("bios_vendor"), dmi("bios_version"), dmi("bios_date")),
        memory_modules: modules::read(tree),
        memory_bytes: memory(tree),
    }
}

/// Reads `MemTotal` of `/proc/meminfo`, in bytes.
pub fn memory(tree: &SysTree) -> Option<u64> {
    let text = tree.read_part("proc/meminfo", 4096, |text| {
        text.lines().find(|line| line.starts_with("MemTotal:")).unwrap_or_default().to_owned()
    })?;
    kilobytes(text.strip_prefix("MemTotal:")?)
}

/// Reads the release as `uname -r` prints it. Without `/proc/sys` it is the third word of `/proc/version`.
fn kernel(tree: &SysTree) -> Option<String> {
    tree.read("proc/sys/kernel/osrelease")
        .or_else(|| tree.read("proc/version")?.split_whitespace().nth(2).map(str::to_owned))
}

/// Reads `PRETTY_NAME` (`os-release(5)`).
fn os(tree: &SysTree) -> Option<String> {
    const KEY: &str = "PRETTY_NAME=";
    let only_name =
        |text: &str| text.lines().find(|line| line.starts_with(KEY)).unwrap_or_default().to_owned();
    let line = ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|path| tree.read_part(path, 64 << 10, only_name))?;
    let value = line.strip_prefix(KEY)?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

/// The output of `uname` that hwloc's `hwloc-gather-topology` stores next to the files that it copies.
#[derive(Default)]
struct HwlocUname {
    release: Option<String>,
    machine: Option<String>,
    host: Option<String>,
}

impl HwlocUname {
    fn read(tree: &SysTree) -> Self {
        let Some(text) = tree.read("proc/hwloc-nofile-info") else { return Self::default() };
        let value = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
        };
        Self { release: value("OSRelease:"), machine: value("Architecture:"), host: value("HostName:") }
    }
}

/// Whether a text of the firmware is no placeholder.
fn is_filled_in(name: &str) -> bool {
    !name.is_empty() && !name.to_lowercase().contains("to be filled")
}

/// Returns vendor, version and date of the BIOS. A vendor or a date alone says nothing.
fn bios(vendor: Option<String>, version: Option<String>, date: Option<String>) -> Option<String> {
    let version = version.filter(|name| is_filled_in(name))?;
    let vendor =
        vendor.filter(|name| is_filled_in(name)).map(|vendor| format!("{vendor} ")).unwrap_or_default();
    let date = date.filter(|name| is_filled_in(name)).map(|date| format!(", {date}")).unwrap_or_default();
    Some(format!("{vendor}{version}{date}"))
}

/// Returns vendor and product. Leaves out a vendor that the product repeats, and placeholders.
fn hardware(vendor: Option<String>, product: Option<String>) -> Option<String> {
    match (vendor.filter(|name| is_filled_in(name)), product.filter(|name| is_filled_in(name))) {
        (Some(vendor), Some(product)) if product.starts_with(&vendor) => Some(product),
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (vendor, product) => vendor.or(product),
    }
}

/// Returns the hypervisor that runs this system. Xen has its own folder, most others have their name in the
/// DMI table, and guests without a DMI table have the clock source of their hypervisor.
fn hypervisor(
    tree: &SysTree,
    cpuinfo: &CpuInfo,
    vendor: Option<&str>,
    product: Option<&str>,
) -> Option<String> {
    if let Some(kind) = tree.read("sys/hypervisor/type") {
        return Some(if kind == "xen" { "Xen".to_owned() } else { kind });
    }
    if let Some(compatible) = tree.read("proc/device-tree/hypervisor/compatible") {
        let known = by_name(&compatible).map_or(compatible.as_str(), |name| name);
        return Some(known.replace('\0', " "));
    }
    // The product is more specific: for QEMU on Arm it is `KVM Virtual Machine`.
    let table = [product, vendor].into_iter().flatten().find_map(by_name);
    let clocks = tree.read(CLOCKSOURCES).unwrap_or_default();
    let clock = clocks.split_whitespace().find_map(by_clock);
    let guest = cpuinfo.is_guest().then_some("unknown hypervisor");
    // Arm has no CPU flag for guests, so the table decides there. On x86 "Microsoft" without the flag may
    // be a laptop.
    let table = table.filter(|_| cpuinfo.is_guest() || cpuinfo.flags().iter().all(|flag| flag != "fpu"));
    // The clock source of KVM proves KVM, even if the table names the cloud provider or the emulator.
    let clock_first = clock.filter(|&clock| clock == "KVM");
    clock_first.or(table).or(clock).or(guest).map(str::to_owned)
}

fn by_name(name: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 14] = [
        ("kvm", "KVM"),
        ("rhev", "KVM"),
        // These hypervisors run guests with or without KVM; the clock source decides.
        ("qemu", "QEMU"),
        ("openstack", "OpenStack"),
        ("amazon ec2", "Amazon EC2"),
        ("google", "Google Compute Engine"),
        ("alibaba", "Alibaba Cloud"),
        ("vmware", "VMware"),
        ("microsoft", "Hyper-V"),
        ("virtual machine", "Hyper-V"),
        ("xen", "Xen"),
        ("virtualbox", "VirtualBox"),
        ("innotek", "VirtualBox"),
        ("parallels", "Parallels"),
    ];
    let name = name.to_lowercase();
    NAMES.iter().find(|(part, _)| name.contains(part)).map(|(_, hypervisor)| *hypervisor)
}

fn by_clock(clock: &str) -> Option<&'static str> {
    match clock {
        "kvm-clock" => Some("KVM"),
        "xen" => Some("Xen"),
        _ if clock.starts_with("hyperv") => Some("Hyper-V"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use proptest::prelude::*;

    fn system(files: &[(&str, &str)]) -> System {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        let tree = SysTree::from_capture(capture);
        read(&tree, &CpuInfo::read(&tree))
    }

    #[test]
    fn hypervisors_are_recognized_by_their_files() {
        const GUEST: (&str, &str) = ("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu lm hypervisor");
        const METAL: (&str, &str) = ("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu lm");
        for (files, name) in [
            (vec![("sys/hypervisor/type", "xen")], Some("Xen")),
            // Emulation without KVM is not reported as KVM.
            (vec![GUEST, ("sys/class/dmi/id/sys_vendor", "QEMU"), (CLOCKSOURCES, "tsc hpet")], Some("QEMU")),
            (
                vec![GUEST, ("sys/class/dmi/id/sys_vendor", "QEMU"), (CLOCKSOURCES, "kvm-clock tsc")],
                Some("KVM"),
            ),
            (
                vec![
                    ("sys/class/dmi/id/sys_vendor", "QEMU"),
                    ("sys/class/dmi/id/product_name", "KVM Virtual Machine"),
                ],
                Some("KVM"),
            ),
            (vec![GUEST, ("sys/class/dmi/id/product_name", "VMware7,1")], Some("VMware")),
            (vec![GUEST, (CLOCKSOURCES, "tsc kvm-clock")], Some("KVM")),
            (vec![GUEST, (CLOCKSOURCES, "hyperv_clocksource_tsc_page")], Some("Hyper-V")),
            (vec![GUEST], Some("unknown hypervisor")),
            (vec![METAL, ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation")], None),
            (vec![("proc/device-tree/hypervisor/compatible", "linux,kvm\0")], Some("KVM")),
            (vec![METAL], None),
        ] {
            assert_eq!(system(&files).hypervisor.as_deref(), name, "{files:?}");
        }
    }

    #[test]
    fn system_names_are_read_from_their_files() {
        let known = system(&[
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/version", "Linux version 5.10.0-8 (gcc) #1"),
            ("proc/meminfo", "MemTotal:       1024 kB\nMemFree: 1 kB"),
            ("sys/class/dmi/id/sys_vendor", "Dell Inc."),
            ("sys/class/dmi/id/product_name", "PowerEdge R740"),
            ("sys/class/dmi/id/bios_vendor", "Dell Inc."),
            ("sys/class/dmi/id/bios_version", "2.19.1"),
            ("sys/class/dmi/id/bios_date", "12/15/2023"),
        ]);
        assert_eq!(known.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(known.kernel.as_deref(), Some("5.10.0-8"));
        assert_eq!(known.memory_bytes, Some(1 << 20));
        assert_eq!(known.hardware.as_deref(), Some("Dell Inc. PowerEdge R740"));
        assert_eq!(known.bios.as_deref(), Some("Dell Inc. 2.19.1, 12/15/2023"));
    }

    proptest! {
        #[test]
        fn any_memory_is_read_or_refused(text in "\\PC{0,30}|[0-9]{1,25} kB") {
            let _ = kilobytes(&text);
        }

        #[test]
        fn any_names_are_read(text in "(\\PC|\n|\0){0,100}") {
            let files = ["etc/os-release", "proc/version", "proc/meminfo", "sys/hypervisor/type", "proc/hwloc-nofile-info"];
            let _ = system(&files.map(|file| (file, text.as_str())));
        }
    }
}
