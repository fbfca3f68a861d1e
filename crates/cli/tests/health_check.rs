//! The health check for Slurm, with programs in the place of `manycore`, `scontrol` and `logger`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/slurm/manycore-health-check");

/// A node with its own directories in the place of those of the system.
struct CheckedNode(TempDir);

impl CheckedNode {
    fn new(settings: &str) -> Self {
        let node = Self(TempDir::new().unwrap());
        let folder = node.0.path().display();
        let own = |text: String, from: &str| {
            assert!(text.contains(from), "{from}");
            text.replace(from, &format!("{folder}/"))
        };
        let script = own(own(fs::read_to_string(SCRIPT).unwrap(), "/etc/default/"), "/run/");
        node.program("health-check", &script);
        node.program(
            "manycore",
            &format!(
                "#!/bin/sh\necho progress >&2\necho 'cannot read it' >&2\ncat '{folder}/answer'\n\
                 exit \"$(cat '{folder}/code')\"\n"
            ),
        );
        for name in ["scontrol", "logger"] {
            node.program(name, &format!("#!/bin/sh\necho \"$*\" >>'{folder}/{name}.log'\n"));
        }
        fs::write(node.0.path().join("manycore-health-check"), settings).unwrap();
        node
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the check where `manycore fleet check` prints an answer and ends with a code.
    fn check(&self, answer: &str, code: i32) {
        fs::write(self.0.path().join("answer"), answer).unwrap();
        fs::write(self.0.path().join("code"), code.to_string()).unwrap();
        let path = format!("{}:/usr/bin:/bin", self.0.path().display());
        let mut command = Command::new(self.0.path().join("health-check"));
        command.env_clear().env("PATH", path).env("SLURMD_NODENAME", "n1");
        let run = command.output().unwrap();
        assert!(run.status.success(), "{run:?}");
    }

    /// Returns what a program was called with so far.
    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(format!("{name}.log"))).unwrap_or_default()
    }
}

#[test]
fn a_node_is_drained_after_two_checks_in_a_row() {
    let node = CheckedNode::new("MANYCORE_DRAIN=yes\n");
    let slow = "1 of 1 node is slow: n1 (stream 60 % slower; `reboot` $(reboot) 'x')";
    node.check(slow, 1);
    assert_eq!(node.log("scontrol"), "");
    node.check("n1: not found to be slow", 0);
    node.check(slow, 1);
    assert_eq!(node.log("scontrol"), "");
    // Checks that do not judge the node say nothing about it.
    node.check("", 4);
    node.check("n1: not idle, so it is not judged: other processes used 3.0 CPUs", 0);
    node.check("n1: inconclusive: its figures scatter too much", 0);
    node.check(slow, 1);
    let reason = "manycore: 1 of 1 node is slow: n1 (stream 60 % slower reboot (reboot) x)";
    let drained = format!("update nodename=n1 state=drain reason={reason}\n");
    assert_eq!(node.log("scontrol"), drained);
    // After the administrator has resumed it, it counts anew.
    node.check(slow, 1);
    assert_eq!(node.log("scontrol"), drained);
    let log = node.log("logger");
    assert_eq!(
        (log.matches("is slow").count(), log.matches("not measured: exit code 4: cannot read it").count()),
        (4, 1),
        "{log}"
    );
    let kept = fs::read_dir(node.0.path()).unwrap().flatten().map(|entry| entry.file_name());
    let kept: Vec<_> =
        kept.filter(|name| name.to_str().unwrap().starts_with("manycore-health-check-")).collect();
    assert_eq!(kept, ["manycore-health-check-n1.slow"]);
}

#[test]
fn a_node_that_cannot_be_drained_is_logged_and_tried_again() {
    let node = CheckedNode::new("MANYCORE_DRAIN=yes\n");
    node.program("scontrol", "#!/bin/sh\necho no controller >&2; exit 1\n");
    for _ in 0..3 {
        node.check("slow", 1);
    }
    assert_eq!(node.log("logger").matches("n1 cannot be drained: no controller").count(), 2);
}

#[test]
fn a_node_is_only_logged_without_the_setting() {
    let node = CheckedNode::new("");
    for _ in 0..3 {
        node.check("slow", 1);
    }
    assert_eq!((node.log("scontrol").as_str(), node.log("logger").lines().count()), ("", 3));
    assert!(Path::new(SCRIPT).metadata().unwrap().permissions().mode() & 0o111 != 0);
}
