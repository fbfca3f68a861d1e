//! `virsh`, which speaks to whatever daemon there is.

use std::{
    io::ErrorKind,
    process::{Command, Stdio},
};

/// Why virsh told nothing.
#[derive(Debug, thiserror::Error)]
pub enum VirshError {
    /// It is not installed, or cannot be run.
    #[error("virsh cannot be run ({0}); install libvirt-clients (Debian) or libvirt-client (openEuler)")]
    Absent(std::io::Error),
    /// There is no daemon, or it does not answer us.
    #[error("virsh cannot reach libvirt: {0}; is libvirtd or virtqemud running, and may you use it?")]
    Unreachable(String),
    /// There is no such domain.
    #[error("libvirt has no domain '{0}' (virsh list --all names those that it has)")]
    NoDomain(String),
    /// Something else.
    #[error("virsh: {0}")]
    Other(String),
}

/// The XML of a domain; that of the running one where it runs. `connect` is a URI such as `qemu:///system`, or virsh's
/// own choice.
///
/// # Errors
/// There is no virsh, no daemon, or no such domain.
pub fn dumpxml(connect: Option<&str>, domain: &str) -> Result<String, VirshError> {
    let mut virsh = Command::new("virsh");
    virsh.env("LC_ALL", "C").stdin(Stdio::null()).arg("--quiet");
    if let Some(uri) = connect {
        virsh.args(["--connect", uri]);
    }
    let output = virsh.args(["dumpxml", "--domain", domain]).output().map_err(VirshError::Absent)?;
    if output.status.success() {
        return String::from_utf8(output.stdout)
            .map_err(|_| VirshError::Other(std::io::Error::from(ErrorKind::InvalidData).to_string()));
    }
    Err(meaning(&String::from_utf8_lossy(&output.stderr), domain))
}

/// What an error of virsh means, on one line.
fn meaning(said: &str, domain: &str) -> VirshError {
    let lines: Vec<&str> = said
        .lines()
        .map(|line| line.trim_start_matches("error:").trim())
        .filter(|line| !line.is_empty())
        .collect();
    let all = lines.join(": ");
    if ["failed to get domain", "Domain not found"].iter().any(|words| all.contains(words)) {
        return VirshError::NoDomain(domain.to_owned());
    }
    if all.contains("failed to connect") || all.contains("Failed to connect") {
        return VirshError::Unreachable(
            all.trim_start_matches("failed to connect to the hypervisor: ").to_owned(),
        );
    }
    VirshError::Other(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let gone = "error: failed to connect to the hypervisor\nerror: Failed to connect socket to \
                    '/var/run/libvirt/libvirt-sock': No such file or directory\n";
        let said = meaning(gone, "web1").to_string();
        assert!(said.starts_with("virsh cannot reach libvirt: Failed to connect socket to"), "{said}");
        assert!(matches!(meaning("error: failed to get domain 'web1'\n", "web1"), VirshError::NoDomain(_)));
        assert_eq!(meaning("error: odd\n\n", "web1").to_string(), "virsh: odd");
    }
}
