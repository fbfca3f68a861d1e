//! End-to-end tests of `manycore vm plan` and `vm check`: plans, findings, and every kind of error.

use crate::common::{
    manycore, text,
    vm::{VmResult, vm},
    write,
};
use manycore_topology::synthetic::{
    MachineSpec, Numbering,
    extras::{PciDevice, add_device},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const DOMAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/domains/web1.xml");

/// Returns a machine with two packages of one node each. Each node has two clusters of four cores with two
/// threads. Node 0 has an accelerator, node 1 a function of a network card.
fn host(folder: &TempDir) -> PathBuf {
    let spec = MachineSpec {
        packages: 2,
        clusters: 2,
        cores: 4,
        threads: 2,
        memory_gib: 64,
        ..MachineSpec::default()
    };
    let mut files = MachineSpec { numbering: Numbering::Halves, ..spec }.capture();
    for (address, node, name) in [("0000:3b:00.0", 0, "drm/card0"), ("0000:81:02.1", 1, "net/eth1v1")] {
        add_device(&mut files, PciDevice { address, class: 0x02_0000, driver: "vfio-pci", node, name });
    }
    write(folder.path(), "host.machine", files.to_string().as_bytes())
}

/// Returns the machine that the guest of that plan sees, with its devices on the buses that the plan assigns.
fn guest(folder: &TempDir, buses: [&str; 2]) -> PathBuf {
    let spec = MachineSpec { packages: 2, cores: 4, threads: 2, memory_gib: 8, ..MachineSpec::default() };
    let mut files = spec.capture();
    for (address, node, name) in [(buses[0], 0, "drm/card0"), (buses[1], 1, "net/eth0")] {
        add_device(&mut files, PciDevice { address, class: 0x02_0000, driver: "x", node, name });
    }
    write(folder.path(), "guest.machine", files.to_string().as_bytes())
}

fn plan(machine: &Path, args: &[&str]) -> VmResult {
    vm(&[&["plan", DOMAIN, "--machine", machine.to_str().unwrap()], args].concat())
}

#[test]
fn diff_matches_snapshot_and_applies() {
    let folder = tempfile::tempdir().unwrap();
    let ran = plan(&host(&folder), &["--reserve", "2"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::assert_snapshot!("change", ran.out.replace(DOMAIN, "web1.xml"));
    insta::assert_snapshot!("notes", ran.err);
    // patch and --xml give the same result.
    let copy = folder.path().join("web1.xml");
    fs::copy(DOMAIN, &copy).unwrap();
    let diff = write(folder.path(), "diff", ran.out.as_bytes());
    match Command::new("patch").arg(&copy).arg(&diff).output() {
        Err(_) => eprintln!("SKIPPED: patch is not installed"),
        Ok(patched) => {
            assert!(patched.status.success(), "{}", text(&patched.stdout));
            let whole = plan(&host(&folder), &["--reserve", "2", "--xml", "-"]);
            assert_eq!(fs::read_to_string(&copy).unwrap(), whole.out);
        }
    }
}

/// Finding the smallest diff would take minutes of CPU time, of which the program has one here.
#[test]
fn large_diff_takes_little_cpu_time_and_is_correct() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder);
    let pins = "    <vcpupin vcpu='0' cpuset='3'/>\n".repeat(100_000);
    let domain = fs::read_to_string(DOMAIN).unwrap();
    let (before, after) = domain.split_once("  </cputune>").unwrap();
    let many = write(folder.path(), "many.xml", format!("{before}{pins}  </cputune>{after}").as_bytes());
    let plan = ["vm", "plan", many.to_str().unwrap(), "--machine", host.to_str().unwrap()];
    let limited = Command::new("bash")
        .args(["-c", "ulimit -t 60; exec \"$0\" \"$@\""])
        .arg(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(plan)
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(0), "{} {}", limited.status, text(&limited.stderr));
    let diff = write(folder.path(), "diff", &limited.stdout);
    let whole = vm(&[&plan[1..], &["--xml", "-"]].concat()).out;
    match Command::new("patch").arg(&many).arg(&diff).output() {
        Err(_) => eprintln!("SKIPPED: patch is not installed"),
        Ok(patched) => {
            assert!(patched.status.success(), "{}", text(&patched.stdout));
            assert!(fs::read_to_string(&many).unwrap() == whole);
        }
    }
}

#[test]
fn openeuler_dialect() {
    let folder = tempfile::tempdir().unwrap();
    let more =
        "--dialect openeuler --bandwidth 60 --min-bandwidth 10 --hardlimit off --priority 2 --place spread";
    let ran = plan(&host(&folder), &more.split(' ').collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::assert_snapshot!("openeuler", ran.out.replace(DOMAIN, "web1.xml"));
}

#[test]
fn plan_is_valid_and_idempotent() {
    let folder = tempfile::tempdir().unwrap();
    let (machine, out) = (host(&folder), folder.path().join("planned.xml"));
    let ran = plan(&machine, &["--bandwidth", "50", "--cache", "l3=50%", "--xml", out.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("web1: 16 virtual CPUs on CPUs 0-7,16-23\n"), "{}", ran.out);
    let again = vm(&[
        "plan",
        out.to_str().unwrap(),
        "--machine",
        machine.to_str().unwrap(),
        "--bandwidth",
        "50",
        "--cache",
        "l3=50%",
    ]);
    assert!(again.out.ends_with("# Nothing to change: the domain matches the plan.\n"), "{}", again.out);
    is_valid(&out);
}

/// Checks a domain with libvirt's own schema.
fn is_valid(domain: &Path) {
    match Command::new("virt-xml-validate").arg(domain).arg("domain").output() {
        Err(_) => eprintln!("SKIPPED: virt-xml-validate is not installed"),
        Ok(said) => assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr)),
    }
}

#[test]
fn a_domain_that_was_spread_is_valid_when_it_is_planned_for_one_node() {
    let folder = tempfile::tempdir().unwrap();
    let machine = host(&folder);
    let [wide, narrow] =
        ["wide.xml", "narrow.xml"].map(|name| folder.path().join(name).display().to_string());
    let again = |from: &str, policy: &str, to: &str| {
        vm(&["plan", from, "--machine", machine.to_str().unwrap(), "--place", policy, "--xml", to])
    };
    let ran = again(DOMAIN, "spread", &wide);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = again(&wide, "close", &narrow);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("device 0000:81:02.1 is no longer on a node of the guest"), "{}", ran.err);
    let xml = fs::read_to_string(&narrow).unwrap();
    assert!(xml.contains("<node>0</node>") && !xml.contains("<node>1</node>"), "{xml}");
    is_valid(Path::new(&narrow));
    assert!(again(&narrow, "close", "-").out == xml, "planning again changes nothing");
}

#[test]
fn bandwidth_in_percent_is_refused_for_amd() {
    let folder = tempfile::tempdir().unwrap();
    let spec = MachineSpec {
        packages: 2,
        clusters: 2,
        cores: 4,
        threads: 2,
        memory_gib: 64,
        ..MachineSpec::default()
    };
    let mut files = spec.capture();
    files.add_file(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nstepping\t: 1\n",
    );
    let amd = write(folder.path(), "amd.machine", files.to_string().as_bytes());
    let ran = plan(&amd, &["--bandwidth", "40"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("5000 MB/s of each L3") && ran.err.contains("qos set --domain"), "{}", ran.err);
}

#[test]
fn guest_is_checked_against_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let json = plan(&host(&folder), &["--place", "spread+nosmt", "--format", "json"]);
    let plan_file = write(folder.path(), "plan.json", json.out.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let bus = |at: usize| json["expanders"][at]["bus"].as_u64().unwrap() + 1;
    let on = |node: u64| {
        let at = json["expanders"].as_array().unwrap().iter().position(|one| one["node"] == node).unwrap();
        format!("0000:{:02x}:00.0", bus(at))
    };
    let check = |guest: &Path| {
        vm(&["check", "--guest", "--plan", plan_file.to_str().unwrap(), "--machine", guest.to_str().unwrap()])
    };
    // Sixteen cores of one thread, as planned. The second guest has its two devices swapped.
    let spec = MachineSpec { packages: 2, cores: 8, memory_gib: 8, ..MachineSpec::default() };
    for (buses, holds) in [([on(0), on(1)], true), ([on(1), on(0)], false)] {
        let mut files = spec.capture();
        for (address, node, name) in [(&buses[0], 0, "drm/card0"), (&buses[1], 1, "net/eth0")] {
            add_device(&mut files, PciDevice { address, class: 0x02_0000, driver: "x", node, name });
        }
        let file = write(folder.path(), "guest.machine", files.to_string().as_bytes());
        let ran = check(&file);
        assert_eq!(ran.code, i32::from(!holds), "{}{}", ran.out, ran.err);
        let shown = ran.out.replace(&on(0), "0000:AA:00.0").replace(&on(1), "0000:BB:00.0");
        insta::assert_snapshot!(if holds { "guest-holds" } else { "guest-differs" }, shown);
    }
    let other = check(&guest(&folder, ["0000:01:00.0", "0000:02:00.0"]));
    assert_eq!(other.code, 1);
    assert!(other.err.contains("differ from the plan"), "{}", other.err);
}

#[test]
fn guest_without_a_plan_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let guest = guest(&folder, ["0000:01:00.0", "0000:02:00.0"]);
    let ran = vm(&["check", "--guest", "--machine", guest.to_str().unwrap()]);
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!("guest-told", ran.out);
    let json = vm(&["check", "--guest", "--machine", guest.to_str().unwrap(), "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["schema"], &json["matches"]), (&"manycore/guest-check/1".into(), &true.into()));
}

#[test]
fn unreadable_input_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let machine = host(&folder);
    let (machine, out) = (machine.to_str().unwrap(), folder.path().join("out.xml"));
    let file = |name: &str, contents: &[u8]| write(folder.path(), name, contents).display().to_string();
    let utf_16: Vec<u8> = "<domain/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bomb = b"<!DOCTYPE d [<!ENTITY a 'aaaa'>]><domain type='kvm'><name>&a;</name></domain>";
    for (domain, message) in [
        ("/nonexistent.xml".to_owned(), "cannot read /nonexistent.xml: No such file"),
        (folder.path().display().to_string(), "it is not a regular file"),
        ("/dev/zero".to_owned(), "it is not a regular file"),
        (file("empty.xml", b""), "it is not XML"),
        (file("broken.xml", b"<domain type='kvm'><name></domain>"), "it is not XML"),
        (file("xen.xml", b"<domain type='xen'/>"), "its domain is of type 'xen'"),
        (file("lxc.xml", b"<domain type='lxc'/>"), "its domain is of type 'lxc'"),
        (file("net.xml", b"<network/>"), "expected <domain>"),
        (file("bomb.xml", bomb), "declares a document type"),
        (file("wide.xml", &utf_16), "its encoding is UTF-16"),
        (file("binary.xml", b"\x7fELF\xff\xff"), "its encoding is not UTF-8"),
        (file("huge.xml", &vec![b' '; 9 << 20]), "it is longer than 8 MiB"),
        (file("deep.xml", format!("<domain type='kvm'>{}", "<a>".repeat(1 << 20)).as_bytes()), "256 deep"),
        (file("many.xml", DOMAIN_OF_MANY.as_bytes()), "4000 virtual CPUs cannot have a CPU each on 32 CPUs"),
    ] {
        let ran = vm(&["plan", &domain, "--machine", machine, "--xml", out.to_str().unwrap()]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{domain}: {}", ran.err);
        assert!(
            ran.err.contains(message) && ran.err.lines().count() == 1,
            "{:?} should say {message:?}",
            ran.err
        );
        assert!(!out.exists());
    }
}

const DOMAIN_OF_MANY: &str =
    "<domain type='kvm'><name>x</name><memory>4194304</memory><vcpu>4000</vcpu></domain>";

#[test]
fn invalid_requests_are_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder);
    let xml_as_machine = DOMAIN;
    for (args, code, message) in [
        ("--priority 2", 2, "supports more (--dialect openeuler)"),
        ("--bandwidth 0", 2, "expected a whole percentage from 1% to 100%"),
        ("--priority 8", 2, "8 is not in 0..=7"),
        ("--cache l2=50%", 2, "only shares of the L3 cache"),
        ("--cache l3=0%", 2, "write l3=50%"),
        ("--qemu nine", 2, "'nine' is not a version"),
        ("--place sideways", 2, "'sideways' is not a placement"),
        ("--place cpus=99", 2, "99 not present on this machine"),
        ("--reserve 32", 2, "reserve at most 31"),
        ("--reserve 20", 2, "16 virtual CPUs cannot have a CPU each on 12 CPUs"),
        ("--xml - --format json", 2, "both write to standard output"),
        ("--xml /nonexistent/x.xml", 3, "cannot write /nonexistent/x.xml"),
    ] {
        let ran = plan(&host, &args.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, code, "{args}: {}", ran.err);
        assert!(ran.err.contains(message), "{:?} should say {message:?}", ran.err);
    }
    for (machine, message) in [
        (xml_as_machine, "not JSON (expected value at line 1 column 1); expected a machine"),
        ("/nonexistent", "cannot read /nonexistent"),
    ] {
        let ran = vm(&["plan", DOMAIN, "--machine", machine]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

#[test]
fn impossible_checks_are_reported_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        |name: &str, contents: &str| write(folder.path(), name, contents.as_bytes()).display().to_string();
    for (args, code, message) in [
        (vec!["check"], 2, "<DOMAIN>"),
        (vec!["check", "x", "--guest"], 2, "cannot be used with"),
        (vec!["check", "--guest", "--plan", "/nonexistent"], 2, "cannot read /nonexistent"),
        (
            vec!["check", "--guest", "--plan", &file("other.json", "{\"schema\": \"manycore/plan/1\"}")],
            2,
            "this is a plan (\"manycore/plan/1\"); expected a guest (\"manycore/guest/1\")",
        ),
        (vec!["check", "--guest", "--plan", &file("cut.json", "{\"schema\"")], 2, "the guest is truncated"),
        (
            vec![
                "check",
                "--guest",
                "--plan",
                &file("odd.xml", "<domain type='kvm'><vcpu>x</vcpu></domain>"),
            ],
            2,
            "<vcpu> is 'x'",
        ),
    ] {
        let ran = vm(&args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{:?} should say {message:?}", ran.err);
    }
}

#[test]
fn missing_libvirt_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let without = manycore().args(["vm", "check", "web1"]).env("PATH", folder.path()).output().unwrap();
    assert_eq!(without.status.code(), Some(3));
    let message = text(&without.stderr);
    assert!(message.contains("cannot run virsh") && message.contains("--plan"), "{message}");
    if Command::new("virsh").arg("--version").output().is_err() {
        eprintln!("SKIPPED: virsh is not installed");
        return;
    }
    let uri = format!("qemu:///system?socket={}/none", folder.path().display());
    let ran = vm(&["check", "web1", "--connect", &uri]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("check that libvirtd or virtqemud is running"), "{}", ran.err);
    // libvirt's test driver has domains of its own, which are not QEMU domains.
    let ran = vm(&["check", "web1", "--connect", "test:///default"]);
    assert_eq!((ran.code, ran.err.contains("libvirt has no domain 'web1'")), (2, true), "{}", ran.err);
    let ran = vm(&["check", "test", "--connect", "test:///default"]);
    assert_eq!((ran.code, ran.err.contains("its domain is of type 'test'")), (2, true), "{}", ran.err);
}
