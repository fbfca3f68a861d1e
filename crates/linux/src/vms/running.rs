//! All running domains, found by the command lines of their emulators. Works with cgroup v1 and v2, with and
//! without libvirt, and on any architecture.

use super::{
    DomainIdentity, DomainReading, VcpuReading,
    command_line::{self, EmulatorCommandLine},
    counters,
    status::DomainStatus,
};
use crate::{absent_process::hidden_others_suffix, clock::now_ns, targets::TargetError};
use manycore_text::names;
use manycore_topology::sys_tree::SysTree;
use std::{borrow::Borrow, collections::BTreeMap, time::SystemTime};

/// Number of readings during which a new process may still become an emulator: libvirt's child first sets up
/// its control groups and then executes QEMU.
const NEW_PROCESS_READINGS: u32 = 5;
/// Number of readings after which an older process, or the threads of a domain, are examined again.
const REEXAMINE_INTERVAL: u32 = 32;
/// Maximum size of libvirt's status file of a domain, in bytes.
const MAX_STATUS_BYTES: usize = 8 << 20;

/// Optional values of a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// CPU time of each virtual CPU in the guest and in the kernel, and its current CPU.
    pub vcpus: bool,
    /// Memory by node. The kernel walks all of a guest's memory for it, which takes seconds for a large
    /// guest.
    pub nodes: bool,
}

/// The set of running domains; it may change between readings. `T` is a tree or a reference to one.
#[derive(Debug)]
pub struct RunningDomains<T> {
    tree: T,
    options: ReadOptions,
    known: BTreeMap<u32, KnownDomain>,
    /// Processes that are not emulators, and the number of the reading in which they appeared.
    others: BTreeMap<u32, u32>,
    reading_number: u32,
}

#[derive(Debug)]
struct KnownDomain {
    identity: DomainIdentity,
    threads: u32,
    /// Thread id of each virtual CPU.
    vcpus: BTreeMap<u32, u32>,
    /// Huge pages in bytes, which the RSS does not include.
    huge_page_bytes: u64,
    /// Time at which libvirt last wrote the status file of the domain.
    status_modified: Option<SystemTime>,
}

impl<T: Borrow<SysTree>> RunningDomains<T> {
    /// Creates the set for the system whose `/proc` is below `tree`.
    pub fn new(tree: T, options: ReadOptions) -> Self {
        Self { tree, options, known: BTreeMap::new(), others: BTreeMap::new(), reading_number: 0 }
    }

    /// Reads the counters of all running domains, in the order of process ids. Domains that end meanwhile are
    /// left out.
    pub fn read(&mut self) -> Vec<DomainReading> {
        let names = self.tree().list("proc");
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        let mut readings = self.read_of(&pids);
        let exits = counters::exits(self.tree());
        for reading in &mut readings {
            reading.exits = exits.count(reading.identity.pid);
        }
        readings
    }

    /// As [`read`](Self::read), of the processes that run now, ascending, which the caller knows. Exits are not counted.
    pub fn read_of(&mut self, pids: &[u32]) -> Vec<DomainReading> {
        self.known.retain(|pid, _| pids.binary_search(pid).is_ok());
        self.others.retain(|pid, _| pids.binary_search(pid).is_ok());
        let readings = pids.iter().filter_map(|&pid| self.reading(pid)).collect();
        self.reading_number += 1;
        readings
    }

    /// Returns the running domain with this number, UUID or name, whichever daemon started it. As in virsh, a
    /// match by number takes precedence over a match by name.
    ///
    /// # Errors
    /// [`TargetError`] if no such domain runs, or if several match, as domains of different users may.
    pub fn find(&self, word: &str) -> Result<DomainIdentity, TargetError> {
        let processes = self.tree().list("proc");
        let pids = processes.iter().filter_map(|name| name.parse().ok());
        let all: Vec<KnownDomain> = pids.filter_map(|pid| self.identify_with_vcpus(pid)).collect();
        let by = |is: &dyn Fn(&DomainIdentity) -> bool| -> Vec<&KnownDomain> {
            all.iter().filter(|one| is(&one.identity)).collect()
        };
        let number: Option<u32> = word.parse().ok();
        let kinds = [
            by(&|one| number.is_some() && one.id == number),
            by(&|one| one.uuid.as_deref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(word))),
            by(&|one| one.name == word),
        ];
        let mut found = kinds.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        if found.iter().any(|one| !one.vcpus.is_empty()) {
            // Helper processes of an emulator begin as copies of it.
            found.retain(|one| !one.vcpus.is_empty());
        }
        match found.as_slice() {
            [one] => Ok(one.identity.clone()),
            [] => Err(TargetError::NotFound {
                what: "running domain",
                name: word.to_owned(),
                near: format!(
                    "; {}{}",
                    names::instead(all.iter().map(|one| one.identity.name.as_str()), word),
                    hidden_others_suffix()
                ),
            }),
            several => Err(TargetError::Several {
                name: word.to_owned(),
                which: several.iter().map(|one| full_name(&one.identity)).collect(),
                how: "its UUID",
            }),
        }
    }

    fn tree(&self) -> &SysTree {
        self.tree.borrow()
    }

    fn identify_with_vcpus(&self, pid: u32) -> Option<KnownDomain> {
        let mut known = self.identify(pid)?;
        self.find_vcpus(pid, &mut known);
        Some(known)
    }

    fn reading(&mut self, pid: u32) -> Option<DomainReading> {
        if !self.known.contains_key(&pid) && !self.is_due(pid) {
            return None;
        }
        let found = self.known.remove(&pid).map_or_else(|| self.identify(pid), Some);
        let Some(mut known) = found else {
            let reading_number = self.reading_number;
            self.others.entry(pid).or_insert(reading_number);
            return None;
        };
        self.others.remove(&pid);
        let mut stat = counters::stat(self.tree(), &pid.to_string())?;
        if stat.started != known.identity.started {
            // The process id was reused since the last reading.
            known = self.identify(pid)?;
            stat = counters::stat(self.tree(), &pid.to_string())?;
        }
        if stat.has_ended {
            return None;
        }
        self.refresh(pid, &mut known, stat.threads)?;
        let at_ns = now_ns();
        let vcpu = |(&number, &tid): (&u32, &u32)| Some((number, self.vcpu(pid, tid)?));
        let vcpus: BTreeMap<u32, VcpuReading> = known.vcpus.iter().filter_map(vcpu).collect();
        if vcpus.len() < known.vcpus.len() {
            known.vcpus.retain(|number, _| vcpus.contains_key(number));
            known.threads = 0;
        }
        let reading = DomainReading {
            identity: known.identity.clone(),
            at_ns,
            time: stat.time,
            memory_bytes: stat.resident_bytes + known.huge_page_bytes,
            vcpus,
            exits: None,
            memory_by_node: if self.options.nodes {
                counters::by_node(self.tree(), pid)
            } else {
                BTreeMap::new()
            },
        };
        self.known.insert(pid, known);
        Some(reading)
    }

    /// Identifies the domain and its virtual CPUs again if they may have changed. Returns `None` if the process is
    /// not an emulator.
    fn refresh(&self, pid: u32, known: &mut KnownDomain, threads: u32) -> Option<()> {
        // The domain may have been paused, or the process may be a helper that began as a copy of the
        // emulator.
        let status_modified = self.status_modified(&known.identity.name, pid);
        if self.is_turn(pid) || status_modified != known.status_modified {
            known.identity = self.identify(pid)?.identity;
            known.status_modified = status_modified;
        }
        if threads != known.threads || self.is_turn(pid) {
            known.threads = threads;
            self.find_vcpus(pid, known);
        }
        Some(())
    }

    /// Returns whether a process that was not an emulator may have become one.
    fn is_due(&self, pid: u32) -> bool {
        self.others
            .get(&pid)
            .is_none_or(|first| self.reading_number - first < NEW_PROCESS_READINGS || self.is_turn(pid))
    }

    /// Returns whether a process is examined in this reading. Examinations are spread over the readings, so that all
    /// readings take the same time.
    fn is_turn(&self, pid: u32) -> bool {
        self.reading_number % REEXAMINE_INTERVAL == pid % REEXAMINE_INTERVAL
    }

    fn identify(&self, pid: u32) -> Option<KnownDomain> {
        let line = self.tree().read(&format!("proc/{pid}/cmdline"))?;
        let words: Vec<String> = line.split('\0').map(str::to_owned).collect();
        let emulator = EmulatorCommandLine::parse(&words)?;
        let stat = counters::stat(self.tree(), &pid.to_string())?;
        let cgroup = self.tree().read(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        let machine = command_line::machine_of_cgroup(&cgroup);
        let status = emulator.name.as_deref().and_then(|name| self.status(name, pid));
        let id = status.as_ref().and_then(|status| status.id).or(emulator.id);
        let uuid = emulator.uuid;
        let identity = DomainIdentity {
            name: emulator.name.or_else(|| uuid.clone()).unwrap_or_else(|| format!("process {pid}")),
            uuid,
            id: id.or(machine.as_ref().map(|(_, id)| *id)),
            pid,
            started: stat.started,
            machine: machine.map(|(name, _)| name),
            state: status.as_ref().map(|status| status.state.clone()),
        };
        let vcpus = status.map(|status| status.vcpus).unwrap_or_default();
        let status_modified = self.status_modified(&identity.name, pid);
        Some(KnownDomain { identity, threads: 0, vcpus, huge_page_bytes: 0, status_modified })
    }

    /// Reads the status file of libvirt: that of the system daemon, which only root can read, or that of the
    /// daemon of the user who runs the process. A file of any other user is not trusted.
    fn status(&self, name: &str, pid: u32) -> Option<DomainStatus> {
        self.status_paths(name, pid).into_iter().find_map(|path| {
            let text = self.tree().read_part(&path, MAX_STATUS_BYTES, str::to_owned)?;
            DomainStatus::parse(&text).filter(|status| status.pid == pid)
        })
    }

    /// Returns when the status file was last written. libvirt rewrites it when the domain's state changes.
    fn status_modified(&self, name: &str, pid: u32) -> Option<SystemTime> {
        let mut paths = self.status_paths(name, pid).into_iter();
        paths.find_map(|path| self.tree().file(&path)?.metadata().ok()?.modified().ok())
    }

    /// Returns the possible paths of the status file.
    fn status_paths(&self, name: &str, pid: u32) -> Vec<String> {
        if name.contains('/') {
            return Vec::new();
        }
        let user = counters::real_user(self.tree(), pid);
        let user = user.map(|user| format!("run/user/{user}/libvirt/qemu/run"));
        let folders = std::iter::once("run/libvirt/qemu".to_owned()).chain(user);
        folders.map(|folder| format!("{folder}/{name}.xml")).collect()
    }

    /// Finds new threads, threads that had no name before, and the huge pages, which the RSS does not
    /// include.
    fn find_vcpus(&self, pid: u32, known: &mut KnownDomain) {
        let tasks = self.tree().list(&format!("proc/{pid}/task"));
        let tids: Vec<u32> = tasks.iter().filter_map(|tid| tid.parse().ok()).collect();
        known.vcpus.retain(|_, tid| tids.contains(tid));
        for tid in tids {
            if known.vcpus.values().any(|other| *other == tid) {
                continue;
            }
            let name = self.tree().read(&format!("proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            known.vcpus.extend(command_line::vcpu_of_thread_name(&name).map(|number| (number, tid)));
        }
        known.huge_page_bytes = counters::huge_pages(self.tree(), pid).unwrap_or(0);
    }

    fn vcpu(&self, pid: u32, tid: u32) -> Option<VcpuReading> {
        let mut reading = counters::thread(self.tree(), pid, tid)?;
        if self.options.vcpus || reading.busy_ns.is_none() {
            let stat = counters::stat(self.tree(), &format!("{pid}/task/{tid}"))?;
            reading.time = Some(stat.time);
            reading.cpu = stat.cpu.filter(|_| self.options.vcpus);
        }
        Some(reading)
    }
}

/// Returns a text such as `web1 (pid 812, UUID 5f0e...)`.
fn full_name(identity: &DomainIdentity) -> String {
    let uuid = identity.uuid.as_ref().map(|uuid| format!(", UUID {uuid}")).unwrap_or_default();
    format!("{} (pid {}{uuid})", identity.name, identity.pid)
}

#[cfg(test)]
mod tests;
