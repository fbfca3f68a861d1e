//! libvirt domains: queries through virsh, and the state of running emulators.

mod emulator;
mod room;
mod virsh;

pub use emulator::running;
pub use room::room;
pub use virsh::{VirshError, dumpxml, libvirt_version};

use crate::domain::Version;
use std::process::{Command, Stdio};

/// Returns the version of the QEMU installed here for guests of this architecture: the first of
/// `qemu-system-ARCH` and `qemu-kvm` that can be run. `None` if there is none.
pub fn qemu_version(arch: &str) -> Option<Version> {
    let programs = [format!("qemu-system-{arch}"), "qemu-kvm".to_owned(), "/usr/libexec/qemu-kvm".to_owned()];
    programs.iter().find_map(|program| {
        let asked =
            Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        Version::in_text(&String::from_utf8_lossy(&asked.ok()?.stdout))
    })
}
