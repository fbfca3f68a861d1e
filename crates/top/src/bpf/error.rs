//! Why programs in the kernel cannot be used.

/// Why programs in the kernel cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs were not compiled.
    #[error("this manycore was built without its BPF programs: its build needs {0}")]
    NotBuilt(&'static str),
    /// The kernel is locked down.
    #[error("{source}; the kernel is locked down ({mode} in /sys/kernel/security/lockdown)")]
    LockedDown {
        /// `integrity` or `confidentiality`.
        mode: &'static str,
        /// What the kernel said.
        source: manycore_bpf::Error,
    },
    /// The programs cannot be loaded, or their maps cannot be read.
    #[error(transparent)]
    Bpf(manycore_bpf::Error),
    /// The machine cannot be read.
    #[error(transparent)]
    Topology(#[from] manycore_topology::Error),
}

impl From<manycore_bpf::Error> for Error {
    fn from(source: manycore_bpf::Error) -> Self {
        let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        match mode(&lockdown) {
            Some(mode) if is_refusal(&source) && rustix::process::geteuid().is_root() => {
                Self::LockedDown { mode, source }
            }
            _ => Self::Bpf(source),
        }
    }
}

fn is_refusal(error: &manycore_bpf::Error) -> bool {
    use manycore_bpf::Error::{Attach, Map, Verifier};
    match error {
        Map { source, .. } | Verifier { source, .. } | Attach { source, .. } => {
            source.kind() == std::io::ErrorKind::PermissionDenied
        }
        _ => false,
    }
}

/// Returns the mode in which the kernel is locked down (`none [integrity] confidentiality`).
fn mode(lockdown: &str) -> Option<&'static str> {
    ["integrity", "confidentiality"].into_iter().find(|mode| lockdown.contains(&format!("[{mode}]")))
}

/// The result of an operation with programs in the kernel.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn messages_say_what_is_missing() {
        let source = io::Error::from_raw_os_error(1);
        let refused = manycore_bpf::Error::Map { name: "cpus".to_owned(), action: "created", source };
        assert!(is_refusal(&refused));
        let text = Error::LockedDown { mode: "integrity", source: refused }.to_string();
        assert!(
            text.contains("CAP_BPF") && text.contains("CAP_PERFMON") && text.contains("lockdown"),
            "{text}"
        );
        assert!(Error::NotBuilt("clang 17 or newer").to_string().contains("needs clang 17"));
    }

    #[test]
    fn the_mode_in_brackets_is_in_force() {
        assert_eq!(mode("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(mode("[none] integrity confidentiality\n"), None);
        assert_eq!(mode(""), None);
    }
}
