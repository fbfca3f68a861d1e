//! Which processes are never ended: by name, user, unit and control group.
//!
//! A process can choose its own name, and often its arguments. It cannot choose its user, the unit that the
//! service manager started it in, or the file that it executes. Names that are protected by default therefore
//! require one of these, and rules can require them as well.

use crate::decision::{
    pattern::Pattern,
    process_table::{ProcessEntry, Protection},
};
use manycore_linux::trusted_file::runs_file;
use std::{fmt, path::PathBuf};

/// Largest number of name rules that require a unit or a file: one bit of [`ProcessEntry::met_rules`] each.
pub const MAX_LOOKUP_RULES: usize = 64;

/// Programs without which users could not log in to investigate: name, and the systemd unit in which they run
/// if their user is not root.
const DEFAULTS: [(&str, &str); 9] = [
    ("sshd*", "ssh*.service"),
    ("systemd*", "systemd-*.service"),
    ("dbus-*", "dbus*.service"),
    ("login", ""),
    ("agetty", ""),
    ("getty", ""),
    ("containerd*", "containerd.service"),
    ("dockerd", "docker.service"),
    ("libvirtd", "libvirtd.service"),
];

/// Which processes are never selected, in addition to process 1, the guard, kernel threads and processes that
/// the kernel must not kill.
#[derive(Clone, Debug, Default)]
pub struct ProtectRules {
    /// By name, with further requirements. The default names come last.
    pub names: Vec<NameRule>,
    /// Systemd units.
    pub units: Vec<Pattern>,
    /// Paths of control groups. They include all groups below.
    pub groups: Vec<Pattern>,
    /// User ids.
    pub users: Vec<u32>,
}

/// Processes that have this name and meet all other requirements that are set.
#[derive(Clone, Debug)]
pub struct NameRule {
    /// Pattern for the content of `/proc/PID/comm`.
    pub name: Pattern,
    /// Real user id, on this machine and not in a container.
    pub user: Option<u32>,
    /// Systemd unit.
    pub unit: Option<Pattern>,
    /// The file that the process executes.
    pub exe: Option<PathBuf>,
}

impl NameRule {
    /// Whether the slow path has to find out something for this rule.
    pub fn needs_lookup(&self) -> bool {
        self.unit.is_some() || self.exe.is_some()
    }

    /// Whether the rule requires nothing but a name, which any process can choose.
    pub fn is_name_only(&self) -> bool {
        self.user.is_none() && !self.needs_lookup()
    }
}

impl fmt::Display for NameRule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.name)?;
        let user = self.user.map(|user| match user {
            0 => "root".to_owned(),
            user => format!("user {user}"),
        });
        let unit = self.unit.as_ref().map(|unit| format!("unit {unit}"));
        let exe = self.exe.as_ref().map(|exe| format!("exe {}", exe.display()));
        let needs: Vec<String> = [user, unit, exe].into_iter().flatten().collect();
        if needs.is_empty() { Ok(()) } else { write!(to, " ({})", needs.join(", ")) }
    }
}

/// Whether a process has this real user on this machine. In a container the same number is another user, and
/// its root can become any user.
fn has_user(process: &ProcessEntry, user: u32) -> bool {
    process.user == user && !process.is_contained
}

impl ProtectRules {
    /// Returns the names that are protected unless the rules say otherwise.
    pub fn defaults() -> impl Iterator<Item = NameRule> {
        DEFAULTS.into_iter().flat_map(|(name, unit)| {
            let named = |user, unit| NameRule { name: Pattern::new(name), user, unit, exe: None };
            let of_unit = (!unit.is_empty()).then(|| named(None, Some(Pattern::new(unit))));
            [Some(named(Some(0), None)), of_unit].into_iter().flatten()
        })
    }

    /// Returns the name rules that require a unit or a file, with their bits.
    fn lookup_rules(&self) -> impl Iterator<Item = (usize, &NameRule)> {
        self.names.iter().filter(|named| named.needs_lookup()).enumerate().take(MAX_LOOKUP_RULES)
    }

    /// Returns the protection of a process by its name and user. It does not allocate, because it is called
    /// before a signal.
    pub fn protection(&self, process: &ProcessEntry) -> Option<Protection> {
        let mut bit = 0;
        for (at, named) in self.names.iter().enumerate() {
            let is_proven = if named.needs_lookup() {
                bit += 1;
                bit <= MAX_LOOKUP_RULES && process.met_rules >> (bit - 1) & 1 == 1
            } else {
                true
            };
            let is_user = named.user.is_none_or(|user| has_user(process, user));
            if is_proven && is_user && named.name.matches(process.reading.name.as_bytes()) {
                return Some(Protection::Rule(at as u16));
            }
        }
        let owned = self.users.iter().position(|&one| has_user(process, one));
        owned.map(|at| Protection::Rule((at + self.names.len()) as u16))
    }

    /// Whether a result of the slow path may protect a process of this name.
    pub fn needs_lookup_for(&self, process: &ProcessEntry) -> bool {
        self.lookup_rules().any(|(_, named)| named.name.matches(process.reading.name.as_bytes()))
    }

    /// Returns which name rules apply to a process of this name in groups of these paths, as bits of
    /// [`ProcessEntry::met_rules`].
    pub fn met_rules(&self, pid: u32, name: &[u8], paths: &[String]) -> u64 {
        let holds = |named: &NameRule| {
            named.name.matches(name)
                && named.unit.as_ref().is_none_or(|unit| is_in_unit(unit, paths))
                && named.exe.as_ref().is_none_or(|exe| runs_file(pid, exe))
        };
        self.lookup_rules().filter(|(_, named)| holds(named)).fold(0, |bits, (bit, _)| bits | 1 << bit)
    }

    /// Returns the protection by units and control groups for a process in groups of these paths.
    pub fn group_protection(&self, paths: &[String]) -> Option<Protection> {
        let before = self.names.len() + self.users.len();
        let unit = self.units.iter().position(|unit| is_in_unit(unit, paths)).map(|at| at + before);
        let covers = |pattern: &Pattern| paths.iter().any(|path| pattern.covers(path));
        let group = || self.groups.iter().position(covers).map(|at| at + before + self.units.len());
        unit.or_else(group).map(|at| Protection::Rule(at as u16))
    }

    /// Returns a rule as text: `protect.names "sshd* (root)"`.
    pub fn rule_text(&self, rule: u16) -> String {
        let names = self.names.iter().map(|name| format!("protect.names {:?}", name.to_string()));
        let users = self.users.iter().map(|user| format!("protect.users {user}"));
        let units = self.units.iter().map(|unit| format!("protect.units {:?}", unit.to_string()));
        let groups = self.groups.iter().map(|group| format!("protect.cgroups {:?}", group.to_string()));
        names.chain(users).chain(units).chain(groups).nth(rule.into()).unwrap_or_default()
    }
}

/// Whether one of the paths is in a unit of the system's service manager: the slices at its beginning and the
/// component after them. Below that, users and containers may have created groups of any name (delegation).
fn is_in_unit(unit: &Pattern, paths: &[String]) -> bool {
    let is_slice = |part: &str| part.strip_suffix(".slice").is_some();
    paths.iter().any(|path| {
        let parts = || path.split('/').filter(|part| !part.is_empty());
        let slices = parts().take_while(|part| is_slice(part)).count();
        parts().take(slices + 1).any(|part| unit.matches(part.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::process_table::ProcessReading;
    use manycore_linux::process_reader::ProcessName;

    fn process(name: &str, user: u32) -> ProcessEntry {
        ProcessEntry::new(
            ProcessReading { pid: 7, name: ProcessName::new(name.as_bytes()), ..ProcessReading::default() },
            user,
            false,
        )
    }

    /// Returns a process with these bits of [`ProcessEntry::met_rules`].
    fn proven(name: &str, user: u32, met_rules: u64) -> ProcessEntry {
        let mut process = process(name, user);
        process.met_rules = met_rules;
        process
    }

    fn defaults() -> ProtectRules {
        ProtectRules { names: ProtectRules::defaults().collect(), ..ProtectRules::default() }
    }

    #[test]
    fn name_alone_protects_nothing_by_default() {
        let rules = defaults();
        for name in ["sshd", "sshd-session", "systemd", "systemd-udevd", "dbus-daemon", "dockerd", "login"] {
            assert!(rules.protection(&process(name, 0)).is_some(), "{name} of root");
            assert_eq!(rules.protection(&process(name, 1000)), None, "{name} of a user");
            let contained = process(name, 0).reading;
            assert_eq!(
                rules.protection(&ProcessEntry::new(contained, 0, true)),
                None,
                "{name} of a container's root"
            );
        }
        assert_eq!(rules.protection(&process("bash", 0)), None);
    }

    #[test]
    fn service_is_protected_in_its_own_unit_only() {
        let rules = defaults();
        let protection = |path: &str| {
            let met_rules = rules.met_rules(7, b"dbus-daemon", &[path.to_owned()]);
            rules.protection(&proven("dbus-daemon", 101, met_rules))
        };
        assert!(protection("/system.slice/dbus.service").is_some());
        for path in [
            "/system.slice/nginx.service",
            "/user.slice/user-1000.slice/user@1000.service/app.slice/dbus.service",
            "/system.slice/docker-0123.scope/system.slice/dbus.service",
            "/docker/0123/dbus.service",
            "/",
        ] {
            assert_eq!(protection(path), None, "{path}");
        }
        // The proof for the unit does not count for another name.
        let met_rules = rules.met_rules(7, b"dbus-daemon", &["/system.slice/dbus.service".to_owned()]);
        assert_eq!(rules.protection(&proven("sshd", 101, met_rules)), None);
    }

    #[test]
    fn unit_is_that_of_the_system_manager() {
        let rules = ProtectRules { units: vec![Pattern::new("ssh.service")], ..ProtectRules::default() };
        let protection = |path: &str| rules.group_protection(&[path.to_owned()]);
        assert!(protection("/system.slice/ssh.service").is_some());
        assert!(protection("/system.slice/ssh.service/below").is_some());
        assert!(protection("/system.slice/system-ssh.slice/ssh.service").is_some());
        assert_eq!(protection("/user.slice/user-1000.slice/user@1000.service/app.slice/ssh.service"), None);
        assert_eq!(protection("/docker/0123/system.slice/ssh.service"), None);
    }

    #[test]
    fn all_requirements_of_a_rule_must_hold() {
        let own = std::env::current_exe().unwrap();
        let rule = |user, exe: &std::path::Path| NameRule {
            name: Pattern::new("post*"),
            user,
            unit: Some(Pattern::new("db.service")),
            exe: Some(exe.to_owned()),
        };
        let rules = ProtectRules {
            names: vec![rule(Some(70), "/bin/sh".as_ref()), rule(Some(70), &own)],
            ..ProtectRules::default()
        };
        let (pid, path) = (std::process::id(), ["/system.slice/db.service".to_owned()]);
        assert_eq!(rules.met_rules(pid, b"postgres", &path), 0b10, "this process executes only its own file");
        assert_eq!(rules.met_rules(pid, b"mysqld", &path), 0);
        assert_eq!(rules.met_rules(pid, b"postgres", &["/system.slice/x.service".to_owned()]), 0);
        assert_eq!(rules.protection(&proven("postgres", 70, 0b10)), Some(Protection::Rule(1)));
        assert_eq!(rules.protection(&proven("postgres", 71, 0b10)), None);
        assert_eq!(rules.protection(&process("postgres", 70)), None);
        assert!(
            rules.needs_lookup_for(&process("postgres", 70)) && !rules.needs_lookup_for(&process("sh", 70))
        );
        assert_eq!(rules.names[0].to_string(), "post* (user 70, unit db.service, exe /bin/sh)");
    }
}
