use super::*;
use crate::vms::CpuTime;
use manycore_topology::capture::Capture;
use std::{fs, path::Path};

/// Returns a `stat` line: 1 s in user mode of which half in the guest, a quarter of a second in the kernel,
/// 64 MiB.
fn stat(pid: u32, name: &str, threads: u32, started: u64) -> String {
    let mut fields: Vec<String> = vec!["0".to_owned(); 53];
    fields[3] = "S".to_owned();
    for (at, value) in
        [(14, 100), (15, 25), (20, u64::from(threads)), (22, started), (24, 16_384), (39, 5), (43, 50)]
    {
        fields[at] = value.to_string();
    }
    format!("{pid} ({name}) {}", fields[3..].join(" "))
}

/// Returns the files of a domain whose threads are `vcpus` virtual CPUs and one other thread.
fn domain(pid: u32, value: &str, cgroup: &str, vcpus: u32) -> Vec<(String, String)> {
    let at = |file: &str| format!("proc/{pid}/{file}");
    let line = format!("/usr/bin/qemu-system-x86_64\0-name\0{value}\0-uuid\0aa-{pid}\0-S\0");
    let mut files = vec![
        (at("cmdline"), line),
        (at("cgroup"), cgroup.to_owned()),
        (at("stat"), stat(pid, "qemu) S x", vcpus + 1, 77)),
        (at("status"), "Name:\tqemu\nUid:\t1000\t1000\t1000\t1000\nHugetlbPages:\t    2048 kB\n".to_owned()),
        (at(&format!("task/{pid}/comm")), "qemu-system-x86\n".to_owned()),
    ];
    for vcpu in 0..vcpus {
        let task = format!("task/{}", pid + 1 + vcpu);
        files.push((at(&format!("{task}/comm")), format!("CPU {vcpu}/KVM\n")));
        files.push((at(&format!("{task}/schedstat")), "5000 600 70\n".to_owned()));
        files.push((at(&format!("{task}/stat")), stat(pid + 1 + vcpu, "CPU 0/KVM", 1, 78)));
    }
    files
}

fn tree(files: &[(String, String)]) -> SysTree {
    let mut capture = Capture::default();
    for (path, text) in files {
        capture.add_file(path, text);
    }
    SysTree::from_capture(capture)
}

const UNIFIED: &str = "0::/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/emulator\n";
const FIRST: &str = "12:pids:/\n5:cpuset:/machine/qemu-10-web,0.libvirt-qemu/emulator\n0::/\n";

#[test]
fn domains_are_found_with_any_cgroup_version() {
    let mut files = domain(100, "guest=web,debug-threads=on", UNIFIED, 2);
    files.extend(domain(200, "guest=web,,0 ü,debug-threads=on", FIRST, 1));
    files.extend(domain(300, "by hand", "0::/user.slice/session-1.scope", 0));
    files.push(("proc/400/cmdline".to_owned(), "grep\0-name\0guest=web\0".to_owned()));
    files.push(("proc/400/stat".to_owned(), stat(400, "grep", 1, 5)));
    files.push(("sys/kernel/debug/kvm/200-12/exits".to_owned(), "987\n".to_owned()));
    let tree = tree(&files);
    let found = RunningDomains::new(&tree, ReadOptions::default()).read();
    let names: Vec<(&str, Option<u32>, usize)> =
        found.iter().map(|one| (one.identity.name.as_str(), one.identity.id, one.vcpus.len())).collect();
    assert_eq!(names, [("web", Some(1), 2), ("web,0 ü", Some(10), 1), ("by hand", None, 0)]);
    let web = &found[0];
    assert_eq!(web.identity.machine.as_deref(), Some("qemu-1-web"));
    assert_eq!((web.identity.started, web.identity.uuid.as_deref()), (77, Some("aa-100")));
    let second = 1_000_000_000;
    let time = CpuTime { user_ns: second, system_ns: second / 4, guest_ns: second / 2 };
    assert_eq!((web.time, web.exits, found[1].exits), (time, None, Some(987)));
    assert_eq!(web.memory_bytes, 16_384 * rustix::param::page_size() as u64 + (2 << 20));
    let vcpu = VcpuReading {
        tid: 102,
        busy_ns: Some(5000),
        delay_ns: Some(600),
        switches: Some(70),
        ..VcpuReading::default()
    };
    assert_eq!(web.vcpus[&1], vcpu);
}

#[test]
fn a_domain_is_found_by_name_number_and_uuid() {
    let mut files = domain(100, "guest=web,debug-threads=on", UNIFIED, 1);
    files.extend(domain(200, "guest=1,debug-threads=on", FIRST, 1));
    // Two domains of the same name from daemons of users, where the number is not visible.
    files.extend(domain(300, "guest=twin,debug-threads=on", "0::/user.slice/session-1.scope", 1));
    files.extend(domain(400, "guest=twin,debug-threads=on", "0::/user.slice/session-2.scope", 1));
    // A helper process that has not yet executed another program.
    files.extend(domain(500, "guest=web,debug-threads=on", UNIFIED, 0));
    let tree = tree(&files);
    let domains = RunningDomains::new(&tree, ReadOptions::default());
    let pid = |word: &str| domains.find(word).map(|one| one.pid);
    assert_eq!((pid("web"), pid("1"), pid("10"), pid("AA-200")), (Ok(100), Ok(100), Ok(200), Ok(200)));
    assert_eq!((pid("aa-300"), pid("aa-400")), (Ok(300), Ok(400)));
    let several = pid("twin").unwrap_err().to_string();
    assert!(several.contains("twin (pid 300, UUID aa-300), twin (pid 400, UUID aa-400)"), "{several}");
    let none = pid("we").unwrap_err().to_string();
    assert!(none.contains("no running domain \"we\"; there are web, 1, twin"), "{none}");
}

#[test]
fn a_stale_pid_file_is_no_domain() {
    let files = [
        ("run/libvirt/qemu/web.pid", "400\n"),
        ("run/libvirt/qemu/web.xml", "<domstatus state='running' pid='400'/>"),
        ("proc/400/cmdline", "postgres\0-name\0guest=web\0"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()));
    let files = [&files[..], &[("proc/400/stat".to_owned(), stat(400, "postgres", 1, 5))]].concat();
    let tree = tree(&files);
    let error = RunningDomains::new(&tree, ReadOptions::default()).find("web").unwrap_err().to_string();
    assert!(error.contains("no running domain") && error.contains("none exists"), "{error}");
}

#[test]
fn optional_values_are_read() {
    let mut files = domain(100, "guest=web", UNIFIED, 1);
    let map =
        "7f00 bind:1 anon=3 N0=1 N1=2 kernelpagesize_kB=2048\n7f80 default anon=1 N1=1 kernelpagesize_kB=4\n";
    files.push(("proc/100/numa_maps".to_owned(), map.to_owned()));
    let status = "<domstatus state='paused' pid='100'><domain type='kvm' id='31'/></domstatus>";
    files.push(("run/libvirt/qemu/web.xml".to_owned(), status.to_owned()));
    let tree = tree(&files);
    let found = RunningDomains::new(&tree, ReadOptions { vcpus: true, nodes: true }).read();
    assert_eq!(found[0].memory_by_node, BTreeMap::from([(0, 2 << 20), (1, (4 << 20) + 4096)]));
    assert_eq!((found[0].vcpus[&0].cpu, found[0].vcpus[&0].time.is_some()), (Some(5), true));
    assert_eq!((found[0].identity.id, found[0].identity.state.as_deref()), (Some(31), Some("paused")));
}

/// Threads without individual names, as in a QEMU without `debug-threads=on`.
#[test]
fn unnamed_threads_come_from_status_file() {
    let mut files = domain(100, "guest=web", UNIFIED, 0);
    files.push(("proc/100/task/150/comm".to_owned(), "qemu-system-x86\n".to_owned()));
    files.push(("proc/100/task/150/schedstat".to_owned(), "1 2 3\n".to_owned()));
    let status = "<domstatus state='running' pid='100'><vcpus><vcpu id='3' pid='150'/></vcpus></domstatus>";
    files.push(("run/user/1000/libvirt/qemu/run/web.xml".to_owned(), status.to_owned()));
    let tree = tree(&files);
    let found = RunningDomains::new(&tree, ReadOptions::default()).read();
    assert_eq!(found[0].vcpus[&3].delay_ns, Some(2));
}

fn write(root: &Path, files: &[(String, String)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn domains_appear_disappear_and_pids_are_reused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, &domain(100, "guest=web", UNIFIED, 1));
    // libvirt's child before it executes QEMU.
    write(
        root,
        &[("proc/500/cmdline".into(), "libvirtd\0".into()), ("proc/500/stat".into(), stat(500, "l", 1, 9))],
    );
    let tree = SysTree::open(root).unwrap();
    let mut domains = RunningDomains::new(&tree, ReadOptions::default());
    let names = |readings: &[DomainReading]| -> Vec<String> {
        readings.iter().map(|one| one.identity.name.clone()).collect()
    };
    assert_eq!(names(&domains.read()), ["web"]);
    write(root, &domain(500, "guest=late", "0::/", 2));
    assert_eq!(names(&domains.read()), ["web", "late"]);
    // A virtual CPU is unplugged.
    fs::remove_dir_all(root.join("proc/500/task/502")).unwrap();
    write(root, &[("proc/500/stat".into(), stat(500, "qemu", 2, 77))]);
    assert_eq!(domains.read()[1].vcpus.keys().collect::<Vec<_>>(), [&0]);
    // The same process id, another process.
    fs::remove_dir_all(root.join("proc/100")).unwrap();
    write(root, &domain(100, "guest=other", UNIFIED, 1));
    write(root, &[("proc/100/stat".into(), stat(100, "qemu", 2, 999))]);
    let found = domains.read();
    assert_eq!(
        (names(&found), found[0].identity.started),
        (vec!["other".to_owned(), "late".to_owned()], 999)
    );
    // The process ends between the list of processes and the reading of its files, or is no longer an
    // emulator.
    fs::remove_file(root.join("proc/100/stat")).unwrap();
    assert_eq!(names(&domains.read()), ["late"]);
    fs::remove_dir_all(root.join("proc/500")).unwrap();
    assert!(domains.read().is_empty());
}
