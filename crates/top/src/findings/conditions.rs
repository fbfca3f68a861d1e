//! Findings about conditions of the machine that change seldom.

use super::{Finding, FindingKind};
use manycore_linux::counters::KernelCounters;
use manycore_topology::{CpuId, Machine};
use std::{path::Path, time::Instant};

/// Pages per second from swap space for which programs wait noticeably.
const SWAPPED: f64 = 100.0;

/// Conditions of the machine at one moment.
#[derive(Clone, Debug)]
pub struct Conditions {
    at: Instant,
    /// Governors of CPU frequency, each once; empty without cpufreq, and in a virtual machine, whose host decides.
    governors: Vec<String>,
    /// Times that CPUs were slowed down because they were too hot, since boot.
    thermal_events: Option<u64>,
    /// Pages that were read from swap space, since boot.
    swapped_pages: Option<u64>,
}

impl Conditions {
    /// Reads those of the system whose `/proc` and `/sys` are below `root`.
    pub fn read(root: &Path, machine: &Machine) -> Self {
        let kernel = KernelCounters::at(root);
        let cpus: Vec<CpuId> = machine.online.iter().collect();
        let is_guest = machine.system.hypervisor.is_some();
        Self {
            at: Instant::now(),
            governors: if is_guest { Vec::new() } else { kernel.governors(&cpus) },
            thermal_events: kernel.thermal_events(&cpus),
            swapped_pages: kernel.pages_swapped_in(),
        }
    }

    /// Returns the findings about now, and about the time since `before`. Each has held for that time.
    pub fn findings(&self, before: &Self) -> Vec<Finding> {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64();
        let grown =
            |now: Option<u64>, old: Option<u64>| now.zip(old).map_or(0, |(now, old)| now.saturating_sub(old));
        let mut findings = Vec::new();
        let mut add = |kind, text: String, fix: Option<&str>| {
            findings.push(Finding { kind, text, fix: fix.map(str::to_owned), seconds });
        };
        if grown(self.thermal_events, before.thermal_events) > 0 {
            let text =
                "CPUs were slowed down because they were too hot: figures of it are too low".to_owned();
            add(FindingKind::TooHot, text, None);
        }
        let swapped = grown(self.swapped_pages, before.swapped_pages) as f64 / seconds.max(f64::MIN_POSITIVE);
        if swapped >= SWAPPED {
            let text =
                format!("programs wait for {swapped:.0} pages/s of their memory, which was swapped out");
            add(FindingKind::Swapping, text, None);
        }
        if self.governors.iter().any(|name| name == "powersave") {
            let text = "some CPUs have the frequency governor \"powersave\": how fast they are depends on how busy they \
                        were before"
                .to_owned();
            add(FindingKind::Powersave, text, Some("cpupower frequency-set -g performance"));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::{SysTree, read};
    use std::{fs, time::Duration};

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn conditions_are_read_and_compared_with_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "sys/devices/system/cpu/online", "0-1\n");
        let set = |governor: &str, events: &str, swapped: &str| {
            for cpu in ["cpu0", "cpu1"] {
                let cpu = format!("sys/devices/system/cpu/{cpu}");
                write(root, &format!("{cpu}/cpufreq/scaling_governor"), governor);
                write(root, &format!("{cpu}/thermal_throttle/package_throttle_count"), events);
            }
            write(root, "proc/vmstat", swapped);
        };
        set("schedutil\n", "3\n", "pgpgin 5\npswpin 1000\n");
        let machine = read(&SysTree::open(root).unwrap()).unwrap();
        let before = Conditions::read(root, &machine);
        assert_eq!(before.findings(&before), []);
        set("powersave\n", "4\n", "pgpgin 9\npswpin 3000\n");
        let mut now = Conditions::read(root, &machine);
        now.at = before.at + Duration::from_secs(10);
        let kinds: Vec<FindingKind> = now.findings(&before).iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [FindingKind::TooHot, FindingKind::Swapping, FindingKind::Powersave]);
        assert!(now.findings(&before)[1].text.contains("200 pages/s"));
        now.at = before.at + Duration::from_secs(100);
        assert_eq!(now.findings(&before).len(), 2, "20 pages/s are few");
        assert_eq!(now.findings(&now).len(), 1, "the governor alone");
    }

    #[test]
    fn what_a_system_does_not_have_is_no_finding() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "sys/devices/system/cpu/online", "0\n");
        fs::create_dir_all(folder.path().join("sys/devices/system/cpu/cpu0")).unwrap();
        let machine = read(&SysTree::open(folder.path()).unwrap()).unwrap();
        let none = Conditions::read(folder.path(), &machine);
        assert_eq!(none.findings(&none), []);
    }
}
