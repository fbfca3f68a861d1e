//! Counters of the running kernel that show what happened during a measurement.
//!
//! All are running totals; the caller computes differences. Every counter may be absent.

use manycore_topology::CpuId;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Ticks of one CPU since boot (`/proc/stat`, proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    /// The CPU.
    pub cpu: CpuId,
    /// Ticks neither idle nor waiting for I/O, including stolen ones. A hypervisor that delays timer interrupts makes the
    /// kernel miss some.
    pub busy: u64,
    /// Ticks idle or waiting for I/O. None is missed: with `NO_HZ_IDLE` the kernel takes them from its clock.
    pub idle: u64,
    /// Ticks that the hypervisor gave to other virtual machines.
    pub steal: u64,
    /// Ticks in handlers of interrupts and in softirqs, as far as the kernel counts them (a kernel without
    /// `CONFIG_IRQ_TIME_ACCOUNTING` counts those that a timer tick happens to hit).
    pub interrupt: u64,
}

/// Scheduler counters of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounters {
    /// Time on a CPU in nanoseconds; see [`crate::clock::cpu_ns`].
    pub cpu_ns: Option<u64>,
    /// Time runnable but waiting for a CPU, in nanoseconds (`schedstat`, second field).
    pub run_delay_ns: Option<u64>,
    /// Migrations between CPUs (`sched`, `se.nr_migrations`; needs `CONFIG_SCHED_DEBUG`).
    pub migrations: Option<u64>,
    /// Voluntary context switches: the thread blocked (`status`).
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches: the thread was preempted (`status`).
    pub involuntary_switches: Option<u64>,
}

/// A kernel whose counters are read below a root directory.
#[derive(Clone, Debug)]
pub struct KernelCounters {
    root: PathBuf,
}

impl KernelCounters {
    /// Returns the kernel whose `/proc` and `/sys` are below `root`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn read(&self, path: &str) -> Option<String> {
        // A task's files contain the name that it has chosen, which need not be UTF-8.
        fs::read(self.root.join(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the ticks of all online CPUs in ascending order; empty if `/proc/stat` cannot be read.
    pub fn cpu_ticks(&self) -> Vec<CpuTicks> {
        self.read("proc/stat").map(|text| parse_stat(&text)).unwrap_or_default()
    }

    /// Returns the counters of thread `tid`, of this or another process.
    pub fn task(&self, tid: u32) -> TaskCounters {
        let read = |name: &str| self.read(&format!("proc/{tid}/{name}"));
        let status = read("status").unwrap_or_default();
        TaskCounters {
            cpu_ns: crate::clock::cpu_ns(tid),
            run_delay_ns: read("schedstat").and_then(|text| parse_run_delay(&text)),
            migrations: read("sched").and_then(|text| field(&text, "se.nr_migrations")),
            voluntary_switches: field(&status, "voluntary_ctxt_switches"),
            involuntary_switches: field(&status, "nonvoluntary_ctxt_switches"),
        }
    }

    /// Returns the time in which some task waited for a CPU, in nanoseconds, and its share of the last 10 s
    /// in percent (`Documentation/accounting/psi.rst`).
    pub fn cpu_pressure(&self) -> Option<(u64, f64)> {
        self.read("proc/pressure/cpu").and_then(|text| parse_pressure(&text))
    }

    /// Returns the time in which some task waited for memory, and its share of the last 10 s, as
    /// [`KernelCounters::cpu_pressure`] does.
    pub fn memory_pressure(&self) -> Option<(u64, f64)> {
        self.read("proc/pressure/memory").and_then(|text| parse_pressure(&text))
    }

    /// Returns the number of page faults that had to wait for a read from a disk (`pgmajfault` of `/proc/vmstat`).
    pub fn major_faults(&self) -> Option<u64> {
        self.read("proc/vmstat").and_then(|text| parse_named(&text, "pgmajfault"))
    }

    /// Returns the number of pages that were read from swap space since boot (`pswpin` of `/proc/vmstat`).
    pub fn pages_swapped_in(&self) -> Option<u64> {
        self.read("proc/vmstat").and_then(|text| parse_named(&text, "pswpin"))
    }

    /// Returns the time for which the cgroups of these `cpu.stat` files were throttled, in nanoseconds.
    /// `None` without files.
    pub fn throttled_ns(&self, cpu_stat_files: &[PathBuf]) -> Option<u64> {
        cpu_stat_files
            .iter()
            .filter_map(|file| parse_throttled(&fs::read_to_string(file).ok()?))
            .reduce(|a, b| a + b)
    }

    /// Returns the mean current frequency of `cpus` in kHz (`cpufreq/scaling_cur_freq`).
    pub fn frequency_khz(&self, cpus: &[CpuId]) -> Option<u64> {
        let each = self.numbers(cpus, "cpufreq/scaling_cur_freq");
        (!each.is_empty()).then(|| each.values().sum::<u64>() / each.len() as u64)
    }

    /// Returns the thermal throttling events of the packages of `cpus`
    /// (`thermal_throttle/package_throttle_count`).
    pub fn thermal_events(&self, cpus: &[CpuId]) -> Option<u64> {
        self.thermal_events_by_cpu(cpus).into_values().reduce(|a, b| a + b)
    }

    /// Returns the thermal throttling events of the package of each of `cpus`, as far as they are known.
    pub fn thermal_events_by_cpu(&self, cpus: &[CpuId]) -> BTreeMap<CpuId, u64> {
        self.numbers(cpus, "thermal_throttle/package_throttle_count")
    }

    /// Returns those of `cpus` that always run at their lowest frequency: with the governor `powersave`, unless the driver
    /// chooses frequencies itself (`Documentation/admin-guide/pm/intel_pstate.rst`, `amd-pstate.rst`).
    pub fn at_lowest_frequency(&self, cpus: &[CpuId]) -> Vec<CpuId> {
        let is_low = |cpu: &CpuId| {
            let value = |name: &str| self.read(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}"));
            let driver = value("scaling_driver").unwrap_or_default();
            value("scaling_governor").is_some_and(|governor| governor.trim() == "powersave")
                && !matches!(driver.trim(), "intel_pstate" | "amd-pstate-epp" | "amd_pstate_epp")
        };
        cpus.iter().copied().filter(is_low).collect()
    }

    /// Returns the frequency governors of `cpus`, each once.
    pub fn governors(&self, cpus: &[CpuId]) -> Vec<String> {
        let mut names: Vec<String> = cpus
            .iter()
            .filter_map(|cpu| self.read(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")))
            .map(|name| name.trim().to_owned())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether turbo is enabled: `intel_pstate/no_turbo`, or `cpufreq/boost`.
    pub fn turbo(&self) -> Option<bool> {
        let flag = |path: &str| self.read(path).map(|text| text.trim() == "1");
        flag("sys/devices/system/cpu/intel_pstate/no_turbo")
            .map(|off| !off)
            .or_else(|| flag("sys/devices/system/cpu/cpufreq/boost"))
    }

    /// Returns the clock source in use.
    pub fn clock_source(&self) -> Option<String> {
        self.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
            .map(|name| name.trim().to_owned())
    }

    /// Returns the load averages over 1, 5 and 15 minutes.
    pub fn load(&self) -> Option<[f64; 3]> {
        let text = self.read("proc/loadavg")?;
        let mut numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
        Some([numbers.next()?, numbers.next()?, numbers.next()?])
    }

    /// Returns the number of tasks that run or wait for a CPU (`/proc/loadavg`, before the slash).
    pub fn running(&self) -> Option<u32> {
        self.read("proc/loadavg")?.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
    }

    /// Returns a field of `/proc/meminfo` in bytes: `MemAvailable`, `SwapTotal`.
    pub fn memory_bytes(&self, name: &str) -> Option<u64> {
        field(&self.read("proc/meminfo")?, name)?.checked_mul(1024)
    }

    fn numbers(&self, cpus: &[CpuId], file: &str) -> BTreeMap<CpuId, u64> {
        let number = |&cpu: &CpuId| {
            let text = self.read(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"))?;
            Some((cpu, text.trim().parse().ok()?))
        };
        cpus.iter().filter_map(number).collect()
    }
}

/// Returns the clock ticks per second in which `/proc/stat` counts.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

fn parse_stat(text: &str) -> Vec<CpuTicks> {
    let mut cpus: Vec<CpuTicks> = text
        .lines()
        .filter_map(|line| {
            let (name, ticks) = line.split_once(' ')?;
            let cpu = name.strip_prefix("cpu")?.parse().ok()?;
            let ticks: Vec<u64> = ticks.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal; guest times are part of user and nice.
            let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
            let sum = |fields: &[usize]| fields.iter().map(|&field| at(field)).fold(0, u64::saturating_add);
            Some(CpuTicks {
                cpu,
                busy: sum(&[0, 1, 2, 5, 6, 7]),
                idle: sum(&[3, 4]),
                steal: at(7),
                interrupt: sum(&[5, 6]),
            })
        })
        .collect();
    cpus.sort_unstable_by_key(|ticks| ticks.cpu);
    cpus
}

/// `schedstat` holds the time on a CPU, the time waiting for one, and the number of time slices.
fn parse_run_delay(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

fn parse_pressure(text: &str) -> Option<(u64, f64)> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let value = |key: &str| some.split_whitespace().find_map(|word| word.strip_prefix(key));
    let total_us: u64 = value("total=")?.parse().ok()?;
    Some((total_us.checked_mul(1000)?, value("avg10=")?.parse().ok()?))
}

/// Returns the number in the line `name 12` of `/proc/vmstat` or `cpu.stat`.
fn parse_named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// cgroup v2 reports `throttled_usec`, v1 `throttled_time` in nanoseconds.
fn parse_throttled(text: &str) -> Option<u64> {
    let in_us = parse_named(text, "throttled_usec").and_then(|us| us.checked_mul(1000));
    in_us.or_else(|| parse_named(text, "throttled_time"))
}

/// Returns the number in `name : 12` or `name:   12 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_start().strip_prefix(':')?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn proc_stat_is_read() {
        let text = "cpu  9 9 9 9\ncpu0 1058 1 279 7964 152 3 7 2 5 0\ncpu17 1 0 0 9\nintr 5\n";
        assert_eq!(
            parse_stat(text),
            [
                CpuTicks { cpu: 0, busy: 1350, idle: 8116, steal: 2, interrupt: 10 },
                CpuTicks { cpu: 17, busy: 1, idle: 9, steal: 0, interrupt: 0 }
            ]
        );
    }

    #[test]
    fn pressure_and_throttling_are_read_in_nanoseconds() {
        let pressure = "some avg10=0.19 avg60=0.45 avg300=0.33 total=13685025\nfull avg10=0.00 total=0\n";
        assert_eq!(parse_pressure(pressure), Some((13_685_025_000, 0.19)));
        assert_eq!(parse_throttled("nr_periods 3\nnr_throttled 2\nthrottled_usec 15\n"), Some(15_000));
        assert_eq!(parse_throttled("nr_throttled 2\nthrottled_time 15\n"), Some(15));
        assert_eq!(parse_throttled("usage_usec 1\n"), None);
    }

    #[test]
    fn a_line_of_vmstat_is_found_by_its_whole_name() {
        let text = "pgfault 191\npgmajfault 110819\npgmajfault_s 3\n";
        assert_eq!(parse_named(text, "pgmajfault"), Some(110_819));
        assert_eq!(parse_named(text, "pgmaj"), None);
    }

    #[test]
    fn fields_are_found_whatever_the_spacing() {
        assert_eq!(
            field(
                "se.nr_migrations                             :                   42\n",
                "se.nr_migrations"
            ),
            Some(42)
        );
        assert_eq!(field("MemTotal:       16384 kB\n", "MemTotal"), Some(16384));
        assert_eq!(field("MemTotalX: 1\n", "MemTotal"), None);
    }

    #[test]
    fn this_thread_has_counters() {
        let kernel = KernelCounters::at(Path::new("/"));
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(kernel.task(tid).voluntary_switches.is_some());
        assert!(!kernel.cpu_ticks().is_empty());
        assert!(kernel.major_faults().is_some());
    }

    #[test]
    fn without_proc_all_counters_are_absent() {
        let kernel = KernelCounters::at(Path::new("/nonexistent"));
        assert_eq!(kernel.task(u32::MAX >> 4), TaskCounters::default());
        assert!(kernel.cpu_ticks().is_empty() && kernel.cpu_pressure().is_none() && kernel.load().is_none());
        assert_eq!((kernel.frequency_khz(&[0]), kernel.throttled_ns(&[])), (None, None));
    }

    proptest! {
        #[test]
        fn hostile_text_breaks_no_parser(text in "[a-z0-9=.: \n]{0,200}|\\PC{0,80}") {
            let _ = (parse_stat(&text), parse_run_delay(&text), parse_pressure(&text), parse_throttled(&text));
            let _ = (field(&text, "a"), parse_named(&text, "a"));
        }
    }
}
