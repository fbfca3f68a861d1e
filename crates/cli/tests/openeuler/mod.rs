//! Tests of `manycore qos` on openEuler's two dialects. Such kernels cannot be booted here, so a FUSE file
//! system imitates them with their silent rounding.

mod kernel;
mod limit_enforcer;
mod mount;
mod prove;
mod targets;

use crate::common::schema;
use kernel::Kernel;
use manycore_control::journal;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output},
};
use tempfile::TempDir;

/// A mounted file system, a directory for journals, and a process to be limited.
struct TestMount {
    /// Unmounts when it is dropped, before the directory is removed.
    #[allow(dead_code, reason = "held, not used")]
    session: fuser::BackgroundSession,
    root: TempDir,
    state: TempDir,
    /// Working directory of the commands, in which they save their results.
    results: TempDir,
    process: Child,
}

impl TestMount {
    /// Returns `None` if file systems cannot be mounted here.
    fn new(kernel: Kernel) -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        match mount::mount(kernel, root.path()) {
            Ok(session) => {
                let process = Command::new("sleep").arg("1000").spawn().unwrap();
                let [state, results] = [(); 2].map(|()| tempfile::tempdir().unwrap());
                Some(Self { session, root, state, results, process })
            }
            Err(error) => {
                eprintln!("SKIPPED: no FUSE file system can be mounted here: {error}");
                None
            }
        }
    }

    fn manycore(&self, arguments: &[&str]) -> Output {
        Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
            .args(arguments)
            .current_dir(self.results.path())
            .env(journal::FOLDER_VARIABLE, self.state.path())
            .output()
            .unwrap()
    }

    /// Runs `qos set` on the process.
    fn set(&self, code: i32, limits: &[&str]) -> String {
        let (root, pid) = (self.root.path().to_str().unwrap(), self.process.id().to_string());
        let head = ["qos", "set", "--resctrl", root, "--pid", &pid, "--name", "held"];
        self.done(code, &[&head, limits].concat())
    }

    /// Runs a command that must end with this exit code; returns both output streams, without names that
    /// differ from run to run.
    fn done(&self, code: i32, arguments: &[&str]) -> String {
        let run = self.manycore(arguments);
        let said = [run.stdout, run.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {said}");
        said.replace(self.root.path().to_str().unwrap(), "[ROOT]")
            .replace(&self.process.id().to_string(), "[PID]")
            .lines()
            .map(|line| match line.strip_prefix("manycore undo qos-") {
                Some(_) => "manycore undo [JOURNAL] restores the previous state.\n".to_owned(),
                None => format!("{line}\n"),
            })
            .collect()
    }

    /// Returns a file's text without blanks.
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.path().join(path)).unwrap().replace(' ', "")
    }

    /// Returns the groups that manycore created.
    fn groups(&self) -> Vec<String> {
        let names = fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with("manycore-"))
            .collect()
    }

    /// Asserts that neither a group nor a journal is left.
    fn is_untouched(&self) {
        assert!(!self.root.path().join("held").exists());
        assert!(!journals(self.state.path()), "a journal is left");
    }
}

fn journals(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_some()
}

impl Drop for TestMount {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn all_controls_of_6_6_are_set_and_rounding_is_reported() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let limits = ["--bandwidth", "55%", "--min-bandwidth", "10%", "--hardlimit", "off", "--priority", "7"];
    let output = mount.set(0, &[&limits[..], &["--on", "node=0"]].concat());
    insta::assert_snapshot!("openeuler_6_6_set", output);
    let schemata = mount.text("held/schemata");
    assert!(schemata.contains("MB:0=0000056;1=0000100"), "{schemata}");
    assert!(schemata.contains("MBMIN:0=0000009;1=0000000") && schemata.contains("MBPRI:0=0000007;1=0000003"));
    assert!(schemata.contains("MBHDL:0=0000000;1=0000001"));
    assert_eq!(mount.text("held/tasks"), format!("{}\n", mount.process.id()));
    let root = mount.root.path().to_str().unwrap();
    insta::assert_snapshot!("openeuler_6_6_show", mount.done(0, &["qos", "show", "--resctrl", root]));
    mount.done(0, &["qos", "clear", "held"]);
    mount.is_untouched();
    assert_eq!(mount.text("tasks"), format!("{}\n", mount.process.id()));
}

#[test]
fn limits_as_json_have_their_schema() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let (root, pid) = (mount.root.path().to_str().unwrap(), mount.process.id().to_string());
    let limits = ["--bandwidth", "55%", "--priority", "7", "--cache", "l3=50%", "--format", "json"];
    let set = ["qos", "set", "--resctrl", root, "--pid", &pid, "--name", "held"];
    let set = mount.manycore(&[&set[..], &limits].concat());
    let changes = schema::parse("qos-applied", &set.stdout);
    assert!(changes["limits"].as_array().unwrap().len() > 2 && changes["journal"].is_string(), "{changes}");
    schema::parse("qos", mount.manycore(&["qos", "show", "--resctrl", root, "--format", "json"]).stdout);
    mount.done(0, &["undo"]);
    mount.is_untouched();
}

#[test]
fn caches_of_6_6_are_named_by_their_id() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    mount.set(0, &["--cache", "l3=0x5", "--on", "cache=122"]);
    assert!(mount.text("held/schemata").contains("L3:1=7fff;122=0005"), "gaps are allowed");
    mount.done(0, &["undo"]);
    mount.is_untouched();
    let refusal = mount.set(2, &["--bandwidth", "50%", "--on", "cache=122"]);
    assert!(refusal.contains("--on node="), "{refusal}");
    let refusal = mount.set(2, &["--bandwidth", "2000MB/s"]);
    assert!(refusal.contains("percent"), "{refusal}");
    let refusal = mount.set(2, &["--priority", "8"]);
    assert!(refusal.contains("0 to 7"), "{refusal}");
    mount.is_untouched();
}

#[test]
fn ignored_limits_are_reported() {
    let Some(mount) = TestMount::new(Kernel { ignores: Some("MBPRI"), ..Kernel::default() }) else { return };
    let output = mount.set(1, &["--priority", "7", "--bandwidth", "50%"]);
    assert!(output.contains("nothing changed"), "{output}");
    assert!(output.contains("2 of 4 limits"), "{output}");
    mount.done(0, &["undo"]);
    mount.is_untouched();
}

#[test]
fn values_that_5_10_raises_are_reported() {
    let old = Kernel { old: true, mounted: vec!["MBHDL"], ..Kernel::default() };
    let Some(mount) = TestMount::new(old) else { return };
    insta::assert_snapshot!("openeuler_5_10_set", mount.set(0, &["--bandwidth", "2%", "--hardlimit", "off"]));
    mount.done(0, &["qos", "clear", "--all"]);
    mount.is_untouched();
    let root = mount.root.path().to_str().unwrap();
    let shown = mount.done(0, &["qos", "show", "--resctrl", root]);
    assert!(shown.contains("openEuler 5.10") && shown.contains("240 MB/s"), "{shown}");
    for (option, word) in [(["--min-bandwidth", "10%"], "mbMin"), (["--priority", "7"], "mbPrio")] {
        let refusal = mount.set(3, &option);
        assert!(refusal.contains(&format!("-o {word}")), "{refusal}");
    }
    mount.is_untouched();
}

#[test]
fn silent_refusals_of_5_10_leave_nothing() {
    let old = Kernel { old: true, mounted: vec!["MBPRI"], refuses: Some("MBPRI"), ..Kernel::default() };
    let Some(mount) = TestMount::new(old) else { return };
    let refusal = mount.set(3, &["--bandwidth", "50%", "--priority", "7"]);
    assert!(refusal.contains("MBPRI:0=7;1=7") && refusal.contains("Invalid argument"), "{refusal}");
    assert!(!refusal.contains("(ok)") && refusal.contains("all changes were undone"), "{refusal}");
    mount.is_untouched();
}

#[test]
fn full_hardware_is_reported() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    for name in ["a", "b", "c"] {
        fs::create_dir(mount.root.path().join(name)).unwrap();
    }
    let refusal = mount.set(3, &["--bandwidth", "50%"]);
    assert!(refusal.contains("room for 4 groups"), "{refusal}");
    mount.is_untouched();
}
