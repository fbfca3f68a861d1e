//! Figures beside those of mpstat, pidstat and numastat over the same interval, and beside the kernel's files.

use crate::enclosed::{Enclosed, Spinners, check, last_cpu, sample, sampler, start, wait_until_it_sleeps};
use manycore_linux::clock;
use manycore_top::{CpuTimes, GroupParts, Picture, Sample, Sampler, Wanted};
use manycore_topology::{
    Machine, SysTree,
    cgroup::{Hierarchies, HierarchyKind},
    read,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

/// A command that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn machine() -> Machine {
    read(&SysTree::open(Path::new("/")).unwrap()).unwrap()
}

/// Returns the averages of a table of sysstat: for each line the values by column. Only mpstat repeats its head.
fn averages(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let (mut head, mut rows): (Vec<&str>, _) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
        if words.iter().any(|word| word.starts_with('%')) {
            head = words;
        } else if line.starts_with("Average:") {
            rows.push(head.iter().copied().zip(words).collect());
        }
    }
    rows
}

fn number(row: &BTreeMap<&str, &str>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
fn shares_of_cpus_are_those_of_mpstat() {
    let _spinner = Spinners::start(1, last_cpu());
    let Some(run) = Enclosed::run_near("mpstat", &["-P", "ALL"]) else { return };
    let mut compared = 0;
    for row in &averages(&run.output) {
        let Ok(cpu) = row["CPU"].parse::<u32>() else { continue };
        let increase = |of: fn(&CpuTimes) -> u64| {
            run.increase(|sample| of(sample.cpus.iter().find(|times| times.cpu == cpu).unwrap()))
        };
        let all = increase(|t| t.user + t.nice + t.system + t.idle + t.iowait + t.irq + t.softirq + t.steal);
        // mpstat shows the time of guests apart.
        check(number(row, "%usr") + number(row, "%guest"), increase(|t| t.user), all, 0.02, "user");
        check(number(row, "%nice") + number(row, "%gnice"), increase(|t| t.nice), all, 0.02, "nice");
        check(number(row, "%sys"), increase(|t| t.system), all, 0.02, "system");
        check(number(row, "%irq"), increase(|t| t.irq), all, 0.02, "irq");
        check(number(row, "%soft"), increase(|t| t.softirq), all, 0.02, "softirq");
        check(number(row, "%steal"), increase(|t| t.steal), all, 0.02, "steal");
        check(number(row, "%idle"), increase(|t| t.idle), all, 0.02, "idle");
        compared += 1;
    }
    assert_eq!(compared, run.after.cpus.len(), "{}", run.output);
}

#[test]
fn cpu_time_and_waits_of_threads_are_those_of_pidstat() {
    let pid = std::process::id();
    let _spinners = Spinners::start(2, last_cpu());
    let Some(run) = Enclosed::run_near("pidstat", &["-t", "-u", "-p", &pid.to_string()]) else { return };
    let mut busy = 0;
    for row in averages(&run.output) {
        let of = |sample: &Sample| {
            sample
                .tasks
                .iter()
                .find(|task| task.id.pid == pid && task.id.tid.to_string() == row["TID"])
                .cloned()
        };
        // Threads of other tests come and go.
        if [&run.before, &run.first, &run.last, &run.after].iter().any(|sample| of(sample).is_none()) {
            continue;
        }
        let whole = run.ns.map(|ns| ns as f64);
        // Its times are in ticks of 10 ms, both of them in user mode and in the kernel.
        let tolerance = 100.0 * 0.02 / (run.ns[0] as f64 / 1e9);
        let times = run.increase(|sample| of(sample).unwrap().run_ns);
        check(number(&row, "%CPU"), times, whole, tolerance, "run");
        let waits = run.increase(|sample| of(sample).unwrap().wait_ns.unwrap());
        check(number(&row, "%wait"), waits, whole, tolerance, "wait");
        // Where other programs use that CPU, it is not known how much the spinners get of it.
        busy += usize::from(times[0] > 0.0 && waits[0] > 0.0 && number(&row, "%wait") > 0.0);
    }
    assert!(busy >= 2, "{}", run.output);
}

#[test]
fn memory_by_node_is_that_of_numastat() {
    let sleeper = Killed(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeper.0.id();
    wait_until_it_sleeps(&sleeper.0);
    let mut sampler = sampler();
    sampler.want(Wanted { nodes: true, memory_of: vec![pid], ..Wanted::default() });
    let now = sample(&mut sampler);
    let Some(child) = start("numastat", &["-p", &pid.to_string()]) else { return };
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    // `Total  4.34  4.34`: MiB of each node and of all, of files in huge pages too.
    let Some(line) = text.lines().rfind(|line| line.starts_with("Total")) else {
        return println!("SKIPPED: numastat shows nothing: {text}");
    };
    let theirs: Vec<f64> = line.split_ascii_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    let own = now.details[0].1.node_kib.clone().unwrap();
    let nodes: Vec<u32> = now.nodes.iter().map(|node| node.node).collect();
    assert_eq!(theirs.len(), nodes.len() + 1, "{text}");
    for (node, theirs) in nodes.iter().zip(&theirs) {
        let own = own.get(node).copied().unwrap_or(0) as f64 / 1024.0;
        assert!((own - theirs).abs() < 0.02, "node {node}: {own} MiB, {text}");
    }
    let node = now.nodes[0];
    assert!(node.total_kib > node.free_kib + node.file_kib && node.free_kib > 0, "{node:?}");
}

#[test]
fn counters_are_between_those_of_files_read_before_and_after() {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap();
        line.split_ascii_whitespace().next().unwrap().parse().unwrap()
    };
    let mut sampler = sampler();
    sampler.want(Wanted { interrupts: true, nodes: true, ..Wanted::default() });
    let files = || (read("/proc/stat"), read("/proc/softirqs"), read("/proc/meminfo"));
    let before = files();
    let now = sample(&mut sampler);
    let after = files();
    for (name, own) in [("ctxt", now.system.switches), ("processes", now.system.created)] {
        let own = own.unwrap();
        assert!(value(&before.0, name) <= own && own <= value(&after.0, name), "{name} {own}");
    }
    assert_eq!(now.system.memory_kib, Some(value(&before.2, "MemTotal:")));
    assert!(now.system.available_kib.unwrap() <= now.system.memory_kib.unwrap());
    let timer = now.interrupts.iter().find(|row| &*row.name == "softirq TIMER").unwrap();
    let sum = |text: &str| -> u64 {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("TIMER:")).unwrap();
        line.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap()).sum()
    };
    let own: u64 = timer.counts.iter().sum();
    assert!(sum(&before.1) <= own && own <= sum(&after.1), "{own}");
    assert!(now.interrupts.iter().any(|row| &*row.name == "LOC" || row.name.parse::<u32>().is_ok()));
}

/// A control group of the test.
struct TestGroup {
    path: PathBuf,
    is_unified: bool,
}

impl TestGroup {
    /// Creates a group with a quota of a fifth of a CPU; the reason if that is not possible here.
    fn create() -> Result<Self, String> {
        let tree = SysTree::open(Path::new("/")).unwrap();
        let root = Hierarchies::read(&tree).roots("cpu").pop().ok_or("no control groups")?;
        let path = Path::new("/").join(&root.path).join(format!("manycore-top-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let is_unified = root.flavour == HierarchyKind::Unified;
        let group = Self { path, is_unified };
        let quota = if is_unified {
            vec![("cpu.max", "20000 100000")]
        } else {
            vec![("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")]
        };
        for (file, text) in quota {
            group.write(file, text)?;
        }
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns a line of `cpu.stat`.
    fn stat(&self, name: &str) -> u64 {
        let text = fs::read_to_string(self.path.join("cpu.stat")).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().parse().unwrap()
    }

    fn throttled_ns(&self) -> u64 {
        if self.is_unified { self.stat("throttled_usec ") * 1000 } else { self.stat("throttled_time ") }
    }

    /// Returns the time on CPUs; `None` if that is in another hierarchy of version 1.
    fn used_ns(&self) -> Option<u64> {
        if self.is_unified {
            return Some(self.stat("usage_usec ") * 1000);
        }
        fs::read_to_string(self.path.join("cpuacct.usage")).ok()?.trim().parse().ok()
    }
}

/// A sample with the group's own files read before and after it.
struct ReadSample {
    sample: Sample,
    ns: [u64; 2],
    throttled_ns: [u64; 2],
    used_ns: [Option<u64>; 2],
}

impl ReadSample {
    fn take(sampler: &mut Sampler, group: &TestGroup) -> Self {
        let read = || (clock::now_ns(), group.throttled_ns(), group.used_ns());
        let before = read();
        let sample = sample(sampler);
        let (throttled_ns, used_ns) = (group.throttled_ns(), group.used_ns());
        let after = (clock::now_ns(), throttled_ns, used_ns);
        Self {
            sample,
            ns: [before.0, after.0],
            throttled_ns: [before.1, after.1],
            used_ns: [before.2, after.2],
        }
    }
}

/// Returns the least and the greatest increase of a counter that was read before and after two samples.
fn increase(old: [u64; 2], new: [u64; 2]) -> [f64; 2] {
    [new[0].saturating_sub(old[1]) as f64, (new[1] - old[0]) as f64]
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while fs::remove_dir(&self.path).is_err() && Instant::now() < deadline {
            thread::yield_now();
        }
    }
}

#[test]
fn a_group_at_its_quota_is_seen_throttled() {
    let group = match TestGroup::create() {
        Ok(group) => group,
        Err(why) => return println!("SKIPPED: no control group with a quota can be created: {why}"),
    };
    let busy = Killed(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    group.write("cgroup.procs", &busy.0.id().to_string()).unwrap();
    let mut sampler = sampler();
    sampler.want(Wanted { groups: GroupParts::All, ..Wanted::default() });
    let name = format!("/{}", group.path.file_name().unwrap().to_str().unwrap());
    let of = |sample: &Sample| sample.groups.iter().find(|group| *group.path == *name).unwrap().clone();
    let before = ReadSample::take(&mut sampler, &group);
    let deadline = Instant::now() + Duration::from_mins(1);
    while group.throttled_ns() < before.throttled_ns[1] + 500_000_000 {
        assert!(Instant::now() < deadline, "it is not throttled");
        thread::yield_now();
    }
    let now = ReadSample::take(&mut sampler, &group);
    let one = of(&now.sample);
    let [least, most] = now.throttled_ns;
    assert!((least..=most).contains(&one.throttled_ns.unwrap()), "{one:?}");
    assert_eq!((one.quota_milli, one.processes), (Some(200), 1));
    let picture = Picture::new(&machine(), &before.sample, &now.sample).unwrap();
    let used = picture.groups.iter().find(|group| *group.now.path == *name).unwrap();
    let ns = increase(before.ns, now.ns);
    let throttled = increase(before.throttled_ns, now.throttled_ns);
    assert!(throttled[0] >= 500_000_000.0, "{throttled:?}");
    check(100.0 * used.throttled.unwrap(), throttled, ns, 0.01, "throttled");
    assert_eq!(used.cpu.is_some(), now.used_ns[0].is_some(), "{used:?}");
    if let (Some(cpu), [Some(a), Some(b)], [Some(c), Some(d)]) = (used.cpu, before.used_ns, now.used_ns) {
        check(100.0 * cpu, increase([a, b], [c, d]), ns, 0.01, "cpu");
    }
}
