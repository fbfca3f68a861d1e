//! The folder of a run over a fleet.
//!
//! `fleet.json` says what was run and what happened to each host; `nodes/NAME/` holds what a host sent back: `record.json` and
//! its page, or `output`. A run that was interrupted is continued in its folder. Folders that other programs filled, without
//! `fleet.json`, can be read, too.

mod description;
mod names;

pub use description::{FleetRun, HostState, HostStatus, RUN_SCHEMA};
pub use names::{directory_name, host_name};

use crate::{
    collect::{HostEvent, Reply},
    error::{Error, Result},
    figures::shown,
};
use manycore_experiment::Record;
use manycore_linux::{
    input_file::{self, FileKind},
    whole_file,
};
use manycore_report::NamedEvaluation;
use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// Name of the file that describes the run.
const MANIFEST: &str = "fleet.json";
/// Name of the file with what a host printed, where that is no record.
const OUTPUT: &str = "output";
/// Name of the record of a host.
pub const RECORD: &str = "record.json";
/// Name of the page of a record.
pub const PAGE: &str = "report.html";
/// Name of the directory with a directory of each host.
const NODES: &str = "nodes";
/// Name of the file that is locked by the process that writes.
const LOCK: &str = ".lock";
/// Why a host with a part of a record has no result.
const PARTIAL: &str = "its measurement was interrupted there";
/// The description of a run. 100,000 hosts with a reason each have less than that.
const KIND: FileKind = FileKind {
    name: "run over a fleet",
    schema: RUN_SCHEMA,
    origin: "the fleet.json of 'manycore fleet'",
    max_bytes: 64 << 20,
};
/// A host, what manycore printed there, and its exit code.
pub type HostOutput = (String, Vec<u8>, i32);

/// A folder of a run, of which this process is the only writer.
#[derive(Debug)]
pub struct FleetFolder {
    path: PathBuf,
    run: FleetRun,
    /// Of hosts that are measured again: what is known of the first measurement. It stands until there is a new result.
    first: BTreeMap<String, HostStatus>,
    _lock: File,
}

impl FleetFolder {
    /// Begins a run in a folder, or continues the same one. Hosts with a result stay, also if this run does not have them.
    ///
    /// # Errors
    /// [`Error::OtherRun`], [`Error::InUse`], [`Error::File`], [`Error::Manifest`].
    pub fn begin(path: &Path, run: FleetRun) -> Result<Self> {
        create(&path.join(NODES))?;
        let lock_path = path.join(LOCK);
        let lock = File::create(&lock_path).map_err(|source| failed("cannot write", &lock_path, source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed("cannot lock", &lock_path, source)),
        }
        let run = match read(path)? {
            Some(there) if there.command != run.command => {
                return Err(Error::OtherRun { path: path.to_owned(), there: there.command.join(" ") });
            }
            Some(there) => run.continuing(there),
            None => run,
        };
        let folder = Self { path: path.to_owned(), run, first: BTreeMap::new(), _lock: lock };
        folder.write()?;
        Ok(folder)
    }

    /// What is known of the run.
    pub fn run(&self) -> &FleetRun {
        &self.run
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the hosts of a list that have no result yet.
    pub fn without_result(&self, hosts: &[String]) -> Vec<String> {
        let has =
            |host: &&String| self.run.hosts.get(*host).is_some_and(|status| status.state == HostState::Done);
        hosts.iter().filter(|host| !has(host)).cloned().collect()
    }

    /// Begins to measure these hosts again. The result that a host has stays until it sends another one.
    pub fn measure_again(&mut self, hosts: &[String]) {
        for (host, status) in &mut self.run.hosts {
            if status.state == HostState::Done && hosts.contains(host) {
                self.first.insert(host.clone(), std::mem::take(status));
            }
        }
    }

    /// Ends the second measurement. Hosts without a second result have their first one again.
    pub fn keep_first_results(&mut self) {
        self.run.hosts.extend(self.first_that_stand());
        self.first.clear();
    }

    fn first_that_stand(&self) -> BTreeMap<String, HostStatus> {
        let stands = |host: &String| self.run.hosts.get(host).is_none_or(|now| now.state != HostState::Done);
        self.first
            .iter()
            .filter(|(host, _)| stands(host))
            .map(|(host, first)| (host.clone(), first.clone()))
            .collect()
    }

    /// Notes what happened to a host.
    pub fn note(&mut self, host: &str, event: HostEvent) {
        let status = self.run.hosts.entry(host.to_owned()).or_default();
        let (state, why) = match event {
            HostEvent::Waits(why) | HostEvent::Again(why) => (HostState::Waiting, why),
            HostEvent::Begins => (HostState::Running, String::new()),
            HostEvent::Down(why) => (HostState::Down, why),
            HostEvent::Late(why) => (HostState::Late, why),
            HostEvent::Unreachable(why) => (HostState::Unreachable, why),
            HostEvent::Failed(why) => (HostState::Failed, why),
            HostEvent::Interrupted => (HostState::Interrupted, String::new()),
        };
        *status = HostStatus { state, why, ..HostStatus::default() };
    }

    /// Keeps the record that a host sent, and writes its page.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn keep_record(&mut self, host: &str, reply: &Reply) -> Result {
        let record = match record_of(reply) {
            Ok(record) => record,
            Err(why) => {
                self.end(host, HostState::Failed, why, reply);
                return Ok(());
            }
        };
        let is_partial = record.interrupted;
        if is_partial && self.first.contains_key(host) {
            self.end(host, HostState::Interrupted, PARTIAL.to_owned(), reply);
            return Ok(());
        }
        let folder = self.node(host)?;
        write(&folder.join(RECORD), &reply.output)?;
        let page = manycore_report::html(&[NamedEvaluation::new(host.to_owned(), record)]);
        write(&folder.join(PAGE), page.as_bytes())?;
        if is_partial {
            self.end(host, HostState::Interrupted, PARTIAL.to_owned(), reply);
        } else {
            self.end(host, HostState::Done, String::new(), reply);
        }
        Ok(())
    }

    /// Keeps what a host printed.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn keep_output(&mut self, host: &str, reply: &Reply) -> Result {
        write(&self.node(host)?.join(OUTPUT), &reply.output)?;
        let why = if reply.code == 0 { String::new() } else { reply.last_line.clone() };
        self.end(host, HostState::Done, why, reply);
        Ok(())
    }

    /// Returns what the hosts printed that ran manycore, with the exit code of each.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn outputs(&self) -> Result<Vec<HostOutput>> {
        let done = self.run.hosts.iter().filter(|(_, status)| status.state == HostState::Done);
        let read = |(host, status): (&String, &HostStatus)| {
            let path = self.path.join(NODES).join(directory_name(host)).join(OUTPUT);
            let output = fs::read(&path).map_err(|source| failed("cannot read", &path, source))?;
            Ok((host.clone(), output, status.code.unwrap_or(0)))
        };
        done.map(read).collect()
    }

    fn end(&mut self, host: &str, state: HostState, why: String, reply: &Reply) {
        let status = HostStatus { state, why, code: Some(reply.code), seconds: Some(reply.seconds) };
        self.run.hosts.insert(host.to_owned(), status);
    }

    fn node(&self, host: &str) -> Result<PathBuf> {
        let folder = self.path.join(NODES).join(directory_name(host));
        create(&folder)?;
        Ok(folder)
    }

    /// Writes what is known of the run.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self) -> Result {
        let path = self.path.join(MANIFEST);
        let mut run = self.run.clone();
        run.hosts.extend(self.first_that_stand());
        let text = serde_json::to_vec_pretty(&run)
            .map_err(|error| failed("cannot write", &path, io::Error::other(error)))?;
        write(&path, &text)
    }
}

/// Returns what is known of the run of a folder; `None` where no run of manycore filled it.
///
/// # Errors
/// [`Error::Manifest`].
pub fn read(path: &Path) -> Result<Option<FleetRun>> {
    let path = path.join(MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(input_file::load_found(&path, &KIND)?))
}

/// Returns the directories of hosts in a folder, sorted.
///
/// # Errors
/// [`Error::NoFolder`]; [`Error::File`]: it cannot be read.
pub fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    let nodes = path.join(NODES);
    if !path.is_dir() {
        return Err(Error::NoFolder { path: path.to_owned() });
    }
    if !nodes.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&nodes).map_err(|source| failed("cannot read", &nodes, source))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    Ok(found)
}

/// Reads the record of a reply.
fn record_of(reply: &Reply) -> Result<Record, String> {
    if reply.output.is_empty() {
        return Err(match reply.code {
            0 => "the program there sent no record: is it manycore?".to_owned(),
            _ => reply.last_line.clone(),
        });
    }
    // These errors can quote all of the record.
    let record: Record = serde_json::from_slice(&reply.output).map_err(|error| {
        format!("its record cannot be read, does it have another version? {}", shown(&error.to_string()))
    })?;
    record.check().map_err(|error| format!("its record cannot be used: {}", shown(&error.to_string())))?;
    Ok(record)
}

fn create(path: &Path) -> Result {
    fs::create_dir_all(path).map_err(|source| failed("cannot create", path, source))
}

fn write(path: &Path, content: &[u8]) -> Result {
    whole_file::write(path, content).map_err(|source| failed("cannot write", path, source))
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(hosts: &[&str]) -> FleetRun {
        FleetRun {
            schema: RUN_SCHEMA.to_owned(),
            command: vec!["eval".to_owned(), "--quick".to_owned()],
            hosts: hosts.iter().map(|host| ((*host).to_owned(), HostStatus::default())).collect(),
            ..FleetRun::default()
        }
    }

    fn reply(output: &[u8], code: i32) -> Reply {
        Reply { output: output.to_vec(), code, last_line: "manycore: no".to_owned(), seconds: 1.0 }
    }

    #[test]
    fn an_interrupted_run_is_continued_with_what_is_left() {
        let home = tempfile::tempdir().unwrap();
        let hosts = ["a", "b"].map(str::to_owned);
        let mut folder = FleetFolder::begin(home.path(), run(&["a", "b"])).unwrap();
        folder.keep_output("a", &reply(b"x", 0)).unwrap();
        folder.note("b", HostEvent::Interrupted);
        folder.write().unwrap();
        assert!(matches!(FleetFolder::begin(home.path(), run(&["a"])), Err(Error::InUse { .. })));
        drop(folder);
        let folder = FleetFolder::begin(home.path(), run(&["a", "b"])).unwrap();
        assert_eq!(folder.without_result(&hosts), ["b"]);
        assert_eq!(folder.outputs().unwrap(), [("a".to_owned(), b"x".to_vec(), 0)]);
        drop(folder);
        let other = FleetRun { command: vec!["topo".to_owned()], ..run(&["a"]) };
        let error = FleetFolder::begin(home.path(), other).unwrap_err().to_string();
        assert!(error.contains("eval --quick"), "{error}");
    }

    #[test]
    fn a_host_that_is_lost_when_it_is_measured_again_keeps_its_first_result() {
        let home = tempfile::tempdir().unwrap();
        let mut folder = FleetFolder::begin(home.path(), run(&["a", "b"])).unwrap();
        folder.keep_output("a", &reply(b"x", 0)).unwrap();
        folder.keep_output("b", &reply(b"x", 0)).unwrap();
        folder.measure_again(&["a".to_owned(), "b".to_owned()]);
        folder.note("a", HostEvent::Begins);
        folder.note("b", HostEvent::Begins);
        folder.write().unwrap();
        // The process may be killed at any time.
        let stored = |host: &str| read(home.path()).unwrap().unwrap().hosts[host].state;
        assert_eq!((stored("a"), stored("b")), (HostState::Done, HostState::Done));
        folder.note("a", HostEvent::Down("drained".to_owned()));
        folder.keep_output("b", &reply(b"y", 0)).unwrap();
        folder.keep_first_results();
        folder.write().unwrap();
        assert_eq!((stored("a"), stored("b")), (HostState::Done, HostState::Done));
        let outputs = folder.outputs().unwrap();
        assert_eq!(outputs.iter().map(|one| one.1.as_slice()).collect::<Vec<_>>(), [b"x", b"y"]);
    }

    #[test]
    fn what_is_no_record_fails_the_host_and_not_the_run() {
        let home = tempfile::tempdir().unwrap();
        let mut folder = FleetFolder::begin(home.path(), run(&["a", "b", "c"])).unwrap();
        folder.keep_record("a", &reply(b"", 3)).unwrap();
        folder.keep_record("b", &reply(b"{}", 0)).unwrap();
        folder.keep_record("c", &reply(b"\xff\0", 0)).unwrap();
        let of = |host: &str| folder.run().hosts[host].clone();
        assert_eq!((of("a").state, of("a").why.as_str()), (HostState::Failed, "manycore: no"));
        assert!(of("b").why.contains("another version"), "{}", of("b").why);
        assert_eq!(of("c").state, HostState::Failed);
        // The error quotes the text, and the file that is written is read again.
        let long = format!("{{\"experiments\": \"{}\"}}", "\\\\".repeat(1 << 20));
        folder.keep_record("a", &reply(long.as_bytes(), 0)).unwrap();
        assert!(folder.run().hosts["a"].why.len() < 400);
    }
}
