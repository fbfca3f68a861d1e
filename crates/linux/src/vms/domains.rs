//! All running domains, found by the command lines of their emulators. Works with cgroup v1 and v2, with and
//! without libvirt, and on any architecture.

use super::counters;
use crate::vms::{
    command_line::{self, Emulator},
    status::Status,
    usage::{Identity, Reading, VcpuReading},
};
use crate::{clock::now_ns, targets::TargetError};
use manycore_text::names;
use manycore_topology::sys_tree::SysTree;
use std::{collections::BTreeMap, time::SystemTime};

/// Number of readings during which a new process may still become an emulator: libvirt's child first sets up
/// its control groups and then executes QEMU.
const YOUNG: u32 = 5;
/// Number of readings after which an older process, or the threads of a domain, are examined again.
const RARELY: u32 = 32;
/// Maximum size of libvirt's status file of a domain, in bytes.
const LONGEST_STATUS: usize = 8 << 20;

/// Optional values to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// CPU time of each virtual CPU in the guest and in the kernel, and its current CPU.
    pub vcpus: bool,
    /// Memory by node. The kernel walks all of a guest's memory for it, which takes seconds for a large
    /// guest.
    pub nodes: bool,
}

/// The set of running domains; it may change between readings.
#[derive(Debug)]
pub struct Domains<'a> {
    tree: &'a SysTree,
    wanted: Wanted,
    known: BTreeMap<u32, Known>,
    /// Processes that are not emulators, and the number of the reading in which they appeared.
    others: BTreeMap<u32, u32>,
    looks: u32,
}

#[derive(Debug)]
struct Known {
    identity: Identity,
    threads: u32,
    /// Thread id of each virtual CPU.
    vcpus: BTreeMap<u32, u32>,
    huge: u64,
    /// Time at which libvirt last wrote the status file of the domain.
    noted: Option<SystemTime>,
}

impl<'a> Domains<'a> {
    /// Creates the set for the system whose `/proc` is below `tree`.
    pub fn new(tree: &'a SysTree, wanted: Wanted) -> Self {
        Self { tree, wanted, known: BTreeMap::new(), others: BTreeMap::new(), looks: 0 }
    }

    /// Reads the counters of all running domains, in the order of process ids. Domains that end meanwhile are
    /// left out.
    pub fn look(&mut self) -> Vec<Reading> {
        let names = self.tree.list("proc");
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        self.known.retain(|pid, _| pids.binary_search(pid).is_ok());
        self.others.retain(|pid, _| pids.binary_search(pid).is_ok());
        let exits = counters::exits(self.tree);
        let mut readings = Vec::new();
        for pid in pids {
            let reading = self.reading(pid);
            readings.extend(reading.map(|reading| Reading { exits: exits.of(pid), ..reading }));
        }
        self.looks += 1;
        readings
    }

    /// Returns the running domain with this number, UUID or name, whichever daemon started it. As in virsh, a
    /// match by number takes precedence over a match by name.
    ///
    /// # Errors
    /// [`TargetError`] if no such domain runs, or if several match, as domains of different users may.
    pub fn find(&self, word: &str) -> Result<Identity, TargetError> {
        let processes = self.tree.list("proc");
        let pids = processes.iter().filter_map(|name| name.parse().ok());
        let all: Vec<Known> = pids.filter_map(|pid| self.meet_with_vcpus(pid)).collect();
        let by = |is: &dyn Fn(&Identity) -> bool| -> Vec<&Known> {
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
                near: format!("; {}", names::instead(all.iter().map(|one| one.identity.name.as_str()), word)),
            }),
            several => Err(TargetError::Several {
                name: word.to_owned(),
                which: several.iter().map(|one| full_name(&one.identity)).collect(),
                how: "its UUID",
            }),
        }
    }

    fn meet_with_vcpus(&self, pid: u32) -> Option<Known> {
        let mut known = self.meet(pid)?;
        self.find_vcpus(pid, &mut known);
        Some(known)
    }

    fn reading(&mut self, pid: u32) -> Option<Reading> {
        if !self.known.contains_key(&pid) && !self.is_due(pid) {
            return None;
        }
        let found = self.known.remove(&pid).map_or_else(|| self.meet(pid), Some);
        let Some(mut known) = found else {
            let came = self.looks;
            self.others.entry(pid).or_insert(came);
            return None;
        };
        self.others.remove(&pid);
        let mut stat = counters::stat(self.tree, &pid.to_string())?;
        if stat.started != known.identity.started {
            // The process id was reused since the last reading.
            known = self.meet(pid)?;
            stat = counters::stat(self.tree, &pid.to_string())?;
        }
        if stat.has_ended {
            return None;
        }
        // The domain may have been paused, or the process may be a helper that began as a copy of the
        // emulator.
        let noted = self.noted(&known.identity.name, pid);
        if self.is_turn(pid) || noted != known.noted {
            known.identity = self.meet(pid)?.identity;
            known.noted = noted;
        }
        if stat.threads != known.threads || self.is_turn(pid) {
            known.threads = stat.threads;
            self.find_vcpus(pid, &mut known);
        }
        let at_ns = now_ns();
        let vcpu = |(&number, &tid): (&u32, &u32)| Some((number, self.vcpu(pid, tid)?));
        let vcpus: BTreeMap<u32, VcpuReading> = known.vcpus.iter().filter_map(vcpu).collect();
        if vcpus.len() < known.vcpus.len() {
            known.vcpus.retain(|number, _| vcpus.contains_key(number));
            known.threads = 0;
        }
        let reading = Reading {
            identity: known.identity.clone(),
            at_ns,
            time: stat.time,
            resident: stat.resident + known.huge,
            vcpus,
            exits: None,
            memory: if self.wanted.nodes { counters::by_node(self.tree, pid) } else { BTreeMap::new() },
        };
        self.known.insert(pid, known);
        Some(reading)
    }

    /// Returns whether a process that was not an emulator may have become one.
    fn is_due(&self, pid: u32) -> bool {
        self.others.get(&pid).is_none_or(|came| self.looks - came < YOUNG || self.is_turn(pid))
    }

    /// Returns whether it is the turn of a process. Turns are spread over the readings, so that all take the
    /// same time.
    fn is_turn(&self, pid: u32) -> bool {
        self.looks % RARELY == pid % RARELY
    }

    fn meet(&self, pid: u32) -> Option<Known> {
        let line = self.tree.read(&format!("proc/{pid}/cmdline"))?;
        let words: Vec<String> = line.split('\0').map(str::to_owned).collect();
        let emulator = Emulator::of(&words)?;
        let stat = counters::stat(self.tree, &pid.to_string())?;
        let cgroup = self.tree.read(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        let machine = command_line::machine(&cgroup);
        let status = emulator.name.as_deref().and_then(|name| self.status(name, pid));
        let id = status.as_ref().and_then(|status| status.id).or(emulator.id);
        let uuid = emulator.uuid;
        let identity = Identity {
            name: emulator.name.or_else(|| uuid.clone()).unwrap_or_else(|| format!("process {pid}")),
            uuid,
            id: id.or(machine.as_ref().map(|(_, id)| *id)),
            pid,
            started: stat.started,
            machine: machine.map(|(name, _)| name),
            state: status.as_ref().map(|status| status.state.clone()),
        };
        let vcpus = status.map(|status| status.vcpus).unwrap_or_default();
        let noted = self.noted(&identity.name, pid);
        Some(Known { identity, threads: 0, vcpus, huge: 0, noted })
    }

    /// Reads libvirt's status file: that of the system daemon, which only root can read, or that of the
    /// daemon of the user who runs the process. A file of any other user is not trusted.
    fn status(&self, name: &str, pid: u32) -> Option<Status> {
        self.notes(name, pid).into_iter().find_map(|note| {
            let text = self.tree.read_part(&note, LONGEST_STATUS, str::to_owned)?;
            Status::parse(&text).filter(|status| status.pid == pid)
        })
    }

    /// Returns when the status file was last written. libvirt rewrites it when the domain's state changes.
    fn noted(&self, name: &str, pid: u32) -> Option<SystemTime> {
        let mut notes = self.notes(name, pid).into_iter();
        notes.find_map(|note| self.tree.file(&note)?.metadata().ok()?.modified().ok())
    }

    /// Returns the possible paths of the status file.
    fn notes(&self, name: &str, pid: u32) -> Vec<String> {
        if name.contains('/') {
            return Vec::new();
        }
        let user = counters::user(self.tree, pid);
        let user = user.map(|user| format!("run/user/{user}/libvirt/qemu/run"));
        let folders = std::iter::once("run/libvirt/qemu".to_owned()).chain(user);
        folders.map(|folder| format!("{folder}/{name}.xml")).collect()
    }

    /// Finds new threads, threads that had no name before, and the huge pages, which the RSS does not
    /// include.
    fn find_vcpus(&self, pid: u32, known: &mut Known) {
        let tasks = self.tree.list(&format!("proc/{pid}/task"));
        let tids: Vec<u32> = tasks.iter().filter_map(|tid| tid.parse().ok()).collect();
        known.vcpus.retain(|_, tid| tids.contains(tid));
        for tid in tids {
            if known.vcpus.values().any(|other| *other == tid) {
                continue;
            }
            let name = self.tree.read(&format!("proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            known.vcpus.extend(command_line::vcpu(&name).map(|number| (number, tid)));
        }
        known.huge = counters::huge_pages(self.tree, pid).unwrap_or(0);
    }

    fn vcpu(&self, pid: u32, tid: u32) -> Option<VcpuReading> {
        let mut reading = counters::thread(self.tree, pid, tid)?;
        if self.wanted.vcpus || reading.busy_ns.is_none() {
            let stat = counters::stat(self.tree, &format!("{pid}/task/{tid}"))?;
            reading.time = Some(stat.time);
            reading.cpu = stat.cpu.filter(|_| self.wanted.vcpus);
        }
        Some(reading)
    }
}

/// Returns a text such as `web1 (pid 812, UUID 5f0e...)`.
fn full_name(identity: &Identity) -> String {
    let uuid = identity.uuid.as_ref().map(|uuid| format!(", UUID {uuid}")).unwrap_or_default();
    format!("{} (pid {}{uuid})", identity.name, identity.pid)
}

#[cfg(test)]
mod tests;
