//! Reads `mon_data`: a directory per domain on all kernels but openEuler's 5.10, where it is a file.

use super::{Files, read::path};
use crate::resctrl::rates::{MonitorReading, Reading};
use manycore_topology::sys_tree::SysTree;
use std::{fs::File, os::unix::fs::FileExt};

/// Files in a domain's directory, and the events that they count.
const EVENTS: [(&str, MonitorEvent); 3] = [
    ("llc_occupancy", MonitorEvent::Occupancy),
    ("mbm_total_bytes", MonitorEvent::Total),
    ("mbm_local_bytes", MonitorEvent::Local),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MonitorEvent {
    Occupancy,
    Total,
    Local,
}

/// A file that counts one event of one domain.
#[derive(Debug)]
struct MonitorFile {
    resource: String,
    domain: u32,
    event: MonitorEvent,
    path: String,
}

/// Reads the monitors of a group once.
pub(super) fn read(tree: &SysTree, group: &str, reports_rates: bool) -> Vec<MonitorReading> {
    let mut monitors = Vec::new();
    for source in monitor_files(tree, group) {
        let text = tree.read(&source.path).unwrap_or_default();
        add(&mut monitors, &source, Reading::parse(&text, source.is_rate(reports_rates)));
    }
    monitors
}

/// The monitors of one group, with their files kept open for repeated readings: a reading takes one system
/// call per file.
#[derive(Debug)]
pub struct OpenMonitors {
    /// The file, whether it holds a rate, and the open file; none if the limit of open files is
    /// reached.
    files: Vec<(MonitorFile, bool, Option<File>)>,
}

impl OpenMonitors {
    /// Opens the monitors of the group `name`; empty if the group is gone.
    pub fn open(files: &Files, name: &str) -> Self {
        let reports_rates = files.capabilities().dialect.monitors_report_rates();
        let open = |source: MonitorFile| {
            let (is_rate, file) = (source.is_rate(reports_rates), files.tree.file(&source.path));
            (source, is_rate, file)
        };
        Self { files: monitor_files(&files.tree, name).into_iter().map(open).collect() }
    }

    /// Whether the group has no monitors.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads the current values; absent if the group is gone.
    pub fn read(&self, files: &Files) -> Option<Vec<MonitorReading>> {
        let mut monitors = Vec::new();
        for (source, is_rate, file) in &self.files {
            let mut bytes = [0; 32];
            let text = match file.as_ref().map(|file| file.read_at(&mut bytes, 0)) {
                Some(Ok(length)) => String::from_utf8_lossy(&bytes[..length]),
                Some(Err(error)) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => {
                    return None;
                }
                Some(Err(_)) => "".into(),
                None => files.tree.read(&source.path)?.into(),
            };
            add(&mut monitors, source, Reading::parse(&text, *is_rate));
        }
        Some(monitors)
    }
}

impl MonitorFile {
    /// Whether the file holds a rate: only memory bandwidth is reported as one.
    fn is_rate(&self, reports_rates: bool) -> bool {
        reports_rates && self.resource == "MB" && self.event != MonitorEvent::Occupancy
    }
}

/// Returns all monitor files of a group, by resource and domain.
fn monitor_files(tree: &SysTree, group: &str) -> Vec<MonitorFile> {
    let folder = path(group, "mon_data");
    let mut monitor_files = Vec::new();
    for name in tree.list(&folder) {
        let Some((resource, domain)) = name.strip_prefix("mon_").and_then(|rest| rest.rsplit_once('_'))
        else {
            continue;
        };
        let Ok(domain) = domain.parse() else { continue };
        let source = |event, path| MonitorFile { resource: resource.to_owned(), domain, event, path };
        let inside = format!("{folder}/{name}");
        if tree.is_folder(&inside) {
            let files = tree.list(&inside);
            let known = EVENTS.iter().filter(|(file, _)| files.iter().any(|name| name == file));
            monitor_files.extend(known.map(|(file, event)| source(*event, format!("{inside}/{file}"))));
        } else {
            monitor_files.push(source(
                if resource == "MB" { MonitorEvent::Total } else { MonitorEvent::Occupancy },
                inside,
            ));
        }
    }
    monitor_files
}

fn add(monitors: &mut Vec<MonitorReading>, source: &MonitorFile, reading: Reading) {
    let is_its = |monitor: &&mut MonitorReading| {
        monitor.resource == source.resource && monitor.domain == source.domain
    };
    match monitors.iter_mut().find(is_its) {
        Some(monitor) => set(monitor, source.event, reading),
        None => {
            let mut monitor = MonitorReading {
                resource: source.resource.clone(),
                domain: source.domain,
                ..MonitorReading::default()
            };
            set(&mut monitor, source.event, reading);
            monitors.push(monitor);
        }
    }
}

fn set(monitor: &mut MonitorReading, event: MonitorEvent, reading: Reading) {
    match event {
        MonitorEvent::Occupancy => monitor.occupancy = Some(reading),
        MonitorEvent::Total => monitor.total = Some(reading),
        MonitorEvent::Local => monitor.local = Some(reading),
    }
}
