//! Queries through `virsh`, which works with any libvirt daemon.

use crate::{domain::Version, error::VirshError};
use std::{
    io::{self, ErrorKind, Read},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Maximum time of an answer. libvirt itself waits 30 seconds for a domain that is busy with another
/// operation.
const TIMEOUT: Duration = Duration::from_secs(40);

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
    let output = run_with_timeout(virsh.args(["dumpxml", "--domain", domain]), TIMEOUT)?;
    if output.status.success() {
        return String::from_utf8(output.stdout)
            .map_err(|_| VirshError::Other(io::Error::from(ErrorKind::InvalidData).to_string()));
    }
    Err(classify_error(&String::from_utf8_lossy(&output.stderr), domain))
}

/// Returns the version of the installed libvirt; `None` if there is no virsh.
pub fn libvirt_version() -> Option<Version> {
    let output = run_with_timeout(virsh().arg("--version"), TIMEOUT).ok()?;
    Version::find_in(&String::from_utf8_lossy(&output.stdout))
}

fn virsh() -> Command {
    let mut virsh = Command::new("virsh");
    virsh.env("LC_ALL", "C").stdin(Stdio::null());
    virsh
}

/// Runs a program and returns its output. Kills it after `timeout`.
fn run_with_timeout(command: &mut Command, timeout: Duration) -> Result<Output, VirshError> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(VirshError::NotInstalled)?;
    let (sender, receiver) = mpsc::channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Both pipes are read at once: a program that fills one while only the other is read would block forever.
    thread::spawn(move || {
        let err = thread::spawn(move || all_of(err));
        let out = all_of(out);
        // The receiver is gone after the time limit.
        drop(sender.send((out, err.join().unwrap_or_default())));
    });
    if let Ok((stdout, stderr)) = receiver.recv_timeout(timeout) {
        let status = child.wait().map_err(VirshError::NotInstalled)?;
        return Ok(Output { status, stdout, stderr });
    }
    drop(child.kill());
    drop(child.wait());
    Err(VirshError::Timeout(timeout))
}

/// Reads a pipe to its end.
fn all_of(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        drop(pipe.read_to_end(&mut bytes));
    }
    bytes
}

/// Returns the error for the text that virsh printed on standard error.
fn classify_error(stderr: &str, domain: &str) -> VirshError {
    let lines: Vec<&str> = stderr
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
    fn hanging_daemon_times_out() {
        let timeout = Duration::from_millis(50);
        let error = run_with_timeout(Command::new("sleep").arg("1000"), timeout).unwrap_err();
        assert!(matches!(error, VirshError::Timeout(after) if after == timeout), "{error}");
        assert!(error.to_string().contains("no answer from libvirt after 50ms"), "{error}");
        // More than a pipe holds, on both outputs.
        let much = "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3";
        let output = run_with_timeout(Command::new("sh").args(["-c", much]), TIMEOUT).unwrap();
        let lengths = (output.stdout.len(), output.stderr.len());
        assert_eq!((lengths, output.status.code()), ((200_000, 200_000), Some(3)));
    }

    #[test]
    fn virsh_errors_are_classified() {
        let gone = "error: failed to connect to the hypervisor\nerror: Failed to connect socket to \
                    '/var/run/libvirt/libvirt-sock': No such file or directory\n";
        let error = classify_error(gone, "web1").to_string();
        assert!(error.starts_with("virsh cannot reach libvirt: Failed to connect socket to"), "{error}");
        assert!(matches!(
            classify_error("error: failed to get domain 'web1'\n", "web1"),
            VirshError::NoDomain(_)
        ));
        assert_eq!(classify_error("error: odd\n\n", "web1").to_string(), "virsh: odd");
    }
}
