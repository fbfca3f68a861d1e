use super::*;
use manycore_linux::resctrl::{Files, Mount};
use manycore_topology::machine::{Allowed, Group};
use std::{collections::BTreeMap, fs};

/// An invented machine below a folder.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Writes all files. Counters grow with `moment`.
    fn at(&self, moment: u64) -> &Self {
        let ticks =
            |idle: u64| format!("{} 0 0 {} 0 {moment} {moment} {moment} 0 0", 90 * moment, idle * moment);
        let lines = [0, 1, 2, 3].map(|cpu| format!("cpu{cpu} {}", ticks(10 + 20 * cpu)));
        self.write("proc/stat", &lines.join("\n"));
        self.write("proc/self/schedstat", "1 2 3");
        self.write(
            "proc/7/stat",
            &format!("7 (redis) S 1 2 3 0 -1 0 0 0 0 0 {} 0 0 0 20 0 1 0 9", 30 * moment),
        );
        self.write("proc/7/task/7/schedstat", &format!("5 {} 1", 2_000_000 * moment));
        self.write("proc/7/task/8/schedstat", &format!("5 {} 1", 3_000_000 * moment));
        let interrupts = format!(
            "  CPU0 CPU1 CPU2 CPU3\n 36: {m} 0 {m} {m} PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n \
             27: {m} {m} {m} {m} GICv3 27 Level     arch_timer\nLOC: {m} {m} {m} {m} Local timer interrupts\n",
            m = 100 * moment
        );
        self.write("proc/interrupts", &interrupts);
        let pressure = |us: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n", us * moment);
        self.write("proc/pressure/cpu", &pressure(40_000));
        self.write("proc/pressure/memory", &pressure(5_000));
        self.write("proc/net/softnet_stat", &format!("00000001 {moment:08x} {moment:08x} 00000000\n"));
        self.write("proc/self/net/snmp", &format!("Tcp: RetransSegs InErrs\nTcp: {} 0\n", 4 * moment));
        self.write("proc/self/net/netstat", "TcpExt: ListenDrops\nTcpExt: 9\n");
        self.write("proc/vmstat", &format!("pgfault 5\npgmajfault {}\n", 6 * moment));
        self.write(
            "groups/service/cpu.stat",
            &format!("nr_periods 1\nthrottled_time {}\n", 8_000_000 * moment),
        );
        self.write("groups/cpu.stat", &format!("nr_periods 1\nthrottled_usec {}\n", 1_000 * moment));
        let own_group = "proc/self/mountinfo";
        self.write(own_group, "34 31 0:31 / /groups rw,relatime - cgroup cgroup rw,cpu\n");
        self.write(&format!("proc/{}/cgroup", std::process::id()), "1:cpu:/\n");
        self
    }

    fn monitors(&self, moment: u64) -> Files {
        for (group, tasks) in [("", "7\n8\n"), ("other/", "9\n")] {
            let folder = format!("resctrl/{group}mon_data/mon_L3_00");
            self.write(&format!("{folder}/mbm_total_bytes"), &format!("{}\n", 1_500_000_000 * moment));
            self.write(&format!("{folder}/llc_occupancy"), &format!("{}\n", 3 << 20));
            self.write(&format!("resctrl/{group}tasks"), tasks);
        }
        let point = self.root().join("resctrl");
        Files::new(SysTree::open(&point).unwrap(), None, Mount { point, options: Vec::new() })
    }
}

/// Two cores of two CPUs.
fn machine() -> Machine {
    let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
    Machine {
        online: cpus("0-3"),
        allowed: Allowed { cpus: cpus("0-3"), ..Allowed::default() },
        cores: ["0-1", "2-3"].map(|list| Group { id: None, cpus: cpus(list) }).to_vec(),
        ..Machine::default()
    }
}

/// Returns the values by name between two moments of `host`, which are a second apart.
fn values(host: &Host, reader: &ResourceReader, group: Option<&Path>) -> BTreeMap<String, f64> {
    host.at(1).monitors(1);
    let before = reader.snapshot(&[7], group);
    host.at(2).monitors(2);
    let mut after = reader.snapshot(&[7], group);
    after.at_ns = before.at_ns;
    for (name, readings) in &mut after.monitors {
        readings.at_ns = before.monitors[name].at_ns;
    }
    let values = reader.values(&before, &after.a_second_later());
    let names = reader.metrics().into_iter().map(|metric| metric.name);
    names.zip(values).collect()
}

#[test]
fn each_figure_has_its_unit() {
    let host = Host::new();
    let monitors = host.at(1).monitors(1);
    let tree = SysTree::open(host.root()).unwrap();
    let bound: CpuSet = "0".parse().unwrap();
    let reader = ResourceReader::with_monitors(&machine(), Some(&bound), (host.root(), tree), Some(monitors));
    let found = values(&host, &reader, Some(&host.root().join("groups/service")));
    let hz = ticks_per_second() as f64;
    let expected = [
        ("run delay", 5.0),
        // That of the group and of the one around it.
        ("throttled", 9.0),
        ("CPU use", 30.0 / hz),
        ("CPUs busy", 100.0 - 100.0 * 40.0 / hz),
        ("SMT siblings busy", 100.0 - 100.0 * 30.0 / hz),
        ("interrupt time", 100.0 * 2.0 / hz),
        ("steal", 100.0 / hz),
        ("device interrupts", 100.0),
        ("CPU pressure", 40.0),
        ("memory pressure", 5.0),
        ("softnet drops+squeezes", 2.0),
        ("TCP retransmits+drops", 4.0),
        ("major faults", 6.0),
        ("memory bandwidth", 3.0),
    ];
    for (name, value) in expected {
        assert!((found[name] - value).abs() < 1e-9, "{name}: {} instead of {value}", found[name]);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn occupancy_is_that_of_the_groups_of_the_observed_instance() {
    let host = Host::new();
    let monitors = host.at(1).monitors(1);
    // This process is that of the first reading.
    host.write(&format!("proc/{}/task/9/schedstat", std::process::id()), "1 1 1");
    let tree = SysTree::open(host.root()).unwrap();
    let reader = ResourceReader::with_monitors(&machine(), None, (host.root(), tree), Some(monitors));
    let found = values(&host, &reader, None);
    assert!((found["LLC occupancy"] - 3.0).abs() < 1e-9);
    // Not bound: no CPU is a sibling, and interrupts of all CPUs count.
    assert!(!found.contains_key("SMT siblings busy"));
    assert!((found["device interrupts"] - 300.0).abs() < 1e-9);
}

#[test]
fn an_empty_machine_has_no_figures() {
    let host = Host::new();
    let reader = ResourceReader::new(&Machine::default(), None, host.root()).unwrap();
    assert!(reader.metrics().is_empty());
    let nothing = reader.snapshot(&[7], None);
    assert!(reader.values(&nothing, &nothing).is_empty());
    assert!(ResourceReader::new(&Machine::default(), None, Path::new("/nonexistent")).is_err());
}

#[test]
fn an_instance_that_has_ended_has_finite_values() {
    let host = Host::new();
    host.at(1);
    let reader = ResourceReader::new(&machine(), None, host.root()).unwrap();
    let before = reader.snapshot(&[7], Some(&host.root().join("groups/service")));
    fs::remove_dir_all(host.root().join("proc/7")).unwrap();
    fs::remove_dir_all(host.root().join("groups")).unwrap();
    let after = reader.snapshot(&[7], Some(&host.root().join("groups/service")));
    for (before, after) in [(&before, &after), (&after, &before), (&after, &after)] {
        let values = reader.values(before, after);
        assert_eq!(values.len(), reader.metrics().len());
        assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
    }
}

#[test]
fn this_process_has_plausible_figures() {
    let machine = manycore_topology::read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let cpus = machine.usable();
    let reader = ResourceReader::new(&machine, Some(&cpus), Path::new("/")).unwrap();
    let pids = [std::process::id()];
    let before = reader.snapshot(&pids, None);
    let end = manycore_linux::clock::process_cpu_ns(pids[0]).unwrap() + 100_000_000;
    while manycore_linux::clock::process_cpu_ns(pids[0]).unwrap() < end {}
    let after = reader.snapshot(&pids, None);
    let values = reader.values(&before, &after);
    for (metric, value) in reader.metrics().iter().zip(&values) {
        eprintln!("{:24} {value:10.3} {}", metric.name, metric.unit);
        assert!(value.is_finite() && *value >= 0.0);
        assert!(metric.unit != "%" || *value <= 100.0);
    }
    let of = |resource: Resource| {
        let place = reader.metrics().iter().position(|metric| metric.name == resource.name());
        place.map(|place| values[place])
    };
    assert!(of(Resource::CpuUse).unwrap() > 0.0);
    assert!(of(Resource::CpusBusy).unwrap() > 0.0);
}

/// A process that is ended with the test.
struct Busy(std::process::Child);

impl Busy {
    fn on(cpu: &CpuSet) -> Self {
        let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        manycore_linux::affinity::restrict(child.id(), cpu).unwrap();
        Self(child)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn processes_that_share_a_cpu_wait_for_it() {
    let machine = manycore_topology::read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let cpu = CpuSet::single(machine.usable().first().unwrap());
    let busy = [Busy::on(&cpu), Busy::on(&cpu)];
    let [observed, other] = busy.each_ref().map(|busy| busy.0.id());
    let used = |pid: u32| manycore_linux::clock::process_cpu_ns(pid).unwrap();
    let reader = ResourceReader::new(&machine, Some(&cpu), Path::new("/")).unwrap();
    if !reader.metrics().iter().any(|metric| metric.name == Resource::RunDelay.name()) {
        return eprintln!("SKIPPED: this kernel does not count run delay");
    }
    let before = reader.snapshot(&[observed], None);
    let ends = [observed, other].map(|pid| (pid, used(pid) + 150_000_000));
    while ends.iter().any(|(pid, end)| used(*pid) < *end) {
        std::thread::yield_now();
    }
    let values = reader.values(&before, &reader.snapshot(&[observed], None));
    let metrics = reader.metrics();
    let of = |resource: Resource| {
        values[metrics.iter().position(|metric| metric.name == resource.name()).unwrap()]
    };
    eprintln!("run delay {:.0} ms/s, CPU use {:.2}", of(Resource::RunDelay), of(Resource::CpuUse));
    // It waits while the other one runs.
    assert!(of(Resource::RunDelay) > 100.0 && of(Resource::CpuUse) < 0.9);
}
