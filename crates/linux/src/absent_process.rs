//! Why a process has no files in `/proc`: it does not exist, or `/proc` is mounted with `hidepid` (proc(5)) and hides it.

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use std::fs;

/// A process that has no files in `/proc` that this process can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbsentProcess {
    /// It has ended or never existed.
    #[error("there is no process {0}")]
    Missing(u32),
    /// It exists.
    #[error(
        "process {pid} is hidden: /proc is mounted with hidepid={hidepid}; run as root with CAP_SYS_PTRACE to see \
         processes of other users"
    )]
    Hidden {
        /// The id.
        pid: u32,
        /// The value of the option as the kernel writes it: `noaccess`, `invisible`, `ptraceable`; before Linux 5.8 `1`
        /// or `2`.
        hidepid: String,
    },
}

impl AbsentProcess {
    /// Returns why there is no `/proc/PID/stat`. Signals reach processes whatever `/proc` shows.
    pub fn of(pid: u32) -> Self {
        let exists = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)));
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        match hidepid(&mounts()).filter(|_| exists && fs::read(format!("/proc/{pid}/stat")).is_err()) {
            Some(hidepid) => Self::Hidden { pid, hidepid: hidepid.to_owned() },
            None => Self::Missing(pid),
        }
    }

    /// Whether the process exists.
    pub fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden { .. })
    }
}

/// Returns the value of the option `hidepid` if `/proc` hides processes of other users from this process.
pub fn hidepid_for_us() -> Option<String> {
    // The first process belongs to root and has all capabilities.
    match AbsentProcess::of(1) {
        AbsentProcess::Hidden { hidepid, .. } => Some(hidepid),
        AbsentProcess::Missing(_) => None,
    }
}

/// Returns a message if `/proc` hides processes of other users from this process.
pub fn hidden_others() -> Option<String> {
    let hidepid = hidepid_for_us()?;
    Some(format!(
        "processes of other users are hidden: /proc is mounted with hidepid={hidepid}; run as root with CAP_SYS_PTRACE \
         to see them"
    ))
}

/// As [`hidden_others`], as the end of a message about something that was not found; empty if nothing is hidden.
pub fn hidden_others_suffix() -> String {
    hidden_others().map(|message| format!(" ({message})")).unwrap_or_default()
}

/// Returns the value of the option `hidepid` of the mount at `/proc` if it hides processes, from the text of
/// `/proc/self/mountinfo`.
pub fn hidepid(mountinfo: &str) -> Option<&str> {
    // A later mount covers those before it.
    let mount = mountinfo.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let (_, source) = mount.split_once(" - proc ")?;
    let value = source.split([' ', ',']).find_map(|option| option.strip_prefix("hidepid="))?;
    (!["0", "off"].contains(&value)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidepid_is_that_of_the_last_mount_at_proc() {
        let line = |point: &str, options: &str| {
            format!("24 30 0:22 / {point} rw,nosuid shared:12 - proc proc rw{options}\n")
        };
        let root = "30 1 8:1 / / rw - ext4 /dev/sda rw\n";
        for (value, found) in [
            ("invisible", Some("invisible")),
            ("noaccess", Some("noaccess")),
            ("ptraceable", Some("ptraceable")),
            ("1", Some("1")),
            ("2", Some("2")),
            ("off", None),
            ("0", None),
        ] {
            let mounts = format!("{root}{}", line("/proc", &format!(",gid=4,hidepid={value}")));
            assert_eq!(hidepid(&mounts), found, "{value}");
            let covered = format!("{mounts}{}", line("/proc", ""));
            assert_eq!(hidepid(&covered), None, "{value}");
        }
        assert_eq!(hidepid(&line("/srv/root/proc", ",hidepid=invisible")), None);
        assert_eq!(hidepid(""), None);
    }

    #[test]
    fn an_id_that_no_process_can_have_is_missing() {
        for pid in [0, 0x7fff_fff0, u32::MAX] {
            assert_eq!(AbsentProcess::of(pid), AbsentProcess::Missing(pid));
        }
    }

    #[test]
    fn a_process_of_our_own_is_not_hidden() {
        assert!(!AbsentProcess::of(std::process::id()).is_hidden());
    }
}
