//! Reads the records of a folder.

use crate::{
    NodeRecord, Result,
    evaluation::MissingNode,
    folder::{self, HostState, HostStatus, RECORD, directory_name, host_name},
};
use manycore_experiment::{Record, record::RECORD_SCHEMA};
use manycore_linux::input_file::{self, FileKind};
use manycore_text::names::printable;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// The record of a host.
const KIND: FileKind = FileKind {
    name: "record",
    schema: RECORD_SCHEMA,
    origin: "the record.json of a measurement",
    max_bytes: 64 << 20,
};
/// Threads that read. More would wait for the file system.
const MOST_THREADS: usize = 16;

/// The records of a folder.
#[derive(Clone, Debug, Default)]
pub struct FleetRecords {
    /// When the run began, RFC 3339; that of the first record where no run of manycore filled the folder.
    pub started: String,
    /// The figures and properties of the nodes with a record.
    pub nodes: Vec<NodeRecord>,
    /// The nodes without one.
    pub missing: Vec<MissingNode>,
    /// The directories that are left out: those of no host of the run.
    pub strangers: Vec<String>,
}

impl FleetRecords {
    /// Whether it names no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.missing.is_empty()
    }
}

/// Reads the records below `nodes/` of a folder. Records are large: only what is compared of each is kept. `read` is called with
/// the number of records that were read so far.
///
/// # Errors
/// There is no such directory; [`crate::Error::Manifest`].
pub fn records(path: &Path, read: &(dyn Fn(usize) + Sync)) -> Result<FleetRecords> {
    let run = folder::read(path)?;
    let directories = folder::directories(path)?;
    let hosts: Option<Hosts> =
        run.as_ref().map(|run| run.hosts.iter().map(|host| (directory_name(host.0), host)).collect());
    let (found, mut missing) = all(&directories, hosts.as_ref(), read);
    let without = run.iter().flat_map(|run| &run.hosts).filter(|(_, status)| status.state != HostState::Done);
    missing.extend(without.map(|(host, status)| MissingNode {
        name: printable(host),
        state: status.state.word().to_owned(),
        why: printable(&status.why),
    }));
    missing.sort_by(|a, b| a.name.cmp(&b.name));
    let is_stranger =
        |name: &Cow<str>| hosts.as_ref().is_some_and(|hosts| !hosts.contains_key(name.as_ref()));
    let names = directories.iter().map(|directory| name_of(directory));
    let strangers = names.filter(is_stranger).map(Cow::into_owned).collect();
    let first = || found.iter().map(|node| node.started.clone()).min();
    let started = run.map(|run| run.started).or_else(first).unwrap_or_default();
    Ok(FleetRecords { started, nodes: found, missing, strangers })
}

/// The hosts of a run by the names of their directories.
type Hosts<'a> = BTreeMap<String, (&'a String, &'a HostStatus)>;

fn name_of(directory: &Path) -> Cow<'_, str> {
    directory.file_name().unwrap_or_default().to_string_lossy()
}

/// Reads the records of all directories but those whose host has no result by the run.
fn all(
    directories: &[PathBuf],
    hosts: Option<&Hosts>,
    read: &(dyn Fn(usize) + Sync),
) -> (Vec<NodeRecord>, Vec<MissingNode>) {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let missing = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(directory) = directories.get(next.fetch_add(1, Relaxed)) {
                    let name = name_of(directory);
                    let host = match hosts.map(|hosts| hosts.get(name.as_ref())) {
                        None => host_name(&name),
                        Some(Some((host, status))) if status.state == HostState::Done => (*host).clone(),
                        Some(_) => continue,
                    };
                    match one(directory, &name, &host) {
                        Ok(node) => {
                            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                            found.push(node);
                            read(found.len());
                        }
                        Err(why) => {
                            let node =
                                MissingNode { name: printable(&host), state: "unreadable".to_owned(), why };
                            missing.lock().unwrap_or_else(PoisonError::into_inner).push(node);
                        }
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|a, b| a.name.cmp(&b.name));
    (found, missing.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn one(directory: &Path, name: &str, host: &str) -> Result<NodeRecord, String> {
    let record: Record = input_file::load_found(&directory.join(RECORD), &KIND)
        .map_err(|error| printable(&error.to_string()))?;
    record.check().map_err(|error| printable(&error.to_string()))?;
    let mut node = NodeRecord::from_record(&printable(host), &record);
    if fs::exists(directory.join(folder::PAGE)).unwrap_or(false) {
        node.page = Some(format!("nodes/{name}/{}", folder::PAGE));
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{FleetFolder, FleetRun, RUN_SCHEMA};

    #[test]
    fn a_directory_beside_those_of_a_run_is_named() {
        let home = tempfile::tempdir().unwrap();
        let run = FleetRun {
            schema: RUN_SCHEMA.to_owned(),
            hosts: BTreeMap::from([("n1".to_owned(), HostStatus::default())]),
            ..FleetRun::default()
        };
        FleetFolder::begin(home.path(), run).unwrap().write().unwrap();
        fs::create_dir_all(home.path().join("nodes/n2")).unwrap();
        let found = records(home.path(), &|_| {}).unwrap();
        assert_eq!(found.missing.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n1"]);
        assert_eq!(found.strangers, ["n2"]);
    }
}
