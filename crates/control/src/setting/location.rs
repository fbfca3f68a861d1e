//! Names of files: absolute paths and sysctl names, and the rule that no write leaves the kernel's settings.

use super::SettingError;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Directories that settings may be below. `/proc/irq` has the CPUs of interrupts.
const ALLOWED: [&str; 3] = ["sys", "proc/sys", "proc/irq"];

/// Control files that move or start something when they are written: their contents are no value to restore.
const ACTIONS: [&str; 3] = ["cgroup.procs", "cgroup.threads", "tasks"];

/// A file of the kernel, by path or by sysctl name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Location {
    typed: String,
    /// Below the root, without a slash at its start.
    path: String,
}

impl Location {
    /// Parses a path below `/sys`, `/proc/sys` or `/proc/irq`, or the name of a sysctl.
    pub(super) fn parse(text: &str) -> Result<Self, SettingError> {
        let path = match text.strip_prefix('/') {
            Some(path) => path.to_owned(),
            None if text.contains(['.', '/']) => format!("proc/sys/{}", sysctl_path(text)),
            None => return Err(SettingError::Unknown { name: text.to_owned() }),
        };
        let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
        let is_below =
            |directory: &&str| path.strip_prefix(*directory).is_some_and(|rest| rest.starts_with('/'));
        if !ALLOWED.iter().any(is_below) || !path.split('/').all(is_plain) {
            return Err(SettingError::Outside { path: text.to_owned() });
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        if ACTIONS.contains(&name) {
            let why = format!("{name} lists tasks and has no value");
            return Err(SettingError::NotASetting { path: PathBuf::from(text), why });
        }
        Ok(Self { typed: text.to_owned(), path })
    }

    /// The file of an interrupt's CPUs.
    pub(super) fn cpus_of_interrupt(irq: u32) -> Self {
        let path = format!("proc/irq/{irq}/smp_affinity_list");
        Self { typed: format!("/{path}"), path }
    }

    /// The text that it was parsed from.
    pub(super) fn typed(&self) -> &str {
        &self.typed
    }

    /// Returns its file below `root`.
    pub(super) fn file(&self, root: &Path) -> Result<PathBuf, SettingError> {
        resolved(root, &self.path)
    }
}

/// Returns the file at `path` below `root` without symbolic links, which may lead to other kernel settings only: many
/// files of `/sys` are reached through links.
pub(super) fn resolved(root: &Path, path: &str) -> Result<PathBuf, SettingError> {
    let full = root.join(path);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            SettingError::Missing { path: full.clone() }
        }
        _ => SettingError::Unreadable { path: full.clone(), error },
    };
    let file = full.canonicalize().map_err(failed)?;
    let root = root.canonicalize().map_err(failed)?;
    if !ALLOWED.iter().any(|directory| file.starts_with(root.join(directory))) {
        return Err(SettingError::Outside { path: full.display().to_string() });
    }
    if !file.is_file() {
        let why = "it is not a file".to_owned();
        return Err(SettingError::NotASetting { path: full, why });
    }
    Ok(file)
}

/// Returns the path of a sysctl below `/proc/sys`. The first separator decides (sysctl(8)): behind a dot, dots separate
/// and slashes stand for dots (`net.ipv4.conf.eth0/200.forwarding`); behind a slash, dots are dots.
fn sysctl_path(name: &str) -> String {
    if name.find(['.', '/']).is_none_or(|at| name[at..].starts_with('/')) {
        return name.to_owned();
    }
    let swapped = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swapped).collect()
}

/// Whether writing the file takes CPUs offline or brings them back.
pub(crate) fn changes_cpus(file: &Path) -> bool {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        [.., "devices", "system", "cpu", "smt", "control"] => true,
        [.., "devices", "system", "cpu", cpu, "online"]
        | [.., "devices", "system", "cpu", cpu, "hotplug", _] => cpu.starts_with("cpu"),
        _ => false,
    }
}

/// Whether the file is that of one CPU, or of a few: it may vanish while they are offline.
pub(super) fn is_of_cpu(file: &Path) -> bool {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let at = parts.windows(3).position(|three| three == ["devices", "system", "cpu"]);
    let numbered = |name: &str, prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|number| !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit()))
    };
    at.is_some_and(|at| parts[at + 3..].iter().any(|part| numbered(part, "cpu") || numbered(part, "policy")))
}

/// Whether the file has the CPUs of an interrupt, which the kernel changes when these go offline.
pub(super) fn is_of_interrupt(file: &Path) -> bool {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    matches!(parts.as_slice(), [.., "proc", "irq", _, name] if name.starts_with("smp_affinity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names_follow_sysctl() {
        for (name, path) in [
            ("kernel.numa_balancing", "kernel/numa_balancing"),
            ("kernel/numa_balancing", "kernel/numa_balancing"),
            ("net.ipv4.conf.enp3s0/200.forwarding", "net/ipv4/conf/enp3s0.200/forwarding"),
            ("net/ipv4/conf/enp3s0.200/forwarding", "net/ipv4/conf/enp3s0.200/forwarding"),
        ] {
            assert_eq!(sysctl_path(name), path);
        }
    }

    #[test]
    fn names_outside_of_settings_are_refused() {
        for refused in [
            "/etc/passwd",
            "/proc/1/oom_score_adj",
            "/proc/sysrq-trigger",
            "/sys",
            "/sys/",
            "/system/x",
            "/sys/../etc/passwd",
            "/sys/kernel/./mm",
            "/sys//kernel",
            "kernel/../../../etc/passwd",
            "kernel..x",
            "./x",
            "../etc/passwd",
            "/sys/ke\nrnel",
        ] {
            let error = Location::parse(refused).unwrap_err();
            assert!(matches!(error, SettingError::Outside { .. }), "{refused}: {error}");
        }
        let error = Location::parse("/sys/fs/cgroup/cgroup.procs").unwrap_err();
        assert!(matches!(error, SettingError::NotASetting { .. }), "{error}");
        assert!(matches!(Location::parse("swappiness").unwrap_err(), SettingError::Unknown { .. }));
        assert_eq!(Location::parse("/proc/irq/9/smp_affinity").unwrap().path, "proc/irq/9/smp_affinity");
    }

    #[test]
    fn links_may_lead_to_settings_only() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["sys/devices", "sys/block", "proc/sys", "proc/irq", "etc"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in ["sys/devices/scheduler", "etc/passwd"] {
            std::fs::write(root.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../devices", root.path().join("sys/block/sda")).unwrap();
        std::os::unix::fs::symlink("../../etc", root.path().join("sys/block/evil")).unwrap();
        let file = resolved(root.path(), "sys/block/sda/scheduler").unwrap();
        assert!(file.ends_with("sys/devices/scheduler"));
        let refused = |path| resolved(root.path(), path).unwrap_err();
        assert!(matches!(refused("sys/block/evil/passwd"), SettingError::Outside { .. }));
        assert!(matches!(refused("sys/block/sda"), SettingError::NotASetting { .. }));
        assert!(matches!(refused("sys/block/sdb/x"), SettingError::Missing { .. }));
    }

    #[test]
    fn files_that_take_cpus_offline_are_known() {
        let cpu = |rest: &str| PathBuf::from(format!("/sys/devices/system/cpu/{rest}"));
        assert!(
            ["smt/control", "cpu12/online", "cpu3/hotplug/target"]
                .iter()
                .all(|file| changes_cpus(&cpu(file)))
        );
        assert!(
            !changes_cpus(&cpu("cpufreq/boost"))
                && !changes_cpus(Path::new("/sys/devices/system/memory/x/online"))
        );
        assert!(is_of_cpu(&cpu("cpufreq/policy0/scaling_governor")) && is_of_cpu(&cpu("cpu3/power/control")));
        assert!(!is_of_cpu(&cpu("cpufreq/boost")) && !is_of_cpu(&cpu("smt/control")));
    }
}
