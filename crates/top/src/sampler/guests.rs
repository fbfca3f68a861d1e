//! Virtual machines.

use super::names::Names;
use crate::{
    resources::{GuestSample, GuestSearch},
    sample::ProcessSample,
};
use manycore_linux::vms::{ReadOptions, RunningDomains};
use manycore_topology::SysTree;

/// Machines are searched in one of this many samples if they are searched seldom: each search looks at new processes, and
/// at a part of all others.
const SELDOM: u32 = 16;

/// The virtual machines that run; which processes are none is remembered between samples.
#[derive(Debug)]
pub(super) struct Guests {
    domains: RunningDomains<SysTree>,
    /// Those of the last search, each with the start time of its process.
    found: Vec<(u64, GuestSample)>,
    /// Number of samples since the last search.
    since: u32,
}

impl Guests {
    pub fn new(tree: SysTree) -> Self {
        Self { domains: RunningDomains::new(tree, ReadOptions::default()), found: Vec::new(), since: SELDOM }
    }

    /// Reads the machines among `processes`, which are ascending.
    pub fn read(
        &mut self,
        names: &mut Names,
        search: GuestSearch,
        processes: &[ProcessSample],
        into: &mut Vec<GuestSample>,
    ) {
        let start = |pid: u32| {
            let at = processes.binary_search_by_key(&pid, |process| process.pid).ok();
            at.map(|at| processes[at].start)
        };
        self.since += 1;
        if search == GuestSearch::Always || self.since >= SELDOM {
            self.since = 0;
            let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
            let found = self.domains.read_of(&pids).into_iter().map(|reading| GuestSample {
                name: names.get(&reading.identity.name),
                pid: reading.identity.pid,
                vcpus: reading.vcpus.into_iter().map(|(number, vcpu)| (number, vcpu.tid)).collect(),
            });
            self.found = found.filter_map(|guest| Some((start(guest.pid)?, guest))).collect();
        }
        self.found.retain(|(began, guest)| start(guest.pid) == Some(*began));
        into.clear();
        into.extend(self.found.iter().map(|(_, guest)| guest.clone()));
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
        let process = |pid: u32, start: u64| ProcessSample { pid, start, cpu_ns: None, threads: 3 };
        let mut read = |processes: &[ProcessSample], search: GuestSearch| {
            let mut into = Vec::new();
            guests.read(&mut Names::default(), search, processes, &mut into);
            into
        };
        let vcpus = BTreeMap::from([(0, 71), (1, 74)]);
        let expected = [GuestSample { name: "we\u{fffd}b".into(), pid: 70, vcpus }];
        assert_eq!(read(&[process(1, 1), process(70, 5)], GuestSearch::Seldom), expected);
        // It is not searched again, but ends with its process.
        assert_eq!(read(&[process(70, 5)], GuestSearch::Seldom), expected);
        assert_eq!(read(&[process(70, 6)], GuestSearch::Seldom), []);
        let found = (0..SELDOM).filter(|_| !read(&[process(70, 6)], GuestSearch::Seldom).is_empty());
        assert_eq!(found.count(), 3, "it is searched again in the last but two of these samples");
        assert_eq!(read(&[], GuestSearch::Always), []);
        assert_eq!(read(&[process(70, 6)], GuestSearch::Always), expected);
    }
}
