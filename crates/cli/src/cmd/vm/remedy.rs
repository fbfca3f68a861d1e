//! Options and commands that resolve a refusal or a note of a plan.

use manycore_vm::Remedy;

/// Returns the text with the option or the command that resolves it.
pub(super) fn with_option(text: &impl ToString, remedy: Option<Remedy>) -> String {
    let text = text.to_string();
    let Some(remedy) = remedy else { return text };
    let option = match remedy {
        Remedy::Overcommit => "--overcommit",
        Remedy::Policy => "--place",
        Remedy::Machine => "--machine FILE",
        Remedy::QemuVersion => "--qemu VERSION",
        Remedy::LibvirtVersion => "--libvirt VERSION",
        Remedy::HostPassthrough => "--host-passthrough",
        Remedy::OpenEuler => "--dialect openeuler",
        Remedy::Bandwidth => "--bandwidth",
        Remedy::CacheShare => "--cache",
        Remedy::RunningLimit => "manycore qos set --domain NAME --bandwidth 2000MB/s",
        Remedy::SaveMachine => "manycore topo --save FILE",
    };
    format!("{text} ({option})")
}
