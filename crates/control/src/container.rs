//! Containers of instances, by their names: the programs that manage them, and their removal.

use crate::tool;
use serde::{Deserialize, Serialize};
use std::{io, process::Command};

/// A program that manages containers. Both have the same subcommands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContainerEngine {
    /// `podman`
    Podman,
    /// `docker`
    Docker,
}

impl ContainerEngine {
    /// Returns the name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Returns the program with these arguments.
    pub fn command(self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.args(arguments);
        command
    }
}

/// Whether there is a container of this name, running or not.
///
/// # Errors
/// The engine cannot be run, or fails.
pub fn exists(engine: ContainerEngine, name: &str) -> io::Result<bool> {
    // The filter is a regular expression; names have no other special character than the dot.
    let filter = format!("name=^{name}$");
    let names = ["ps", "--all", "--format", "{{.Names}}", "--filter", &filter];
    let output = tool::succeed(&mut engine.command(&names))?;
    Ok(output.lines().any(|line| line.trim() == name))
}

/// Kills the processes of a container and removes it, with its anonymous volumes. Returns whether there was one.
///
/// # Errors
/// The engine cannot be run, or fails.
pub fn remove(engine: ContainerEngine, name: &str) -> io::Result<bool> {
    if !exists(engine, name)? {
        return Ok(false);
    }
    match tool::end_instance(&mut engine.command(&["rm", "--force", "--volumes", name]), name) {
        Err(error) if exists(engine, name)? => Err(error),
        _ => Ok(true),
    }
}
