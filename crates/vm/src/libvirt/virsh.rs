//! Queries through `virsh`, which works with any libvirt daemon.

use crate::domain::Version;
use std::{
    io::{self, ErrorKind, Read},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Maximum time of an answer. libvirt itself waits 30 seconds for a domain that is busy with another
/// operation.
const LONGEST: Duration = Duration::from_secs(40);

/// Reason why virsh gave no result.
#[derive(Debug, thiserror::Error)]
pub enum VirshError {
    /// virsh is not installed or cannot be run.
    #[error("cannot run virsh ({0}): install libvirt-clients (Debian) or libvirt-client (openEuler)")]
    Absent(io::Error),
    /// virsh does not end.
    #[error(
        "virsh got no answer from libvirt after {0:?}: the daemon hangs, or waits for a domain that hangs; look at \
         'systemctl status libvirtd virtqemud' (domains keep running while it restarts), or give the XML or plan of \
         the domain with --plan"
    )]
    Hangs(Duration),
    /// There is no daemon, or it refuses the connection.
    #[error(
        "virsh cannot reach libvirt: {0}; check that libvirtd or virtqemud is running and that you may connect to it"
    )]
    Unreachable(String),
    /// There is no such domain.
    #[error("libvirt has no domain '{0}' (virsh list --all lists the existing ones)")]
    NoDomain(String),
    /// Another error of virsh.
    #[error("virsh: {0}")]
    Other(String),
}

/// Returns the XML of a domain; that of the running domain if it runs. `connect` is a URI such as
/// `qemu:///system`; `None` is virsh's default.
///
/// # Errors
/// [`VirshError`] if there is no virsh, no daemon, or no such domain.
pub fn dumpxml(connect: Option<&str>, domain: &str) -> Result<String, VirshError> {
    let mut virsh = virsh();
    virsh.arg("--quiet");
    if let Some(uri) = connect {
        virsh.args(["--connect", uri]);
    }
    let output = answer(virsh.args(["dumpxml", "--domain", domain]), LONGEST)?;
    if output.status.success() {
        return String::from_utf8(output.stdout)
            .map_err(|_| VirshError::Other(io::Error::from(ErrorKind::InvalidData).to_string()));
    }
    Err(meaning(&String::from_utf8_lossy(&output.stderr), domain))
}

/// Returns the version of the installed libvirt; `None` if there is no virsh.
pub fn libvirt_version() -> Option<Version> {
    let answer = answer(virsh().arg("--version"), LONGEST).ok()?;
    Version::in_text(&String::from_utf8_lossy(&answer.stdout))
}

fn virsh() -> Command {
    let mut virsh = Command::new("virsh");
    virsh.env("LC_ALL", "C").stdin(Stdio::null());
    virsh
}

/// Runs a program and returns its output. Kills it after `longest`.
fn answer(command: &mut Command, longest: Duration) -> Result<Output, VirshError> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(VirshError::Absent)?;
    let (say, heard) = mpsc::channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Both pipes are read at once: a program that fills one while only the other is read would block forever.
    thread::spawn(move || {
        let err = thread::spawn(move || all_of(err));
        let out = all_of(out);
        // The receiver is gone after the time limit.
        drop(say.send((out, err.join().unwrap_or_default())));
    });
    if let Ok((stdout, stderr)) = heard.recv_timeout(longest) {
        let status = child.wait().map_err(VirshError::Absent)?;
        return Ok(Output { status, stdout, stderr });
    }
    drop(child.kill());
    drop(child.wait());
    Err(VirshError::Hangs(longest))
}

/// Reads a pipe to its end.
fn all_of(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        drop(pipe.read_to_end(&mut bytes));
    }
    bytes
}

/// Returns the meaning of an error text of virsh, on one line.
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
    fn a_daemon_that_hangs_is_not_waited_for() {
        let said =
            answer(Command::new("sleep").arg("1000"), Duration::from_millis(50)).unwrap_err().to_string();
        assert!(said.contains("no answer from libvirt after 50ms") && said.contains("--plan"), "{said}");
        // More than a pipe holds, on both outputs.
        let much = "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3";
        let told = answer(Command::new("sh").args(["-c", much]), LONGEST).unwrap();
        assert_eq!((told.stdout.len(), told.stderr.len(), told.status.code()), (200_000, 200_000, Some(3)));
    }

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
