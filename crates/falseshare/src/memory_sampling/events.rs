//! Finds the performance events with which this machine's CPUs sample the addresses of loads and stores.
//!
//! A PMU is a folder below `/sys/bus/event_source/devices`. Its file `type` contains its number,
//! `events/NAME` the definition of an event (`event=0xcd,umask=0x1,ldlat=3`), and `format/FIELD` the bits of
//! a field (`config1:0-15`). See `Documentation/ABI/testing/sysfs-bus-event_source-devices-events`.

use crate::{Error, Result};
use std::{fs, path::Path};

/// Intel PMUs that may have memory events, including those of hybrid CPUs.
const INTEL: [&str; 3] = ["cpu", "cpu_core", "cpu_atom"];

/// AMD's PMU for instruction-based sampling of operations.
const AMD: &str = "ibs_op";

/// Minimum latency in cycles of sampled loads. Faster loads are served by the core's own cache.
const MIN_LATENCY: u64 = 30;

/// Sampling period: loads or stores per sample. It gives some thousand samples a second, and it is prime to
/// avoid beating with loops.
const PERIOD: u64 = 4_001;

/// Sampling period for AMD: operations per sample. The hardware ignores the lowest four bits.
const AMD_PERIOD: u64 = 65_536 + 16;

/// An event that is opened on each CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvent {
    /// Its name, in `perf`'s syntax.
    pub name: String,
    /// The type number of its PMU.
    pub kind: u32,
    /// Its values of `config`, `config1` and `config2`.
    pub config: [u64; 3],
    /// The sampling period in events; 0 for an event that only has to be open beside others.
    pub period: u64,
    /// The required precision of the instruction address (`precise_ip`).
    pub precise: u64,
    /// Whether it is in a group with the event before it.
    pub in_group: bool,
    /// Whether it can exclude the kernel.
    pub user_only: bool,
}

/// Returns the events of the system below `root`.
///
/// # Errors
/// [`Error::NoEvents`], which lists the files that were looked for.
pub fn find(root: &Path) -> Result<Vec<MemoryEvent>> {
    let devices = root.join("sys/bus/event_source/devices");
    let mut events = Vec::new();
    for name in INTEL {
        let pmu = Pmu { folder: &devices.join(name) };
        let Some(kind) = pmu.kind() else { continue };
        let loads = pmu.event("mem-loads", &[("ldlat", MIN_LATENCY)]);
        // From Sapphire Rapids on, loads are only recorded if this event is in their group.
        let aux = pmu.event("mem-loads-aux", &[]).filter(|_| loads.is_some());
        let with_aux = aux.is_some();
        let event = |name: String, config, period, in_group| MemoryEvent {
            name,
            kind,
            config,
            period,
            precise: if period > 0 { 2 } else { 0 },
            in_group,
            user_only: true,
        };
        events.extend(aux.map(|config| event(format!("{name}/mem-loads-aux/"), config, 0, false)));
        let words = format!("{name}/mem-loads,ldlat={MIN_LATENCY}/P");
        events.extend(loads.map(|config| event(words, config, PERIOD, with_aux)));
        let stores = pmu.event("mem-stores", &[]);
        events.extend(stores.map(|config| event(format!("{name}/mem-stores/P"), config, PERIOD, false)));
    }
    let ibs = Pmu { folder: &devices.join(AMD) };
    if let Some(kind) = ibs.kind() {
        let config = ibs.encoded("cnt_ctl=1", &[]).unwrap_or_default();
        let name = format!("{AMD}/cnt_ctl=1/");
        events.push(MemoryEvent { name, kind, config, period: AMD_PERIOD, ..MemoryEvent::default() });
    }
    if events.iter().any(|event| event.period > 0) {
        return Ok(events);
    }
    Err(Error::NoEvents(format!(
        "this CPU has no events that record the addresses of loads and stores: neither {}/{{cpu,cpu_core,cpu_atom}}/events/mem-loads \
         (Intel, missing in most virtual machines) nor {AMD} in the same directory (AMD) exists",
        devices.display()
    )))
}

/// One PMU.
struct Pmu<'a> {
    folder: &'a Path,
}

impl Pmu<'_> {
    fn read(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.folder.join(file)).ok()?.trim().to_owned())
    }

    fn kind(&self) -> Option<u32> {
        self.read("type")?.parse().ok()
    }

    /// Returns the register values of an event, with the given fields replaced.
    fn event(&self, name: &str, fields: &[(&str, u64)]) -> Option<[u64; 3]> {
        self.encoded(&self.read(&format!("events/{name}"))?, fields)
    }

    fn encoded(&self, words: &str, fields: &[(&str, u64)]) -> Option<[u64; 3]> {
        let mut config = [0; 3];
        for word in words.split(',') {
            let (field, value) = word.split_once('=').unwrap_or((word, "1"));
            let given = fields.iter().find(|(name, _)| *name == field).map(|(_, value)| *value);
            let value = given.or_else(|| number(value))?;
            // Fields without a `format` file have the bits that all Intel CPUs have used since 2008.
            let known = match field {
                "event" => Some("config:0-7".to_owned()),
                "umask" => Some("config:8-15".to_owned()),
                "ldlat" => Some("config1:0-15".to_owned()),
                _ => None,
            };
            let format = self.read(&format!("format/{field}")).or(known)?;
            place(&mut config, &format, value)?;
        }
        Some(config)
    }
}

/// Parses a number such as `0xcd` or `3`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Stores a value in the bits that a format such as `config:0-7,32-35` names, lowest bits first.
fn place(config: &mut [u64; 3], format: &str, mut value: u64) -> Option<()> {
    let (register, ranges) = format.split_once(':')?;
    let register = match register {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last > 63 || first > last {
            return None;
        }
        for bit in first..=last {
            config[register] |= (value & 1) << bit;
            value >>= 1;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join("sys/bus/event_source/devices").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn sapphire_rapids_samples_loads_with_an_auxiliary_event_and_stores() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                ("cpu/type", "4"),
                ("cpu/events/mem-loads-aux", "event=0x03,umask=0x82"),
                ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
                ("cpu/events/mem-stores", "event=0xcd,umask=0x2"),
                ("cpu/format/event", "config:0-7"),
                ("cpu/format/umask", "config:8-15,40-47"),
                ("cpu/format/ldlat", "config1:0-15"),
            ],
        );
        let events = find(folder.path()).unwrap();
        let short: Vec<_> = events
            .iter()
            .map(|event| (event.name.as_str(), event.config, event.period > 0, event.in_group))
            .collect();
        assert_eq!(
            short,
            [
                ("cpu/mem-loads-aux/", [0x8203, 0, 0], false, false),
                ("cpu/mem-loads,ldlat=30/P", [0x1cd, 30, 0], true, true),
                ("cpu/mem-stores/P", [0x2cd, 0, 0], true, false),
            ]
        );
        assert!(events.iter().all(|event| event.kind == 4 && event.user_only));
    }

    #[test]
    fn both_kinds_of_cores_of_a_hybrid_cpu_are_sampled() {
        let folder = tempfile::tempdir().unwrap();
        for (name, kind) in [("cpu_core", "4"), ("cpu_atom", "10")] {
            let loads = format!("{name}/events/mem-loads");
            write(
                folder.path(),
                &[(&format!("{name}/type"), kind), (&loads, "event=0xd0,umask=0x5,ldlat=3")],
            );
        }
        let kinds: Vec<u32> = find(folder.path()).unwrap().iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [4, 10]);
    }

    #[test]
    fn amd_samples_operations() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[("cpu/type", "4"), ("ibs_op/type", "11"), ("ibs_op/format/cnt_ctl", "config:19")],
        );
        let events = find(folder.path()).unwrap();
        assert_eq!((events.len(), events[0].kind, events[0].config), (1, 11, [1 << 19, 0, 0]));
        assert_eq!(events[0].period % 16, 0);
    }

    #[test]
    fn without_such_events_the_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[("cpu/type", "4"), ("software/type", "1")]);
        let said = find(folder.path()).unwrap_err().to_string();
        assert!(said.contains("event_source/devices/{cpu,cpu_core,cpu_atom}/events/mem-loads"), "{said}");
    }

    proptest! {
        #[test]
        fn hostile_formats_are_refused_or_placed(format in "(config[12]?:)?[0-9,-]{0,12}", value in any::<u64>()) {
            let _ = place(&mut [0; 3], &format, value);
        }
    }
}
