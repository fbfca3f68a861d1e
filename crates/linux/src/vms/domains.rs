//! All running domains, found by the command lines of their emulators: on any version of control groups, with libvirt
//! or without, on any architecture.

use super::counters;
use crate::vms::{
    command_line::{self, Emulator},
    status::Status,
    usage::{Identity, Reading, VcpuReading},
};
use crate::{clock::now_ns, targets::TargetError};
use manycore_text::names;
use manycore_topology::tree::Tree;
use std::{collections::BTreeMap, time::SystemTime};

/// Looks after which a process that has come is still taken for one that may become an emulator: libvirt's child sets
/// its control groups up first, and then runs QEMU.
const YOUNG: u32 = 5;
/// How many looks apart an older process is looked at again, and the threads of a domain.
const RARELY: u32 = 32;
/// Longest note of libvirt's about a domain, in bytes.
const LONGEST_STATUS: usize = 8 << 20;

/// What is read beside the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Each virtual CPU's time in the guest and in the kernel, and where it is.
    pub vcpus: bool,
    /// Memory by node. The kernel walks all of a guest's memory for it: seconds, for a large one.
    pub nodes: bool,
}

/// Domains that come and go.
#[derive(Debug)]
pub struct Domains<'a> {
    tree: &'a Tree,
    wanted: Wanted,
    known: BTreeMap<u32, Known>,
    /// Other processes, and at which look they came.
    others: BTreeMap<u32, u32>,
    looks: u32,
}

#[derive(Debug)]
struct Known {
    identity: Identity,
    threads: u32,
    /// Thread of each virtual CPU.
    vcpus: BTreeMap<u32, u32>,
    huge: u64,
    /// When libvirt last wrote its note of the domain.
    noted: Option<SystemTime>,
}

impl<'a> Domains<'a> {
    /// Those of the system whose `/proc` is below `tree`.
    pub fn new(tree: &'a Tree, wanted: Wanted) -> Self {
        Self { tree, wanted, known: BTreeMap::new(), others: BTreeMap::new(), looks: 0 }
    }

    /// Counters of all that run now, by process. One that ends meanwhile is not there.
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

    /// The running domain of this number, uuid or name, whoever's daemon has started it; as for virsh, what is a number
    /// of one is no name of another.
    ///
    /// # Errors
    /// [`TargetError`]: none runs, or several are called so, as domains of different users may be.
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
            // Helpers begin as copies of their emulator.
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
            // The id was given to another process since the last look.
            known = self.meet(pid)?;
            stat = counters::stat(self.tree, &pid.to_string())?;
        }
        if stat.has_ended {
            return None;
        }
        // It may have been paused, or be a helper that has begun as a copy of the emulator.
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

    /// Whether a process that was no emulator may have become one.
    fn is_due(&self, pid: u32) -> bool {
        self.others.get(&pid).is_none_or(|came| self.looks - came < YOUNG || self.is_turn(pid))
    }

    /// Spread over the looks, so that none costs more than the others.
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

    /// libvirt's own notes: of the daemon for the system, which only root may read, or of that for the user whose
    /// process it is. A note of anybody else could say what it likes.
    fn status(&self, name: &str, pid: u32) -> Option<Status> {
        self.notes(name, pid).into_iter().find_map(|note| {
            let text = self.tree.read_part(&note, LONGEST_STATUS, str::to_owned)?;
            Status::parse(&text).filter(|status| status.pid == pid)
        })
    }

    /// When the note was last written: libvirt writes it anew where the domain's state changes.
    fn noted(&self, name: &str, pid: u32) -> Option<SystemTime> {
        let mut notes = self.notes(name, pid).into_iter();
        notes.find_map(|note| self.tree.file(&note)?.metadata().ok()?.modified().ok())
    }

    /// Where the note may be.
    fn notes(&self, name: &str, pid: u32) -> Vec<String> {
        if name.contains('/') {
            return Vec::new();
        }
        let user = counters::user(self.tree, pid);
        let user = user.map(|user| format!("run/user/{user}/libvirt/qemu/run"));
        let folders = std::iter::once("run/libvirt/qemu".to_owned()).chain(user);
        folders.map(|folder| format!("{folder}/{name}.xml")).collect()
    }

    /// Threads that have come, those that had no name yet, and huge pages, which the process's own figure leaves out.
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

/// `web1 (pid 812, UUID 5f0e...)`.
fn full_name(identity: &Identity) -> String {
    let uuid = identity.uuid.as_ref().map(|uuid| format!(", UUID {uuid}")).unwrap_or_default();
    format!("{} (pid {}{uuid})", identity.name, identity.pid)
}

#[cfg(test)]
mod tests;
