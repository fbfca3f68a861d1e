//! Hosts as users type them.

use std::{fmt, str::FromStr};

/// Text that stands for Slurm instead of a host of ssh.
const SLURM: &str = "slurm";

/// Where a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteHost {
    /// A destination of ssh: a name of its configuration, `host`, `user@host` or `ssh://user@host:port`.
    Ssh(String),
    /// A node of Slurm, by its name. Without a name, Slurm chooses.
    Slurm(Option<String>),
}

/// Why a text names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no host: expected one of ssh such as user@host, slurm:NODE, or slurm", .0.escape_default())]
pub struct InvalidHost(String);

impl FromStr for RemoteHost {
    type Err = InvalidHost;

    /// Takes only characters of names and addresses: others have a meaning in shells and in the configuration of ssh.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let has = |text: &str, also: &str| {
            text.chars().all(|letter| letter.is_ascii_alphanumeric() || also.contains(letter))
        };
        let begins_with_dash = |text: &str| text.split(['@', '/', ':']).any(|part| part.starts_with('-'));
        let is_name = |text: &str, also| !text.is_empty() && has(text, also) && !begins_with_dash(text);
        let host = match text.split_once(':') {
            _ if text == SLURM => Some(Self::Slurm(None)),
            Some((SLURM, node)) => is_name(node, "._-").then(|| Self::Slurm(Some(node.to_owned()))),
            _ => is_name(text, "._-@:[]/%+").then(|| Self::Ssh(text.to_owned())),
        };
        host.ok_or_else(|| InvalidHost(text.to_owned()))
    }
}

impl fmt::Display for RemoteHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(destination) => f.write_str(destination),
            Self::Slurm(Some(node)) => write!(f, "{SLURM}:{node}"),
            Self::Slurm(None) => f.write_str(SLURM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_destinations_or_nodes() {
        for text in [
            "a",
            "user@host-1.example",
            "ssh://user@host:2222",
            "fe80::1%eth0",
            "slurm-login",
            "slurm",
            "slurm:n1",
        ] {
            assert_eq!(text.parse::<RemoteHost>().unwrap().to_string(), text);
        }
        assert_eq!("slurm:n1".parse(), Ok(RemoteHost::Slurm(Some("n1".to_owned()))));
        assert_eq!("slurm".parse(), Ok(RemoteHost::Slurm(None)));
    }

    /// What ssh, srun or a shell would take for something else than a name.
    #[test]
    fn hostile_hosts_are_refused() {
        for text in [
            "",
            "-oProxyCommand=x",
            "user@-oX",
            "ssh://-oX",
            "a b",
            "a\nb",
            "$(x)",
            "`x`",
            "a;b",
            "slurm:",
            "slurm:-x",
            "slurm:a,b",
            "slurm:n[1-3]",
            "slurm:a b",
            "h\u{f6}st",
        ] {
            let error = text.parse::<RemoteHost>().unwrap_err().to_string();
            assert!(error.contains("slurm:NODE") && !error.contains('\n'), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_host_is_printed_as_it_was_typed(text: String) {
            if let Ok(host) = text.parse::<RemoteHost>() {
                prop_assert_eq!(host.to_string(), text);
            }
        }
    }
}
