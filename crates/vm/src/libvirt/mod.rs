//! libvirt domains: queries through virsh, and the state of running emulators.

mod available_memory;
mod emulator;
mod virsh;

pub use available_memory::available_memory;
pub use emulator::running_domain;
pub use virsh::{dumpxml, libvirt_version};

use crate::domain::Version;
use std::process::{Command, Stdio};

/// Returns the version of the QEMU installed here for guests of this architecture: the first of
/// `qemu-system-ARCH` and `qemu-kvm` that can be run. `None` if there is none.
pub fn qemu_version(arch: &str) -> Option<Version> {
    let programs = [format!("qemu-system-{arch}"), "qemu-kvm".to_owned(), "/usr/libexec/qemu-kvm".to_owned()];
    programs.iter().find_map(|program| {
        let output =
            Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        Version::find_in(&String::from_utf8_lossy(&output.ok()?.stdout))
    })
}
