//! Virtual machines.

use super::names::Names;
use crate::resources::GuestSample;
use manycore_linux::vms::{ReadOptions, RunningDomains};
use manycore_topology::SysTree;

/// The virtual machines that run; which processes are none is remembered between samples.
#[derive(Debug)]
pub(super) struct Guests(RunningDomains<SysTree>);

impl Guests {
    pub fn new(tree: SysTree) -> Self {
        Self(RunningDomains::new(tree, ReadOptions::default()))
    }

    pub fn read(&mut self, names: &mut Names, into: &mut Vec<GuestSample>) {
        into.clear();
        into.extend(self.0.read().into_iter().map(|reading| GuestSample {
            name: names.get(&reading.identity.name),
            pid: reading.identity.pid,
            vcpus: reading.vcpus.into_iter().map(|(number, vcpu)| (number, vcpu.tid)).collect(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;
    use std::collections::BTreeMap;

    #[test]
    fn guests_have_the_threads_of_their_cpus() {
        let mut capture = Capture::default();
        let stat = format!("70 (qemu) S {}3 {}", "0 ".repeat(16), "0 ".repeat(33));
        for (path, text) in [
            ("cmdline", "/usr/bin/qemu-system-x86_64\0-name\0guest=we\u{1b}b,debug-threads=on\0"),
            ("stat", &stat),
            ("task/70/comm", "qemu-system-x86"),
            ("task/71/comm", "CPU 0/KVM"),
            ("task/71/schedstat", "1 2 3"),
            ("task/74/comm", "CPU 1/KVM"),
            ("task/74/schedstat", "1 2 3"),
        ] {
            capture.add_file(&format!("proc/70/{path}"), text);
        }
        let mut guests = Guests::new(SysTree::from_capture(capture));
        let mut into = Vec::new();
        guests.read(&mut Names::default(), &mut into);
        let vcpus = BTreeMap::from([(0, 71), (1, 74)]);
        assert_eq!(into, [GuestSample { name: "we\u{fffd}b".into(), pid: 70, vcpus }]);
    }
}
