//! Tests of `manycore vm check` on running domains, with processes that imitate emulators.

use crate::common::{manycore, vm::vm, write};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A process that imitates an emulator: the domain's name on its command line, and a thread named like a
/// virtual CPU.
struct Emulator(Child);

impl Emulator {
    fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    fn start_with(name: &str, more: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.arg0("qemu-system-test");
        shell.args(["-c", "echo 'CPU 0/KVM' >/proc/self/comm; echo; read -r _", "-name", name]).args(more);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        Self(shell)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn foreign_names_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let xml = folder.path().join("web.xml");
    fs::write(&xml, "<domain type='kvm'><name>web</name><vcpu>1</vcpu></domain>").unwrap();
    let _theirs = Emulator::start("guest=\u{1b}[2Jforged\nline");
    let word = format!("forged-{}", std::process::id());
    let out = manycore().args(["vm", "check", &word, "--plan"]).arg(&xml).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("forged\u{fffd}line") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn threads_of_a_running_domain_are_found_by_its_exact_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("manycore-test-{}", std::process::id());
    let _other = Emulator::start(&format!("guest={name}0,debug-threads=on"));
    let domain = |pin: &str| {
        let xml = format!(
            "<domain type='kvm'><name>x</name><vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='{pin}'/></cputune></domain>"
        );
        write(folder.path(), "domain.xml", xml.as_bytes())
    };
    let check = |plan: &Path| vm(&["check", &name, "--plan", plan.to_str().unwrap()]);
    let ran = check(&domain("0"));
    assert_eq!((ran.code, ran.err.contains("there is no running domain")), (2, true), "{}", ran.err);

    let emulator = Emulator::start(&format!("guest={name},debug-threads=on"));
    let pid = emulator.0.id().to_string();
    assert!(Command::new("taskset").args(["-cp", "0", &pid]).output().unwrap().status.success());
    let ran = check(&domain("0"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains(&format!("(pid {pid})")) && ran.out.contains("Everything matches the plan."),
        "{}",
        ran.out
    );
    let online = manycore_linux::affinity::online().unwrap();
    if online.len() > 1 {
        let ran = check(&domain(&online.to_string()));
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(
            ran.out.contains("NO") && ran.err.contains("1 of 1 differ from the plan"),
            "{}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn a_domain_is_checked_by_its_number_and_uuid() {
    let folder = tempfile::tempdir().unwrap();
    let (name, number) = (format!("manycore-known-{}", std::process::id()), std::process::id() * 10);
    let (uuid, files) = (format!("0000-{number}"), format!("/none/domain-{number}-x/"));
    let more = ["-uuid", &uuid, "-chardev", &files];
    let _emulator = Emulator::start_with(&format!("guest={name},debug-threads=on"), &more);
    let xml = "<domain type='kvm'><name>x</name><vcpu>1</vcpu></domain>";
    let plan = write(folder.path(), "domain.xml", xml.as_bytes());
    for word in [&name, &number.to_string(), &uuid.to_uppercase()] {
        let ran = vm(&["check", word, "--plan", plan.to_str().unwrap()]);
        assert!(ran.code == 0 && ran.out.contains(&name), "{word}: {}{}", ran.out, ran.err);
    }
}
