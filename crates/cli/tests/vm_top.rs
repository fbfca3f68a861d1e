//! Tests of `manycore vm list` and `vm top` on real emulators with software emulation, and of every kind of
//! error.

use crate::common::{
    manycore, schema, text,
    watching::{Watching, put, resctrl, set},
};
use serde_json::Value;
use std::{
    io::ErrorKind,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A virtual machine without a disk; its firmware keeps looking for one.
struct Qemu(Child);

impl Qemu {
    /// Returns `None` if QEMU is not installed.
    fn start(name: &str, vcpus: u32, more: &[&str]) -> Option<Self> {
        let name = format!("guest={},debug-threads=on", name.replace(',', ",,"));
        let child = Command::new("qemu-system-x86_64")
            .args([
                "-accel",
                "tcg",
                "-m",
                "64",
                "-display",
                "none",
                "-nodefaults",
                "-smp",
                &vcpus.to_string(),
            ])
            .args(["-name", &name])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Self(child)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("SKIPPED: qemu-system-x86_64 is not installed");
                None
            }
            Err(error) => unreachable!("qemu-system-x86_64: {error}"),
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn vm(args: &[&str]) -> (i32, String, String) {
    let run = manycore().arg("vm").args(args).output().unwrap();
    (run.status.code().unwrap(), text(&run.stdout), text(&run.stderr))
}

/// Returns the domain of this process from one reading.
fn of(json: &str, pid: u32) -> Option<Value> {
    let look = schema::parse("vms", json);
    look["domains"].as_array().unwrap().iter().find(|domain| domain["pid"] == pid).cloned()
}

/// Waits until the emulator has started its virtual CPUs.
fn listed(qemu: &Qemu, vcpus: u64) -> Value {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let (code, out, err) = vm(&["list", "--format", "json"]);
        assert_eq!(code, 0, "{err}");
        match of(&out, qemu.0.id()).filter(|domain| domain["vcpus"] == vcpus) {
            Some(domain) => return domain,
            None => assert!(Instant::now() < deadline, "no such domain: {out}"),
        }
    }
}

#[test]
fn emulators_are_found_by_full_name() {
    let uuid = "4dea22b3-1d52-d8f3-2516-782e98ab3fa0";
    let Some(first) = Qemu::start("Größe, 1", 2, &["-uuid", uuid]) else { return };
    let Some(tenth) = Qemu::start("Größe, 10", 1, &["-S"]) else { return };
    let one = listed(&first, 2);
    assert_eq!((one["name"].as_str(), one["uuid"].as_str()), (Some("Größe, 1"), Some(uuid)));
    assert!(one["memory_bytes"].as_u64().unwrap() > 1 << 20);
    assert_eq!(listed(&tenth, 1)["name"], "Größe, 10");
    let (code, out, _) = vm(&["list"]);
    assert!(code == 0 && out.contains("Größe, 10  "), "{out}");
    let gone = tenth.0.id();
    drop(tenth);
    assert_eq!(of(&vm(&["list", "--format", "json"]).1, gone), None);
}

#[test]
fn usage_is_reported() {
    // The machine has nothing to boot from and retries forever.
    let Some(qemu) = Qemu::start("busy", 2, &["-boot", "reboot-timeout=0"]) else { return };
    listed(&qemu, 2);
    let (code, out, err) =
        vm(&["top", "--interval", "300ms", "--count", "3", "--vcpus", "--numa", "--format", "json"]);
    assert_eq!(code, 0, "{err}");
    let looks: Vec<Value> = out.lines().filter_map(|line| of(line, qemu.0.id())).collect();
    assert_eq!(looks.len(), 3);
    let last = &looks[2];
    let figure = |name: &str| last[name].as_f64();
    assert!(figure("cpu_percent").is_some_and(|cpu| cpu <= 100.0 * 64.0), "{last}");
    assert_eq!(figure("guest_percent"), Some(0.0));
    let threads = last["threads"].as_array().unwrap();
    assert_eq!(threads.iter().map(|thread| thread["vcpu"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(threads.iter().all(|thread| thread["cpu"].is_u64()), "{last}");
    if Path::new("/proc/self/schedstat").exists() {
        assert!(figure("wait_percent").is_some() && figure("switches_per_second").is_some(), "{last}");
    }
    if Path::new("/proc/self/numa_maps").exists() {
        let nodes = last["memory_by_node"].as_object().unwrap();
        assert!(nodes.values().filter_map(Value::as_u64).sum::<u64>() > 1 << 20, "{last}");
    }
    let (code, out, _) = vm(&["top", "--interval", "100ms", "--count", "1", "--sort", "name"]);
    assert!(code == 0 && out.contains("host: ") && out.contains("  busy  "), "{out}");
}

#[test]
fn no_domains_and_bad_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let (code, out, _) = vm(&["list", "--root", root]);
    assert_eq!((code, out.as_str()), (0, "No virtual machine is running.\n"));
    let (code, _, err) = vm(&["list", "--root", "/no/such/folder"]);
    assert!(code == 2 && err.contains("/no/such/folder"), "{err}");
    let (code, _, err) = vm(&["top", "--resctrl", root]);
    assert!(code == 3 && err.contains("not a resctrl file system"), "{err}");
    for wrong in [["--count", "0"], ["--sort", "colour"], ["--interval", "1us"]] {
        assert_eq!(vm(&["top", wrong[0], wrong[1]]).0, 2, "{wrong:?}");
    }
}

/// A process id that does not exist on this machine: above the kernel's maximum.
const PID: u32 = 4_194_400;
/// Contents of `/proc/PID/cgroup` under cgroup v1: with systemd, and with libvirt alone.
const V1: [&str; 2] = [
    "12:cpuset:/machine.slice/machine-qemu\\x2d10\\x2dweb.scope/emulator\n4:cpu,cpuacct:/\n1:name=systemd:/\n",
    "12:cpuset:/machine/qemu-10-web.libvirt-qemu/emulator\n4:cpu,cpuacct:/machine\n",
];

/// Sets the CPU time of the imitated process and of its virtual CPU, in ticks.
fn busy(root: &Path, user: u64) {
    let folder = root.join(format!("proc/{PID}"));
    let line = |tid: u32| {
        format!(
            "{tid} (CPU 0/KVM) S 1 1 1 0 -1 0 0 0 0 0 {user:<12} 0 0 0 20 0 2 0 7 0 4096{} 3{}\n",
            " 0".repeat(14),
            " 0".repeat(13)
        )
    };
    put(&folder.join("stat"), &line(PID));
    put(&folder.join(format!("task/{}/stat", PID + 1)), &line(PID + 1));
}

/// Creates a system with one domain, the tenth that libvirt has started.
fn system(cgroup: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let own = format!("proc/{PID}");
    let line = "/usr/bin/qemu-system-x86_64\0-name\0guest=web,debug-threads=on\0-S\0";
    let (task, vcpu) = (format!("{own}/task/{PID}"), format!("{own}/task/{}", PID + 1));
    for (path, contents) in [
        ("proc/stat".to_owned(), "cpu  100 0 100 1000 0 0 0 0 0 0\n"),
        ("proc/meminfo".to_owned(), "MemTotal: 1000 kB\nMemAvailable: 500 kB\n"),
        ("sys/devices/system/cpu/online".to_owned(), "0-1\n"),
        (format!("{own}/cmdline"), line),
        (format!("{own}/cgroup"), cgroup),
        (format!("{own}/status"), "Uid:\t0\t0\t0\t0\n"),
        (format!("{task}/comm"), "qemu-system-x86\n"),
        (format!("{vcpu}/comm"), "CPU 0/KVM\n"),
        (format!("{vcpu}/schedstat"), "1000 2000 3\n"),
    ] {
        put(&root.path().join(path), contents);
    }
    busy(root.path(), 100);
    root
}

fn top(root: &TempDir, resctrl: &TempDir) -> Watching {
    let [root, resctrl] = [root, resctrl].map(|folder| folder.path().to_str().unwrap());
    Watching::start(&["vm", "top", "--vcpus", "--root", root, "--resctrl", resctrl])
}

#[test]
fn domains_are_found_and_watched_on_cgroup_v1() {
    for cgroup in V1 {
        let (root, resctrl) = (system(cgroup), resctrl());
        let mut watching = top(&root, &resctrl);
        let web = |look: &Value| look["domains"][0].clone();
        let first = web(&watching.until(|look| web(look)["cpu_percent"] == 0.0));
        assert_eq!((&first["name"], &first["id"], &first["vcpus"]), (&"web".into(), &10.into(), &1.into()));
        assert_eq!(first["machine"], "qemu-10-web");
        assert_eq!(first["threads"][0]["cpu"], 3);
        busy(root.path(), 1_000_000);
        watching.until(|look| web(look)["cpu_percent"].as_f64().is_some_and(|cpu| cpu > 0.0));
        assert_eq!(watching.end(), Some(0));
    }
}

#[test]
fn traffic_of_a_domain_is_that_of_its_own_groups() {
    let (root, resctrl) = (system(V1[0]), resctrl());
    // The groups of qemu-1 and of another qemu-10 belong to other domains.
    let own = ["qemu-10-web-vcpus_0", "qemu-10-web-vcpus_1"];
    own.iter().chain(&["qemu-10-web2"]).for_each(|group| set(resctrl.path(), group, ["0", "0"]));
    let mut watching = top(&root, &resctrl);
    let traffic = |look: &Value| look["domains"][0]["bytes_per_second"].as_f64();
    watching.until(|look| traffic(look) == Some(0.0));
    for group in ["qemu-1-web", "qemu-10-web2"] {
        set(resctrl.path(), group, ["9000000", "9000000"]);
    }
    let look = watching.until(|look| look["host"]["bytes_per_second"].as_f64().is_some_and(|all| all > 0.0));
    assert_eq!(traffic(&look), Some(0.0), "{look}");
    set(resctrl.path(), own[1], ["0", "5000000"]);
    let look = watching.until(|look| traffic(look).is_some_and(|rate| rate > 0.0));
    let by = &look["domains"][0]["bytes_per_second_by_node"];
    assert!(by["L3 0"] == 0.0 && by["L3 1"].as_f64() == traffic(&look), "{look}");
    assert_eq!(look["host"].get("groups_without_rate"), None, "{look}");
    // A sum that lacks a part is too small: the domain then has none, and the host reports a group without a
    // figure.
    set(resctrl.path(), own[0], ["Unavailable", "Unavailable"]);
    let look = watching.until(|look| traffic(look).is_none());
    assert_eq!(look["host"]["groups_without_rate"], 1, "{look}");
    assert_eq!(watching.end(), Some(0));
}
