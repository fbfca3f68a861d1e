//! Commands of instances, with what differs between instances.

use crate::{Error, Result};
use manycore_text::command_line::format_command;
use std::{fmt, net::IpAddr};

/// What differs between instances.
const NAMES: [&str; 5] = ["index", "port", "address", "cpus", "name"];

/// A command of an instance. `{index}`, `{port}`, `{address}`, `{cpus}` and `{name}` stand for what is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTemplate {
    words: Vec<String>,
}

/// What is an instance's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceValues {
    /// Its number, from 0.
    pub index: usize,
    /// The port on which it serves.
    pub port: u16,
    /// The address on which it serves.
    pub address: IpAddr,
    /// Its CPUs, as a list of the kernel; empty if it may use all.
    pub cpus: String,
    /// Its name, which no other instance on this machine has. A container and a virtual machine are called so.
    pub name: String,
}

impl InstanceValues {
    /// Replaces the names in braces.
    pub(crate) fn replace_in(&self, text: &str) -> String {
        text.replace("{index}", &self.index.to_string())
            .replace("{port}", &self.port.to_string())
            .replace("{address}", &self.address.to_string())
            .replace("{cpus}", &self.cpus)
            .replace("{name}", &self.name)
    }
}

impl CommandTemplate {
    /// Takes the words of the command that starts an instance.
    ///
    /// # Errors
    /// [`Error::Template`] if there are none, a name in braces is unknown, or `{port}` is not among them: all instances
    /// would serve on the same port.
    pub fn new(words: Vec<String>) -> Result<Self> {
        let template = Self::helper(words)?;
        if !template.has("port") {
            let what = "the command has no {port}: without it, all instances would serve on the same port";
            return Err(Error::Template(what.to_owned()));
        }
        Ok(template)
    }

    /// Takes the words of a command that is run for an instance which another command has started.
    ///
    /// # Errors
    /// [`Error::Template`] if there are none, or a name in braces is unknown.
    pub fn helper(words: Vec<String>) -> Result<Self> {
        if words.is_empty() {
            return Err(Error::Template("the command of the service is empty".to_owned()));
        }
        Self::arguments(words)
    }

    /// Takes words that are a part of a command.
    ///
    /// # Errors
    /// [`Error::Template`] if a name in braces is unknown.
    pub fn arguments(words: Vec<String>) -> Result<Self> {
        check_names(words.iter().flat_map(|word| names(word)), "the command")?;
        Ok(Self { words })
    }

    /// Whether it has `{name}`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.words.iter().flat_map(|word| names(word)).any(|one| one == name)
    }

    /// Returns its first word; empty if it has none.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns the words of an instance's command.
    pub fn words(&self, values: &InstanceValues) -> Vec<String> {
        self.words.iter().map(|word| values.replace_in(word)).collect()
    }
}

impl fmt::Display for CommandTemplate {
    /// Writes the command as it is typed in a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_command(&self.words))
    }
}

/// Checks that all names in braces are known.
pub(crate) fn check_names<'a>(mut names: impl Iterator<Item = &'a str>, what: &str) -> Result {
    match names.find(|name| !NAMES.contains(name)) {
        None => Ok(()),
        Some(unknown) => {
            let known = NAMES.map(|name| format!("{{{name}}}")).join(", ");
            Err(Error::Template(format!("{what} has {{{unknown}}}, but only {known} are replaced")))
        }
    }
}

/// Returns the names in braces: letters only, so that JSON and shell code in a command stay as they are.
pub(crate) fn names(word: &str) -> Vec<&str> {
    let after = word.split('{').skip(1);
    let inside = after.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    inside.filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Result<CommandTemplate> {
        CommandTemplate::new(text.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn each_instance_has_its_own_values() {
        let template =
            template("redis-server --port {port} --bind {address} --dir /tmp/{name}/{index} {cpus}:{port}")
                .unwrap();
        let address = "127.0.0.1".parse().unwrap();
        let values =
            InstanceValues { index: 3, port: 7003, address, cpus: "6-7".to_owned(), name: "n-3".to_owned() };
        assert_eq!(
            template.words(&values).join(" "),
            "redis-server --port 7003 --bind 127.0.0.1 --dir /tmp/n-3/3 6-7:7003"
        );
    }

    #[test]
    fn braces_that_are_no_names_stay() {
        let template = template("sh -c {\"a\":1}${HOME}{port}{} {PORT").unwrap();
        let values = InstanceValues {
            index: 0,
            port: 1,
            address: "::1".parse().unwrap(),
            cpus: String::new(),
            name: String::new(),
        };
        assert_eq!(template.words(&values).join(" "), "sh -c {\"a\":1}${HOME}1{} {PORT");
    }

    #[test]
    fn commands_that_cannot_work_are_refused() {
        let said = |text| template(text).unwrap_err().to_string();
        assert!(said("").contains("empty"));
        assert!(said("redis-server --port 6379").contains("no {port}"));
        let unknown = said("server {port} {prot}");
        assert!(
            unknown.contains("{prot}") && unknown.contains("{index}, {port}, {address}, {cpus}, {name}"),
            "{unknown}"
        );
    }
}
