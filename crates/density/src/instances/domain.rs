//! An instance that is a virtual machine of libvirt.

use super::{
    running::{Running, Start, exists_already, manager_fails, succeeded, wait_for_end, with_descendants},
    spec::DomainSpec,
};
use crate::{Error, Result};
use manycore_control::{
    domain::{self, PROGRAM},
    journal::Change,
    tool,
};
use manycore_linux::{
    pidfd::open_pidfd,
    vms::{ReadOptions, RunningDomains},
};
use manycore_topology::sys_tree::SysTree;
use rustix::fs::{MemfdFlags, memfd_create};
use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// How long a subcommand may take.
const LIMIT: Duration = Duration::from_mins(2);

/// What to do if libvirt cannot be reached.
const HINT: &str = "start its daemon (systemctl start libvirtd), or name another connection with --connect";

/// A running virtual machine.
#[derive(Debug)]
pub(super) struct DomainInstance {
    index: usize,
    uri: String,
    name: String,
    /// The emulator; absent for drivers without one.
    emulator: Option<(u32, OwnedFd)>,
}

impl DomainInstance {
    pub(super) fn start(spec: &DomainSpec, start: &Start<'_>) -> Result<Self> {
        let (index, uri, name) = (start.values.index, spec.uri.clone(), start.values.name.clone());
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::MissingProgram(PROGRAM),
            _ => Error::Start { index, program: format!("{PROGRAM} create"), source },
        };
        // It is another program's, as in another process namespace, and must not be ended by our journal.
        let is_active = domain::is_active(&uri, &name);
        if is_active.map_err(|error| manager_fails(index, PROGRAM, error, HINT))? {
            return Err(failed(exists_already(&name)));
        }
        if let Some(custody) = &start.custody {
            custody.record(&Change::Domain { uri: uri.clone(), name: name.clone() })?;
        }
        let mut xml = spec.xml.text(start.values);
        if let Some(hook) = &start.spec.tuning.hook {
            let tuning = &start.spec.tuning;
            let planned = hook.domain_xml(xml, tuning.place(index), tuning.before_in_place(index));
            xml = planned.map_err(|source| Error::Tuning { index, source })?;
        }
        let xml = in_memory(&xml);
        let mut create = domain::command(&uri, &["create", "--file", "/dev/stdin"]);
        let created = xml.and_then(|xml| tool::change_instance(&mut create, &name, xml.into(), LIMIT));
        match created.and_then(|done| succeeded(&done)) {
            Ok(()) => Ok(Self { index, emulator: emulator(&name), uri, name }),
            Err(source) => Err(failed(source)),
        }
    }

    fn manage(&self, subcommand: &str, what: &'static str) -> Result {
        let mut command = domain::command(&self.uri, &[subcommand, "--domain", &self.name]);
        let done = tool::change_instance(&mut command, &self.name, Stdio::null(), LIMIT);
        done.and_then(|done| succeeded(&done)).map_err(|source| Error::Manage {
            index: self.index,
            what,
            source,
        })
    }
}

impl Running for DomainInstance {
    fn pause(&mut self) -> Result {
        self.check()?;
        self.manage("suspend", "paused")
    }

    fn resume(&mut self) -> Result {
        self.check()?;
        self.manage("resume", "resumed")
    }

    fn check(&mut self) -> Result {
        let is_active = match &self.emulator {
            Some((_, process)) => !wait_for_end(process, Instant::now()),
            None => domain::is_active(&self.uri, &self.name).map_err(|source| Error::Manage {
                index: self.index,
                what: "looked at",
                source,
            })?,
        };
        if is_active {
            return Ok(());
        }
        let status = "the virtual machine is off".to_owned();
        Err(Error::Ended { index: self.index, status, last: String::new() })
    }

    fn wait(&mut self, until: Instant) -> Result {
        match &self.emulator {
            Some((_, process)) => drop(wait_for_end(process, until)),
            // Nothing reports the end of a machine without a process.
            None => thread::sleep(until.saturating_duration_since(Instant::now())),
        }
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        self.emulator.as_ref().map(|(pid, _)| with_descendants(*pid)).unwrap_or_default()
    }
}

impl Drop for DomainInstance {
    fn drop(&mut self) {
        // What is left of it is undone with the journal.
        let _ = domain::destroy(&self.uri, &self.name);
    }
}

/// Returns a file in memory with this text.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("domain", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Returns the emulator of a domain. Its name is ours, so another process that pretends to be one makes it ambiguous, and it
/// is then unknown.
fn emulator(name: &str) -> Option<(u32, OwnedFd)> {
    let tree = SysTree::open(Path::new("/")).ok()?;
    let domains = RunningDomains::new(&tree, ReadOptions::default());
    let pid = domains.find(name).ok()?.pid;
    let process = open_pidfd(pid).ok()?;
    (domains.find(name).ok()?.pid == pid).then_some((pid, process))
}
