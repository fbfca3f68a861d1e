//! Conditions of the machine that change seldom.

use super::FindingKind;
use manycore_linux::counters::KernelCounters;
use manycore_text::units::bytes;
use manycore_topology::{CpuId, CpuSet};
use std::{collections::BTreeMap, path::Path, time::Instant};

/// Pages per second from swap space for which programs wait noticeably.
const SWAPPED: f64 = 100.0;

/// Share of the memory below which little is available, as in the conditions of `eval`.
const LITTLE_MEMORY: f64 = 0.1;

/// Conditions of the machine at one moment.
#[derive(Clone, Debug)]
pub struct Conditions {
    at: Instant,
    /// CPUs that always run at their lowest frequency; empty in a virtual machine, whose host decides.
    slow_cpus: CpuSet,
    /// Times that the package of a CPU was slowed down because it was too hot, since boot.
    thermal_events: BTreeMap<CpuId, u64>,
    /// Pages that were read from swap space, since boot.
    swapped_pages: Option<u64>,
    /// Memory without huge pages, and the part of it that is available, in bytes.
    memory_bytes: Option<(u64, u64)>,
}

impl Conditions {
    /// Reads those of the system whose `/proc` and `/sys` are below `root`. Its CPUs are those that are online now.
    pub fn read(root: &Path, is_guest: bool) -> Self {
        let kernel = KernelCounters::at(root);
        let cpus: Vec<CpuId> = kernel.cpu_ticks().iter().map(|ticks| ticks.cpu).collect();
        let slow = if is_guest { Vec::new() } else { kernel.at_lowest_frequency(&cpus) };
        let huge = kernel.memory_bytes("Hugetlb").unwrap_or(0);
        let total = kernel.memory_bytes("MemTotal").map(|total| total.saturating_sub(huge));
        Self {
            at: Instant::now(),
            slow_cpus: slow.into_iter().collect(),
            thermal_events: kernel.thermal_events_by_cpu(&cpus),
            swapped_pages: kernel.pages_swapped_in(),
            memory_bytes: total.zip(kernel.memory_bytes("MemAvailable")),
        }
    }

    /// Returns when they were read.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns what is wrong now or was since `before`: kind, words, and how to mend it. Each kind is there once at most.
    pub fn problems(&self, before: &Self) -> Vec<(FindingKind, String, Option<String>)> {
        let mut problems = Vec::new();
        // A CPU that was offline has the events of all the time.
        let is_more =
            |(cpu, now): (&CpuId, &u64)| before.thermal_events.get(cpu).is_some_and(|old| now > old);
        let hot: CpuSet =
            self.thermal_events.iter().filter(|&one| is_more(one)).map(|(&cpu, _)| cpu).collect();
        if !hot.is_empty() {
            let text = format!("CPUs {} were slowed down because they were too hot", hot.brief());
            problems.push((FindingKind::TooHot, text, None));
        }
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let pages = self.swapped_pages.zip(before.swapped_pages).map(|(now, old)| now.saturating_sub(old));
        let swapped = pages.unwrap_or(0) as f64 / seconds;
        if swapped >= SWAPPED {
            let text = format!("{swapped:.0} pages/s were read from swap space: programs wait for them");
            problems.push((FindingKind::Swapping, text, None));
        }
        if let Some((total, available)) = self.memory_bytes
            && (available as f64) < total as f64 * LITTLE_MEMORY
        {
            let [available, total] = [available, total].map(bytes);
            let text = format!(
                "{available} of {total} of memory is available: programs may wait until the kernel has freed some"
            );
            problems.push((FindingKind::LittleMemory, text, None));
        }
        if !self.slow_cpus.is_empty() {
            let cpus = self.slow_cpus.brief();
            let text = format!(
                "CPUs {cpus} always run at their lowest frequency, as their governor is \"powersave\""
            );
            let fix = "cpupower frequency-set -g performance".to_owned();
            problems.push((FindingKind::Powersave, text, Some(fix)));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, time::Duration};

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn kinds(now: &Conditions, before: &Conditions) -> Vec<FindingKind> {
        now.problems(before).into_iter().map(|problem| problem.0).collect()
    }

    #[test]
    fn conditions_are_read_and_compared_with_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/stat", "cpu 1 1 1 1\ncpu0 1 1 1 1 0 0 0 0\ncpu1 1 1 1 1 0 0 0 0\n");
        let set = |driver: &str, events: [&str; 2], swapped: &str, available: &str| {
            for (cpu, events) in ["cpu0", "cpu1"].into_iter().zip(events) {
                let cpu = format!("sys/devices/system/cpu/{cpu}");
                write(root, &format!("{cpu}/cpufreq/scaling_governor"), "powersave\n");
                write(root, &format!("{cpu}/cpufreq/scaling_driver"), driver);
                write(root, &format!("{cpu}/thermal_throttle/package_throttle_count"), events);
            }
            write(root, "proc/vmstat", &format!("pgpgin 5\npswpin {swapped}\n"));
            let memory = format!("MemTotal: 1000 kB\nMemAvailable: {available} kB\nHugetlb: 800 kB\n");
            write(root, "proc/meminfo", &memory);
        };
        set("intel_pstate\n", ["3\n", "3\n"], "1000", "20");
        let before = Conditions::read(root, false);
        assert_eq!(kinds(&before, &before), []);
        set("acpi-cpufreq\n", ["3\n", "4\n"], "3000", "19");
        let mut now = Conditions::read(root, false);
        now.at = before.at + Duration::from_secs(10);
        let all =
            [FindingKind::TooHot, FindingKind::Swapping, FindingKind::LittleMemory, FindingKind::Powersave];
        assert_eq!(kinds(&now, &before), all);
        let texts: Vec<String> = now.problems(&before).into_iter().map(|problem| problem.1).collect();
        assert!(texts[0].starts_with("CPUs 1 were") && texts[1].starts_with("200 pages/s"), "{texts:?}");
        now.at = before.at + Duration::from_secs(100);
        assert_eq!(kinds(&now, &before), [all[0], all[2], all[3]], "20 pages/s are few");
        assert_eq!(kinds(&now, &now), all[2..]);
        assert_eq!(kinds(&Conditions::read(root, true), &now), [all[2]], "the host decides");
        // A CPU that was offline before.
        let mut fewer = before.clone();
        fewer.thermal_events.remove(&1);
        assert!(!kinds(&now, &fewer).contains(&FindingKind::TooHot));
    }

    #[test]
    fn what_a_system_does_not_have_is_no_problem() {
        let folder = tempfile::tempdir().unwrap();
        let none = Conditions::read(folder.path(), false);
        assert_eq!(kinds(&none, &none), []);
    }
}
