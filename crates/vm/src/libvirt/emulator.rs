//! The process of a running domain: QEMU, started by libvirt with named threads (`debug-threads=on`).

use crate::domain::check::Running;
use manycore_linux::vms::command_line::vcpu;
use manycore_linux::vms::memory;
use manycore_linux::{affinity, tasks};
use std::collections::BTreeMap;

/// Returns the state of the domain whose emulator is this process; `None` if none of its threads has the name
/// of a virtual CPU. The memory is absent if it cannot be read.
pub fn running(pid: u32) -> Option<Running> {
    Some(look(pid)).filter(|running| !running.vcpus.is_empty())
}

fn look(pid: u32) -> Running {
    let (mut vcpus, mut iothreads) = (BTreeMap::new(), BTreeMap::new());
    for tid in tasks::threads(pid) {
        let Some(name) = tasks::thread_name(pid, tid) else { continue };
        let Ok(cpus) = affinity::of(tid) else { continue };
        match role(&name) {
            Some(Role::Vcpu(id)) => drop(vcpus.insert(id, cpus)),
            Some(Role::Io(id)) => drop(iothreads.insert(id, cpus)),
            None => {}
        }
    }
    let emulator = affinity::of(pid).unwrap_or_default();
    Running { pid, vcpus, emulator, iothreads, memory: memory::read(pid) }
}

#[derive(Debug, PartialEq, Eq)]
enum Role {
    Vcpu(u32),
    Io(u32),
}

/// Parses the thread names `CPU 3/KVM`, `CPU 3/TCG` and `IO iothread1`, which QEMU sets with
/// `debug-threads=on`.
fn role(name: &str) -> Option<Role> {
    let io = |rest: &str| rest.parse().ok().map(Role::Io);
    vcpu(name).map(Role::Vcpu).or_else(|| name.strip_prefix("IO iothread").and_then(io))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_by_their_names() {
        for (name, wanted) in [
            ("CPU 0/KVM", Some(Role::Vcpu(0))),
            ("CPU 319/TCG", Some(Role::Vcpu(319))),
            ("IO iothread2", Some(Role::Io(2))),
            ("CPU x/KVM", None),
            ("CPU 1", None),
            ("IO mon_iothread", None),
            ("qemu-system-x86", None),
        ] {
            assert_eq!(role(name), wanted, "{name}");
        }
    }
}
