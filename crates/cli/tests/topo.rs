//! Tests of `manycore topo` as users and scripts run it: one test per promise and per error.

use assert_cmd::Command;
use manycore_topology::Machine;
use manycore_topology::{
    SysTree,
    synthetic::{
        MachineSpec,
        extras::{add_cgroup, write_to},
    },
};
use std::{fs, path::Path};

fn manycore(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("manycore").unwrap();
    command.arg("topo").args(args);
    command
}

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/machines/{name}.machine", env!("CARGO_MANIFEST_DIR"))
}

fn stdout(args: &[&str]) -> String {
    String::from_utf8(manycore(args).assert().success().get_output().stdout.clone()).unwrap()
}

/// Checks that the run fails with this exit code and this message in one line on standard error, and prints
/// nothing.
fn assert_fails(args: &[&str], code: i32, message: &str) {
    let assert = manycore(args).assert().code(code).stdout("");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains(message) && said.lines().count() == 1, "{said:?} should contain {message:?}");
}

fn tree(root: &Path, file: &str, text: &str) -> String {
    write_to(&MachineSpec { cores: 4, ..MachineSpec::default() }.capture(), root).unwrap();
    fs::write(root.join(file), text).unwrap();
    root.display().to_string()
}

#[test]
fn trees_are_drawn() {
    for name in ["guest-2cpu", "hybrid-16cpu", "server-64cpu", "clusters-128cpu"] {
        insta::assert_snapshot!(name, stdout(&["--root", &fixture(name)]));
    }
}

#[test]
fn a_capture_is_the_same_by_root_by_machine_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let json = stdout(&["--root", &fixture("server-64cpu"), "--format", "json"]);
    assert_eq!(stdout(&["--machine", &fixture("server-64cpu"), "--format", "json"]), json);
    let file = folder.path().join("server.json");
    fs::write(&file, &json).unwrap();
    assert_eq!(stdout(&["--machine", file.to_str().unwrap(), "--format", "json"]), json);
}

#[test]
fn this_machine_is_equal_after_saving_and_loading() {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("here.machine");
    let save = save.to_str().unwrap();
    let live: Machine = serde_json::from_str(&stdout(&["--save", save, "--format", "json"])).unwrap();
    let saved: Machine = serde_json::from_str(&stdout(&["--root", save, "--format", "json"])).unwrap();
    assert_eq!(saved, live);
    assert!(!live.allowed.cpus.is_empty());
    assert!(fs::read_to_string(save).unwrap().starts_with("# manycore/capture/1\n"));
}

#[test]
fn the_capture_of_a_folder_describes_the_same_machine() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path(), "etc/os-release", "PRETTY_NAME=Folder\n");
    let save = folder.path().join("saved.machine");
    let direct = stdout(&["--root", &root, "--save", save.to_str().unwrap()]);
    assert_eq!(stdout(&["--root", save.to_str().unwrap()]), direct);
    assert!(direct.contains("Folder"), "{direct}");
}

#[test]
fn the_picture_is_well_formed_and_names_every_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("machine.svg");
    stdout(&["--root", &fixture("server-64cpu"), "--svg", svg.to_str().unwrap()]);
    let picture = fs::read_to_string(svg).unwrap();
    assert!(picture.starts_with("<?xml") && picture.trim_end().ends_with("</svg>"));
    for cpu in 0..64 {
        assert!(picture.contains(&format!(">{cpu}</text>")), "CPU {cpu}");
    }
    for word in ["eth0", "nvme0n1", "tier 961", "offline", "not allowed", "prefers-color-scheme:dark"] {
        assert!(picture.contains(word), "{word}");
    }
}

#[test]
fn a_root_without_sysfs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    assert_fails(&["--root", root], 2, "has no CPUs in sys/devices/system/cpu");
    assert_fails(&["--root", "/nonexistent"], 2, "cannot read /nonexistent: No such file or directory");
    assert_fails(
        &["--root", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")],
        2,
        "line 1: expected '# manycore/capture/1', the first line of a capture ('manycore topo --save' writes captures)",
    );
}

#[test]
fn hostile_cpu_lists_name_their_file() {
    for (text, problem) in [
        ("3-1", "range 3-1 ends before it begins; write 1-3"),
        ("0-99999999999", "the number 99999999999 is too large"),
        ("a", "'a' is not a number or range"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = tree(folder.path(), "sys/devices/system/cpu/online", text);
        assert_fails(&["--root", &root], 2, &format!("{root}/sys/devices/system/cpu/online: {problem}"));
    }
}

#[test]
fn a_huge_cpu_list_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path(), "sys/devices/system/cpu/online", "0-4294967294");
    assert!(stdout(&["--root", &root]).contains("4 online (0-3)"));
}

#[test]
fn other_files_are_no_machines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    for (text, problem) in [
        (
            "{\"schema\": \"manycore/machine/2\"}",
            "the machine has schema \"manycore/machine/2\", written by a newer manycore",
        ),
        (
            "{\"schema\": \"manycore/record/1\"}",
            "this is a record (\"manycore/record/1\"); expected a machine (\"manycore/machine/1\")",
        ),
        ("# manycore/capture/9\n", "capture version 9 is newer than this program"),
        ("\u{7f}ELF", "not JSON"),
    ] {
        fs::write(&file, text).unwrap();
        assert_fails(&["--machine", file.to_str().unwrap()], 2, problem);
    }
    assert_fails(&["--machine", "/nonexistent"], 2, "cannot read /nonexistent");
}

#[test]
fn the_number_of_cpus_in_a_file_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.json");
    let json = stdout(&["--root", &fixture("guest-2cpu"), "--format", "json"]);
    for (online, problem) in
        [("0-4294967294", "it has 4294967295 CPUs, more than 1048576"), ("", "it has no CPUs")]
    {
        fs::write(&file, json.replace("\"online\": \"0-1\"", &format!("\"online\": \"{online}\""))).unwrap();
        assert_fails(&["--machine", file.to_str().unwrap()], 2, problem);
    }
}

#[test]
fn outputs_that_cannot_be_written_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such.svg");
    for option in ["--svg", "--save"] {
        let args = ["--root", &fixture("guest-2cpu"), option, missing.to_str().unwrap()];
        assert_fails(&args, 3, &format!("cannot write {}", missing.display()));
        let place = folder.path().to_str().unwrap();
        assert_fails(&["--root", &fixture("guest-2cpu"), option, place], 3, &format!("cannot write {place}"));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_picture_on_standard_output_precedes_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let both = |out: std::process::Stdio| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(["topo", "--root", &fixture("guest-2cpu"), "--svg", "/dev/stdout"]).stdout(out);
        command.spawn().unwrap().wait_with_output().unwrap()
    };
    let piped = both(std::process::Stdio::piped());
    assert!(piped.status.success());
    let text = String::from_utf8(piped.stdout).unwrap();
    assert!(text.starts_with("<?xml") && text.contains("</svg>") && text.contains("2 online"), "{text}");
    let file = folder.path().join("out");
    assert!(both(fs::File::create(&file).unwrap().into()).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn closed_pipes_and_full_disks_are_handled() {
    let run = |script: &str| {
        let program = assert_cmd::cargo::cargo_bin!("manycore");
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", script]).arg(program).arg(fixture("server-64cpu")).output().unwrap()
    };
    for (script, code, said) in [
        ("$0 topo --root $1 | true; exit ${PIPESTATUS[0]}", 0, ""),
        ("$0 topo --root $1 --svg /dev/stdout | true; exit ${PIPESTATUS[0]}", 0, ""),
        (
            "$0 topo --root $1 --format json >/dev/full",
            3,
            "manycore: cannot write to standard output: No space left on device (os error 28)\n",
        ),
        (
            "$0 topo --root $1 --svg /dev/full",
            3,
            "manycore: cannot write /dev/full: No space left on device (os error 28)\n",
        ),
        ("$0 topo --root /nonexistent 2>/dev/full", 2, ""),
    ] {
        let output = run(script);
        assert_eq!(output.status.code(), Some(code), "{script}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{script}");
    }
}

#[test]
fn json_has_no_files_to_save() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.json");
    fs::write(&file, stdout(&["--root", &fixture("guest-2cpu"), "--format", "json"])).unwrap();
    let save = folder.path().join("x");
    assert_fails(
        &["--machine", file.to_str().unwrap(), "--save", save.to_str().unwrap()],
        2,
        "--save stores the kernel's files",
    );
    assert!(!save.exists());
}

#[test]
fn four_thousand_cpus_are_shown_and_drawn() {
    let spec =
        MachineSpec { packages: 8, nodes: 4, caches: 4, cores: 16, threads: 2, ..MachineSpec::default() };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big.machine");
    fs::write(&file, spec.capture().to_string()).unwrap();
    let svg = folder.path().join("big.svg");
    let text = stdout(&["--root", file.to_str().unwrap(), "--svg", svg.to_str().unwrap()]);
    assert!(text.contains("4096 online (0-4095)") && text.lines().count() < 60, "{text}");
    let read = manycore_topology::read(&SysTree::open(&file).unwrap()).unwrap();
    assert_eq!(read.caches_at(3).count(), 128);
}

/// Regression test: lxcfs numbers the CPUs of a container from 0 in `online`. No allowed CPU was found, and CPU 0 was planned.
#[test]
fn virtual_numbers_of_a_container_do_not_hide_its_cpu() {
    let mut files = MachineSpec { cores: 2, ..MachineSpec::default() }.capture();
    files.add_file("sys/devices/system/cpu/online", "0");
    add_cgroup(&mut files, "/lx", "1", "max 100000");
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("lx.machine");
    fs::write(&saved, files.to_string()).unwrap();
    let of = |subcommand: &str| {
        let mut command = Command::cargo_bin("manycore").unwrap();
        let run = command.args([subcommand, "--machine"]).arg(&saved).assert().success();
        String::from_utf8_lossy(&run.get_output().stdout).into_owned()
    };
    let (topo, plan) = (of("topo"), of("plan"));
    assert!(topo.contains("CPU 1 (1 of 2)"), "{topo}");
    assert!(plan.contains("CPUs 1 of 0-1"), "{plan}");
}
