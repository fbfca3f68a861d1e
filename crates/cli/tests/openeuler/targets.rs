//! Tests of the targets of `manycore qos set`: virtual machines, with and without groups of libvirt, and
//! processes that end meanwhile.

use super::{TestMount, kernel::Kernel};
use manycore_control::journal;
use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio, id},
    sync::{Arc, Mutex},
};

/// A process that looks like the emulator of a running domain.
struct Guest {
    process: Child,
    name: String,
    number: u32,
}

impl Guest {
    /// Starts it with a name and number that no other process on this machine has.
    fn start(name: &str, number: u32) -> Self {
        let (name, number) = (format!("{name}-{}", id()), id() * 10 + number);
        let folder = format!("socket,path=/none/domain-{number}-{name}/monitor.sock");
        let mut shell = Command::new("sh");
        shell.arg0("qemu-system-test").args(["-c", "read -r _", "-name", &format!("guest={name}")]);
        let process = shell.args(["-chardev", &folder]).stdin(Stdio::piped()).spawn().unwrap();
        Self { process, name, number }
    }

    /// Returns the name of the group that libvirt makes for some of its virtual CPUs.
    fn group(&self, vcpus: &str) -> String {
        format!("qemu-{}-{}-vcpus_{vcpus}", self.number, self.name)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl TestMount {
    fn make(&self, group: &str) {
        fs::create_dir(self.root.path().join(group)).unwrap();
    }

    /// Runs `qos set` on a domain.
    fn set_domain(&self, code: i32, domain: &str, more: &[&str]) -> String {
        let head = ["qos", "set", "--resctrl", self.root.path().to_str().unwrap(), "--domain", domain];
        self.done(code, &[&head, more].concat())
    }
}

#[test]
fn limits_of_a_domain_go_to_the_group_that_libvirt_made() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let guest = Guest::start("web", 1);
    let (its, another) = (guest.group("0-3"), format!("qemu-{}0-{}-vcpus_0", guest.number, guest.name));
    for group in [&its, &another] {
        mount.make(group);
    }
    // Selected by name and by number.
    for (word, limit, shown) in
        [(&guest.name, "50%", "0000050"), (&guest.number.to_string(), "25%", "0000025")]
    {
        let output = mount.set_domain(0, word, &["--bandwidth", limit]);
        assert!(output.contains("libvirt has made the group"), "{output}");
        let schemata = mount.text(&format!("{its}/schemata"));
        assert!(schemata.contains(&format!("MB:0={shown};1={shown}")), "{schemata}");
    }
    assert!(mount.text(&format!("{another}/schemata")).contains("MB:0=0000100;1=0000100"));
    assert!(mount.groups().is_empty() && mount.text(&format!("{its}/tasks")).is_empty());
    mount.done(0, &["undo"]);
    assert!(mount.text(&format!("{its}/schemata")).contains("MB:0=0000100;1=0000100"));
    mount.is_untouched();
}

#[test]
fn of_several_groups_that_libvirt_made_one_has_to_be_named() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let guest = Guest::start("parts", 2);
    for vcpus in ["0-3", "4-7"] {
        mount.make(&guest.group(vcpus));
    }
    let refusal = mount.set_domain(2, &guest.name, &["--bandwidth", "50%"]);
    let both = format!("{}, {}", guest.group("0-3"), guest.group("4-7"));
    assert!(refusal.contains(&both) && refusal.contains("--group"), "{refusal}");
    mount.is_untouched();
}

#[test]
fn following_a_group_that_is_there_is_refused_before_it_is_changed() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let guest = Guest::start("held", 3);
    mount.make(&guest.group("0"));
    let refusal = mount.set_domain(2, &guest.name, &["--bandwidth", "50%", "--follow"]);
    assert!(refusal.contains("leave --follow out"), "{refusal}");
    assert!(mount.text(&format!("{}/schemata", guest.group("0"))).contains("MB:0=0000100;1=0000100"));
    mount.is_untouched();
}

#[test]
fn follow_undoes_everything_if_stdout_is_closed() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let guest = Guest::start("unread", 4);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(["qos", "set", "--resctrl", mount.root.path().to_str().unwrap(), "--domain", &guest.name])
        .args(["--bandwidth", "50%", "--follow"])
        .env(journal::FOLDER_VARIABLE, mount.state.path())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.code() == Some(3) && said.contains("all changes were undone"),
        "{:?} {said}",
        run.status
    );
    assert!(mount.groups().is_empty());
    mount.is_untouched();
}

#[test]
fn a_process_that_ends_meanwhile_leaves_no_empty_group() {
    let doomed = Arc::new(Mutex::new(Command::new("sleep").arg("1000").spawn().unwrap()));
    let pid = doomed.lock().unwrap().id().to_string();
    let kernel = Kernel { ends: Some(Arc::clone(&doomed)), ..Kernel::default() };
    if let Some(mount) = TestMount::new(kernel) {
        let root = mount.root.path().to_str().unwrap();
        let refusal = mount
            .done(2, &["qos", "set", "--resctrl", root, "--pid", &pid, "--name", "held", "--priority", "7"]);
        assert!(refusal.contains("has ended meanwhile; all changes were undone"), "{refusal}");
        mount.is_untouched();
    }
    let mut doomed = doomed.lock().unwrap();
    drop(doomed.kill());
    doomed.wait().unwrap();
}

#[test]
fn a_target_that_is_set_again_keeps_its_group() {
    let Some(mount) = TestMount::new(Kernel::default()) else { return };
    let (root, pid) = (mount.root.path().to_str().unwrap(), mount.process.id().to_string());
    let set = |code, limit| {
        mount.done(code, &["qos", "set", "--resctrl", root, "--pid", &pid, "--bandwidth", limit])
    };
    // More attempts than the four groups that the hardware supports.
    for (turn, limit) in ["50%", "25%", "75%", "100%", "50%"].into_iter().enumerate() {
        let output = set(0, limit);
        assert_eq!(output.contains("was made for this target before"), turn > 0, "{output}");
        assert_eq!(mount.groups().len(), 1, "{output}");
    }
    let group = &mount.groups()[0];
    assert!(mount.text(&format!("{group}/schemata")).contains("MB:0=0000050;1=0000050"));
    assert_eq!(mount.text(&format!("{group}/tasks")), format!("{pid}\n"));
    let other = ["qos", "set", "--resctrl", root, "--pid", &pid, "--name", "other", "--priority", "7"];
    assert!(mount.done(2, &other).contains("keeps its name"));
    mount.done(0, &["undo"]);
    assert!(mount.groups().is_empty());
    assert_eq!(mount.text("tasks"), format!("{pid}\n"));
    mount.is_untouched();
}
