//! Tests of `manycore irq` with the real binary: on copies of other machines, and on this one, whose
//! interrupts are restored afterwards.

use crate::common;
use manycore_control::journal;
use manycore_linux::interrupts::counts::{self, InterruptCounts};
use manycore_testkit::{Alone, alone};
use manycore_topology::{
    CpuId, CpuSet, SysTree,
    synthetic::{
        MachineSpec,
        extras::{PciDevice, add_device},
    },
};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Held by tests that move interrupts, or check that none is moved, so that they do not run at the same time.
fn one_at_a_time() -> Alone {
    alone("interrupts").unwrap()
}

fn irq(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
    command.arg("irq").args(arguments).env(journal::FOLDER_VARIABLE, state).output().unwrap()
}

fn json(state: &Path, arguments: &[&str]) -> Value {
    let run = irq(state, &[arguments, &["--format", "json"]].concat());
    assert_eq!(run.status.code(), Some(0), "{arguments:?}: {}", said(&run));
    common::schema::parse(if arguments[0] == "place" { "irq-moves" } else { "interrupts" }, &run.stdout)
}

fn said(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

/// Runs a command that must end with `code`; returns its standard error.
fn refused(code: i32, arguments: &[&str]) -> String {
    let state = tempfile::tempdir().unwrap();
    let run = irq(state.path(), arguments);
    assert_eq!(run.status.code(), Some(code), "{arguments:?}: {}", said(&run));
    assert!(fs::read_dir(state.path()).unwrap().next().is_none(), "a journal of {arguments:?} is left");
    said(&run)
}

fn now() -> InterruptCounts {
    counts::counts(&SysTree::open(Path::new("/")).unwrap()).unwrap().unwrap()
}

/// A machine of four CPUs with a card of eight queues, a disk whose queue the kernel manages, and a card
/// without a NUMA node.
fn server(folder: &TempDir) -> PathBuf {
    let mut files = MachineSpec { packages: 2, cores: 2, threads: 1, ..MachineSpec::default() }.capture();
    let device = |address, class, driver, node, name| PciDevice { address, class, driver, node, name };
    for device in [
        device("0000:03:00.0", 0x02_0000, "ixgbe", 1, "net/eth0"),
        device("0000:04:00.0", 0x01_0802, "nvme", 0, "block/nvme0n1"),
        device("0000:05:00.0", 0x02_0000, "e1000", -1, "net/eth9"),
        device("0000:06:00.0", 0x01_0601, "ahci", 0, "block/sda"),
    ] {
        add_device(&mut files, device);
    }
    let mut table = "CPU0 CPU1 CPU2 CPU3\n".to_owned();
    for queue in 0..8 {
        let irq = 60 + queue;
        let counts: Vec<&str> = (0..4).map(|cpu| if cpu == queue % 4 { "1000" } else { "0" }).collect();
        let counts = counts.join(" ");
        table += &format!("{irq}: {counts} IR-PCI-MSIX-0000:03:00.0 {queue}-edge  eth0-TxRx-{queue}\n");
        files.add_file(&format!("sys/bus/pci/devices/0000:03:00.0/msi_irqs/{irq}"), "msix");
        files.add_file(&format!("proc/irq/{irq}/smp_affinity_list"), "0-3");
        files.add_file(&format!("proc/irq/{irq}/effective_affinity_list"), &(queue % 4).to_string());
    }
    table += "81: 0 0 7 0 IR-PCI-MSIX-0000:04:00.0 1-edge  nvme0q1\n16: 5 0 0 0 IO-APIC 16-fasteoi  eth9\n";
    table += "LOC: 10 20 30 40 Local timer interrupts\nERR: 0\n";
    files.add_file("sys/bus/pci/devices/0000:04:00.0/msi_irqs/81", "msix");
    files.add_file("proc/irq/81/smp_affinity_list", "2-3");
    files.add_file("sys/kernel/debug/irq/irqs/81", "dstate:   0x1\n            IRQD_AFFINITY_MANAGED");
    files.add_file("proc/interrupts", &table);
    common::write(folder.path(), "server.machine", files.to_string().as_bytes())
}

#[test]
fn a_copied_machine_shows_its_counters_since_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = server(&folder);
    let root = path.to_str().unwrap();
    let all = json(folder.path(), &["show", "--root", root]);
    assert_eq!((&all["schema"], &all["seconds"]), (&Value::from("manycore/interrupts/1"), &Value::Null));
    let devices = all["devices"].as_array().unwrap();
    let told: Vec<String> = devices
        .iter()
        .map(|one| format!("{} {} {} {}", one["irq"], one["device_names"][0], one["node"], one["unmovable"]))
        .collect();
    assert_eq!(told[0], r#"60 "eth0" 1 false"#, "the busiest comes first");
    assert_eq!(told[8..], [r#"81 "nvme0n1" 0 true"#, r#"16 "eth9" null false"#]);
    assert_eq!(devices[3]["counts"], serde_json::json!({"3": 1000}));
    assert_eq!(all["cpus"][1], serde_json::json!({"cpu": 1, "devices": 2000, "architecture": 20}));
    let run = irq(folder.path(), &["show", "--root", root, "--device", "03:00.0"]);
    insta::assert_snapshot!("irq_of_a_card", String::from_utf8(run.stdout).unwrap());
    let run = irq(folder.path(), &["show", "--root", root, "--all"]);
    insta::assert_snapshot!("irq_of_a_server", String::from_utf8(run.stdout).unwrap());
}

#[test]
fn devices_without_interrupts_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = server(&folder);
    let root = path.to_str().unwrap();
    let show = |device: &str| refused(2, &["show", "--root", root, "--device", device]);
    let unknown = show("eth1");
    assert!(unknown.contains("\"eth1\"") && unknown.contains("eth0, eth9"), "{unknown}");
    let idle = show("sda");
    assert!(idle.contains("sda (0000:06:00.0, ahci) has no interrupts in use"), "{idle}");
    let bare =
        MachineSpec { packages: 1, cores: 2, threads: 1, ..MachineSpec::default() }.capture().to_string();
    let bare = common::write(folder.path(), "bare.machine", bare.as_bytes());
    let none = refused(3, &["show", "--root", bare.to_str().unwrap()]);
    assert!(none.contains("proc/interrupts"), "{none}");
}

#[test]
fn counts_for_the_requested_time() {
    if fs::read("/proc/interrupts").is_err() {
        return eprintln!("SKIPPED: /proc/interrupts cannot be read");
    }
    let folder = tempfile::tempdir().unwrap();
    let all = json(folder.path(), &["show", "--budget", "150ms", "--all"]);
    assert!(all["seconds"].as_f64().unwrap() >= 0.15);
    let cpus: Vec<u64> =
        all["cpus"].as_array().unwrap().iter().map(|on| on["cpu"].as_u64().unwrap()).collect();
    assert_eq!(cpus, now().cpus.iter().map(|&cpu| u64::from(cpu)).collect::<Vec<_>>());
    let taken = all["cpus"].as_array().unwrap().iter().map(|on| on["architecture"].as_u64().unwrap());
    assert!(taken.sum::<u64>() > 0, "{all}");
}

#[test]
fn missing_cpus_are_refused() {
    let Some(row) = now().rows.into_iter().find(|row| row.irq().is_some() && !row.handlers.is_empty()) else {
        return eprintln!("SKIPPED: no interrupt of a device here");
    };
    let name = row.handlers.split(", ").next().unwrap();
    let absent = refused(2, &["place", "--device", name, "--cpus", "0,70000"]);
    assert!(absent.contains("70000 not online"), "{absent}");
    let place = refused(2, &["place", "--device", name, "--place", "near=nothing"]);
    assert!(place.contains("nothing"), "{place}");
    refused(2, &["place", "--device", name]);
    refused(2, &["place", "--device", name, "--place", "close", "--cpus", "0"]);
    refused(2, &["place", "--device", name, "--place", "close", "--one-each"]);
}

#[test]
fn without_root_nothing_is_moved() {
    // The interrupt has a wide mask, which differs from the requested one, so that there is something to
    // write.
    let _alone = one_at_a_time();
    let Some((irq, name)) = movable().into_iter().next() else {
        return eprintln!("SKIPPED: no interrupt that can be moved");
    };
    let file = affinity(irq);
    let before = fs::read_to_string(&file).unwrap();
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
    command.args(["irq", "place", "--device", &name, "--cpus", &now().cpus[0].to_string()]);
    command.env(journal::FOLDER_VARIABLE, state.path()).current_dir("/");
    if rustix::process::getuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let run = match command.output() {
        Ok(run) => run,
        Err(error) => return eprintln!("SKIPPED: cannot run as another user: {error}"),
    };
    assert_eq!(run.status.code(), Some(3), "{}", said(&run));
    assert!(said(&run).contains("run it as root"), "{}", said(&run));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    assert!(fs::read_dir(state.path()).unwrap().next().is_none());
}

#[test]
fn managed_interrupts_are_not_moved() {
    let managed = now().rows.into_iter().find(|row| {
        let mode = row.irq().and_then(|irq| Some(fs::metadata(affinity(irq)).ok()?.permissions().mode()));
        mode.is_some_and(|mode| mode & 0o222 == 0) && !row.handlers.is_empty()
    });
    let Some(row) = managed else {
        return eprintln!("SKIPPED: no interrupt that the kernel reports as managed");
    };
    let cpu = now().cpus[0].to_string();
    let message = refused(3, &["place", "--device", &row.handlers, "--cpus", &cpu]);
    assert!(message.contains("cannot be moved"), "{message}");
}

fn affinity(irq: u32) -> PathBuf {
    format!("/proc/irq/{irq}/smp_affinity_list").into()
}

/// Returns interrupts with a name that can be moved and may use several CPUs.
fn movable() -> Vec<(u32, String)> {
    let is_movable = |irq: u32| {
        let several =
            fs::read_to_string(affinity(irq)).ok().and_then(|text| text.trim().parse::<CpuSet>().ok());
        let mode = fs::metadata(affinity(irq)).map_or(0, |metadata| metadata.permissions().mode());
        several.is_some_and(|cpus| cpus.len() > 1) && mode & 0o200 != 0
    };
    let rows = now().rows.into_iter().filter(|row| !row.handlers.is_empty());
    rows.filter_map(|row| Some((row.irq()?, row.handlers))).filter(|(irq, _)| is_movable(*irq)).collect()
}

/// Restores the CPUs of interrupts, however the test ends.
struct RestoreAffinities(Vec<(u32, String)>);

impl RestoreAffinities {
    fn of(irqs: &[u32]) -> Self {
        Self(irqs.iter().map(|&irq| (irq, fs::read_to_string(affinity(irq)).unwrap())).collect())
    }

    fn holds(&self) -> bool {
        self.0.iter().all(|(irq, text)| fs::read_to_string(affinity(*irq)).unwrap() == *text)
    }
}

impl Drop for RestoreAffinities {
    fn drop(&mut self) {
        for (irq, text) in &self.0 {
            let _ = fs::write(affinity(*irq), text.trim());
        }
    }
}

/// Returns the network interface with the default route, and its gateway (`/proc/net/route`: hexadecimal,
/// lowest byte first).
fn route() -> Option<(String, Ipv4Addr)> {
    let text = fs::read_to_string("/proc/net/route").ok()?;
    let default = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|fields| {
        fields.get(1) == Some(&"00000000") && fields.get(2).is_some_and(|gateway| *gateway != "00000000")
    })?;
    let gateway = u32::from_str_radix(default[2], 16).ok()?;
    Some((default[0].to_owned(), Ipv4Addr::from(gateway.to_le_bytes())))
}

/// Returns how many of these interrupts a CPU has taken.
fn interrupts_taken(irqs: &[u32], cpu: CpuId) -> u64 {
    let counts = now();
    let ours = counts.rows.iter().filter(|row| row.irq().is_some_and(|irq| irqs.contains(&irq)));
    ours.map(|row| counts.by_cpu(row).get(&cpu).copied().unwrap_or(0)).sum()
}

#[test]
fn interrupts_move_to_the_requested_cpus_and_back() {
    if !rustix::process::getuid().is_root() {
        return eprintln!("SKIPPED: not root");
    }
    let _alone = one_at_a_time();
    let Some((interface, gateway)) = route() else { return eprintln!("SKIPPED: no default route") };
    let state = tempfile::tempdir().unwrap();
    let run = irq(state.path(), &["show", "--device", &interface, "--budget", "1ms", "--format", "json"]);
    let Ok(shown) = serde_json::from_slice::<Value>(&run.stdout) else {
        return eprintln!("SKIPPED: {interface} has no interrupts here: {}", said(&run));
    };
    let all = shown["devices"].as_array().unwrap();
    let irqs: Vec<u32> = all.iter().map(|one| one["irq"].as_u64().unwrap() as u32).collect();
    let movable: Vec<u32> = movable().into_iter().map(|(irq, _)| irq).collect();
    if !irqs.iter().all(|irq| movable.contains(irq)) {
        return eprintln!("SKIPPED: the interrupts of {interface} cannot be moved");
    }
    let before = RestoreAffinities::of(&irqs);
    // One CPU after the other: the interrupts have to move to at least one of them.
    for cpu in now().cpus.into_iter().take(2) {
        let list = cpu.to_string();
        let moved = json(state.path(), &["place", "--device", &interface, "--cpus", &list]);
        for one in moved["moves"].as_array().unwrap() {
            assert_eq!((one["allowed"].as_str(), &one["refused"]), (Some(list.as_str()), &Value::Null));
        }
        assert!(moved["journal"].is_string(), "{moved}");
        let again = irq(state.path(), &["place", "--device", &interface, "--cpus", &list]);
        assert!(String::from_utf8(again.stdout).unwrap().contains("nothing was changed"));
        if !interrupts_reach(&irqs, cpu, gateway) {
            eprintln!("SKIPPED: no packet to {gateway} makes {interface} interrupt CPU {cpu}");
        }
    }
    assert!(!before.holds());
    // Newest first: each journal undoes its own changes.
    let (journals, problems) = journal::pending(state.path()).unwrap();
    assert!(problems.is_empty() && !journals.is_empty(), "{problems:?}");
    for journal in &journals {
        assert!(journal.header.persistent && journal.changes.len() == irqs.len(), "{journal:?}");
        assert!(journal.undo().unwrap().failed.is_empty());
    }
    assert!(before.holds(), "everything is restored");
}

/// Sends packets until `cpu` has taken interrupts for them. Each interrupt may occur once more on its old CPU
/// before it moves.
fn interrupts_reach(irqs: &[u32], cpu: CpuId, gateway: Ipv4Addr) -> bool {
    const ENOUGH: u64 = 20;
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let (before, deadline) = (interrupts_taken(irqs, cpu), Instant::now() + Duration::from_mins(1));
    while Instant::now() < deadline {
        // An error is the gateway's answer to an earlier packet.
        let _ = socket.send_to(b"manycore", (gateway, 9));
        if interrupts_taken(irqs, cpu) >= before + ENOUGH {
            return true;
        }
    }
    false
}

#[test]
fn interrupts_are_distributed_one_cpu_each() {
    if !rustix::process::getuid().is_root() {
        return eprintln!("SKIPPED: not root");
    }
    let _alone = one_at_a_time();
    let cpus = now().cpus;
    let movable = movable();
    let (Some((_, name)), true) = (movable.first(), cpus.len() > 1) else {
        return eprintln!("SKIPPED: no interrupt that can be moved, or only one CPU");
    };
    // Several interrupts may have that name.
    let _restore = RestoreAffinities::of(&movable.iter().map(|(irq, _)| *irq).collect::<Vec<_>>());
    let state = tempfile::tempdir().unwrap();
    let list = format!("{},{}", cpus[0], cpus[1]);
    let dealt = json(state.path(), &["place", "--device", name, "--cpus", &list, "--one-each"]);
    let asked: Vec<&str> =
        dealt["moves"].as_array().unwrap().iter().map(|one| one["requested"].as_str().unwrap()).collect();
    let in_turns: Vec<String> = asked.iter().enumerate().map(|(at, _)| cpus[at % 2].to_string()).collect();
    assert_eq!(asked, in_turns);
    for journal in journal::pending(state.path()).unwrap().0 {
        journal.undo();
    }
    let mut balancer = namesake(state.path(), "irqbalance");
    let run = irq(state.path(), &["place", "--device", name, "--place", "close"]);
    balancer.kill().unwrap();
    balancer.wait().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", said(&run));
    let ban = format!("--banirq={}", movable[0].0);
    assert!(said(&run).contains("irqbalance is running") && said(&run).contains(&ban), "{}", said(&run));
}

/// Starts a process called `name` that does nothing until its input ends.
fn namesake(folder: &Path, name: &str) -> Child {
    let path = folder.join(name);
    symlink("/bin/sh", &path).unwrap();
    Command::new(path).arg0("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap()
}
