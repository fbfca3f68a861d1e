//! The process of a running domain: QEMU, whose threads have names as libvirt starts it (`debug-threads=on`).

use crate::domain::check::Running;
use manycore_linux::vms::command_line::vcpu;
use manycore_linux::vms::memory;
use manycore_linux::{affinity, tasks};
use std::collections::BTreeMap;

/// What the host shows of the domain whose emulator is this process; `None` where none of its threads is called a
/// virtual CPU. Memory is absent where it may not be looked at.
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

/// `CPU 3/KVM`, `CPU 3/TCG`, `IO iothread1`, as QEMU names them with `debug-threads=on`.
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
