//! The process of a running domain: QEMU, as libvirt starts it (`-name guest=NAME,debug-threads=on -uuid UUID`).

use super::memory;
use crate::{affinity, tasks};
use manycore_model::domain::{
    check::Running,
    command_line::{guest_name, vcpu},
};
use std::{collections::BTreeMap, fs};

/// Which domain is meant.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its `<uuid>`, which tells it from one of the same name under another daemon.
    pub uuid: Option<String>,
}

/// What the host shows of a running domain; `None` where no process of it runs. Memory is absent where it may not be
/// looked at.
pub fn running(domain: &Domain) -> Option<Running> {
    let mut found = tasks::all().into_iter().filter(|&pid| is_emulator(pid, domain)).map(look);
    found.find(|running| !running.vcpus.is_empty())
}

/// Whether a process was started for the domain: by its uuid where both have one, otherwise by its name.
fn is_emulator(pid: u32, domain: &Domain) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    is_line_of(&words, domain)
}

fn is_line_of(words: &[String], domain: &Domain) -> bool {
    let after = |option: &str| words.windows(2).find(|pair| pair[0] == option).map(|pair| pair[1].as_str());
    match (after("-uuid"), &domain.uuid) {
        (Some(uuid), Some(wanted)) => uuid.eq_ignore_ascii_case(wanted),
        _ => after("-name").and_then(guest_name).as_ref() == Some(&domain.name),
    }
}

fn look(pid: u32) -> Running {
    let (mut vcpus, mut iothreads) = (BTreeMap::new(), BTreeMap::new());
    for tid in tasks::threads(pid) {
        let Some(name) = tasks::thread_name(pid, tid) else { continue };
        let Ok(cpus) = affinity::of(tid) else { continue };
        match role(&name) {
            Some(Role::Vcpu(id)) => drop(vcpus.insert(id, cpus)),
            Some(Role::Io(id)) => drop(iothreads.insert(id, cpus)),
            None => {}
        }
    }
    let emulator = affinity::of(pid).unwrap_or_default();
    Running { pid, vcpus, emulator, iothreads, memory: memory::read(pid) }
}

#[derive(Debug, PartialEq, Eq)]
enum Role {
    Vcpu(u32),
    Io(u32),
}

/// `CPU 3/KVM`, `CPU 3/TCG`, `IO iothread1`, as QEMU names them with `debug-threads=on`.
fn role(name: &str) -> Option<Role> {
    let io = |rest: &str| rest.parse().ok().map(Role::Io);
    vcpu(name).map(Role::Vcpu).or_else(|| name.strip_prefix("IO iothread").and_then(io))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_by_their_names() {
        for (name, wanted) in [
            ("CPU 0/KVM", Some(Role::Vcpu(0))),
            ("CPU 319/TCG", Some(Role::Vcpu(319))),
            ("IO iothread2", Some(Role::Io(2))),
            ("CPU x/KVM", None),
            ("CPU 1", None),
            ("IO mon_iothread", None),
            ("qemu-system-x86", None),
        ] {
            assert_eq!(role(name), wanted, "{name}");
        }
    }

    #[test]
    fn domains_are_told_by_their_whole_name() {
        let is = |line: &str, name: &str, uuid: Option<&str>| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            is_line_of(&words, &Domain { name: name.to_owned(), uuid: uuid.map(str::to_owned) })
        };
        assert!(is("qemu -name guest=a,debug-threads=on -S", "a", None));
        assert!(!is("qemu -name guest=a1,debug-threads=on -S", "a", None));
        assert!(is("qemu -name guest=a,,b,debug-threads=on", "a,b", None));
        assert!(is("qemu -name a", "a", Some("12-34")));
        assert!(!is("qemu -name guest=a -uuid 56-78", "a", Some("12-34")));
        assert!(is("qemu -name guest=a -uuid 12-ab", "b", Some("12-AB")));
        assert!(!is("grep -name", "a", None));
    }
}
