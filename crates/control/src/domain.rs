//! Virtual machines of instances, by their names in libvirt.

use crate::tool;
use std::{io, process::Command};

/// The program that manages them.
pub const PROGRAM: &str = "virsh";

/// Returns the program with these arguments, for the connection `uri`.
pub fn command(uri: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    // The text of states must be the same everywhere.
    command.env("LC_ALL", "C").args(["--quiet", "--connect", uri]).args(arguments);
    command
}

/// Whether a domain of this name is active: it runs, or it is paused.
///
/// # Errors
/// The program cannot be run, or there is no connection.
pub fn is_active(uri: &str, name: &str) -> io::Result<bool> {
    let output = tool::succeed(&mut command(uri, &["list", "--name"]))?;
    Ok(output.lines().any(|line| line.trim() == name))
}

/// Ends a domain at once. A transient one is then gone. Returns whether it was active.
///
/// # Errors
/// The program cannot be run, or fails.
pub fn destroy(uri: &str, name: &str) -> io::Result<bool> {
    if !is_active(uri, name)? {
        return Ok(false);
    }
    match tool::end_instance(&mut command(uri, &["destroy", "--domain", name]), name) {
        Err(error) if is_active(uri, name)? => Err(error),
        _ => Ok(true),
    }
}
