//! Reads `mon_data`: a directory per domain on all kernels but openEuler's 5.10, where it is a file.

use super::{Files, read::path};
use crate::resctrl::rates::{Monitor, Reading};
use manycore_topology::sys_tree::SysTree;
use std::{fs::File, os::unix::fs::FileExt};

/// Files in a domain's directory, and the events that they count.
const EVENTS: [(&str, Event); 3] = [
    ("llc_occupancy", Event::Occupancy),
    ("mbm_total_bytes", Event::Total),
    ("mbm_local_bytes", Event::Local),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Occupancy,
    Total,
    Local,
}

/// A file that counts one event of one domain.
#[derive(Debug)]
struct Place {
    resource: String,
    domain: u32,
    event: Event,
    path: String,
}

/// Reads the monitors of a group once.
pub(super) fn read(tree: &SysTree, group: &str, tells_rates: bool) -> Vec<Monitor> {
    let mut monitors = Vec::new();
    for place in places(tree, group) {
        let text = tree.read(&place.path).unwrap_or_default();
        add(&mut monitors, &place, Reading::parse(&text, place.is_rate(tells_rates)));
    }
    monitors
}

/// The monitors of one group, with their files kept open for repeated readings: a reading takes one system
/// call per file.
#[derive(Debug)]
pub struct Watch {
    /// The file's place, whether it holds a rate, and the open file; none if the limit of open files is
    /// reached.
    files: Vec<(Place, bool, Option<File>)>,
}

impl Watch {
    /// Opens the monitors of the group `name`; empty if the group is gone.
    pub fn open(files: &Files, name: &str) -> Self {
        let tells_rates = files.offer().dialect.monitors_tell_rates();
        let open = |place: Place| {
            let (is_rate, file) = (place.is_rate(tells_rates), files.tree.file(&place.path));
            (place, is_rate, file)
        };
        Self { files: places(&files.tree, name).into_iter().map(open).collect() }
    }

    /// Whether the group has no monitors.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads the current values; absent if the group is gone.
    pub fn read(&self, files: &Files) -> Option<Vec<Monitor>> {
        let mut monitors = Vec::new();
        for (place, is_rate, file) in &self.files {
            let mut bytes = [0; 32];
            let text = match file.as_ref().map(|file| file.read_at(&mut bytes, 0)) {
                Some(Ok(length)) => String::from_utf8_lossy(&bytes[..length]),
                Some(Err(error)) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => {
                    return None;
                }
                Some(Err(_)) => "".into(),
                None => files.tree.read(&place.path)?.into(),
            };
            add(&mut monitors, place, Reading::parse(&text, *is_rate));
        }
        Some(monitors)
    }
}

impl Place {
    /// Whether the file holds a rate: only memory bandwidth is reported as one.
    fn is_rate(&self, tells_rates: bool) -> bool {
        tells_rates && self.resource == "MB" && self.event != Event::Occupancy
    }
}

/// Returns all monitor files of a group, by resource and domain.
fn places(tree: &SysTree, group: &str) -> Vec<Place> {
    let folder = path(group, "mon_data");
    let mut places = Vec::new();
    for name in tree.list(&folder) {
        let Some((resource, domain)) = name.strip_prefix("mon_").and_then(|rest| rest.rsplit_once('_'))
        else {
            continue;
        };
        let Ok(domain) = domain.parse() else { continue };
        let place = |event, path| Place { resource: resource.to_owned(), domain, event, path };
        let inside = format!("{folder}/{name}");
        if tree.is_folder(&inside) {
            let files = tree.list(&inside);
            let known = EVENTS.iter().filter(|(file, _)| files.iter().any(|name| name == file));
            places.extend(known.map(|(file, event)| place(*event, format!("{inside}/{file}"))));
        } else {
            places.push(place(if resource == "MB" { Event::Total } else { Event::Occupancy }, inside));
        }
    }
    places
}

fn add(monitors: &mut Vec<Monitor>, place: &Place, reading: Reading) {
    let is_its =
        |monitor: &&mut Monitor| monitor.resource == place.resource && monitor.domain == place.domain;
    match monitors.iter_mut().find(is_its) {
        Some(monitor) => set(monitor, place.event, reading),
        None => {
            let mut monitor =
                Monitor { resource: place.resource.clone(), domain: place.domain, ..Monitor::default() };
            set(&mut monitor, place.event, reading);
            monitors.push(monitor);
        }
    }
}

fn set(monitor: &mut Monitor, event: Event, reading: Reading) {
    match event {
        Event::Occupancy => monitor.occupancy = Some(reading),
        Event::Total => monitor.total = Some(reading),
        Event::Local => monitor.local = Some(reading),
    }
}
