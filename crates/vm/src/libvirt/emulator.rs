//! The process of a running domain: QEMU, started by libvirt with named threads (`debug-threads=on`).

use crate::domain::check::RunningDomain;
use manycore_linux::{
    affinity, tasks,
    vms::{command_line::vcpu_of_thread_name, memory},
};
use std::collections::BTreeMap;

/// Returns the state of the domain whose emulator is this process; `None` if none of its threads has the name
/// of a virtual CPU. The memory is absent if it cannot be read.
pub fn running_domain(pid: u32) -> Option<RunningDomain> {
    Some(read(pid)).filter(|running| !running.vcpus.is_empty())
}

fn read(pid: u32) -> RunningDomain {
    let (mut vcpus, mut iothreads) = (BTreeMap::new(), BTreeMap::new());
    for tid in tasks::threads(pid) {
        let Some(name) = tasks::thread_name(pid, tid) else { continue };
        let Ok(cpus) = affinity::of_thread(tid) else { continue };
        match role(&name) {
            Some(ThreadRole::Vcpu(id)) => drop(vcpus.insert(id, cpus)),
            Some(ThreadRole::Io(id)) => drop(iothreads.insert(id, cpus)),
            None => {}
        }
    }
    let emulator = affinity::of_thread(pid).unwrap_or_default();
    RunningDomain { pid, vcpus, emulator, iothreads, memory: memory::read(pid) }
}

#[derive(Debug, PartialEq, Eq)]
enum ThreadRole {
    Vcpu(u32),
    Io(u32),
}

/// Parses the thread names `CPU 3/KVM`, `CPU 3/TCG` and `IO iothread1`, which QEMU sets with
/// `debug-threads=on`.
fn role(name: &str) -> Option<ThreadRole> {
    let io = |rest: &str| rest.parse().ok().map(ThreadRole::Io);
    vcpu_of_thread_name(name).map(ThreadRole::Vcpu).or_else(|| name.strip_prefix("IO iothread").and_then(io))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_names_are_parsed() {
        for (name, wanted) in [
            ("CPU 0/KVM", Some(ThreadRole::Vcpu(0))),
            ("CPU 319/TCG", Some(ThreadRole::Vcpu(319))),
            ("IO iothread2", Some(ThreadRole::Io(2))),
            ("CPU x/KVM", None),
            ("CPU 1", None),
            ("IO mon_iothread", None),
            ("qemu-system-x86", None),
        ] {
            assert_eq!(role(name), wanted, "{name}");
        }
    }
}
