//! The command of an instance, with what differs between instances.

use crate::{Error, Result};
use std::net::IpAddr;

/// What differs between instances.
const NAMES: [&str; 4] = ["index", "port", "address", "cpus"];

/// The command of an instance. `{index}`, `{port}`, `{address}` and `{cpus}` stand for what is its own.
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
    /// Its CPUs, as a list of the kernel.
    pub cpus: String,
}

impl CommandTemplate {
    /// Takes the words of a command.
    ///
    /// # Errors
    /// [`Error::Template`] if there are none, a name in braces is unknown, or `{port}` is not among them: all instances
    /// would serve on the same port.
    pub fn new(words: Vec<String>) -> Result<Self> {
        if words.is_empty() {
            return Err(Error::Template("the command of the service is empty".to_owned()));
        }
        let names: Vec<&str> = words.iter().flat_map(|word| names(word)).collect();
        if let Some(unknown) = names.iter().find(|name| !NAMES.contains(name)) {
            let known = NAMES.map(|name| format!("{{{name}}}")).join(", ");
            return Err(Error::Template(format!(
                "the command has {{{unknown}}}, but only {known} are replaced"
            )));
        }
        if !names.contains(&"port") {
            let what = "the command has no {port}: without it, all instances would serve on the same port";
            return Err(Error::Template(what.to_owned()));
        }
        Ok(Self { words })
    }

    /// Returns the words of an instance's command.
    pub fn words(&self, values: &InstanceValues) -> Vec<String> {
        let replaced = |word: &String| {
            word.replace("{index}", &values.index.to_string())
                .replace("{port}", &values.port.to_string())
                .replace("{address}", &values.address.to_string())
                .replace("{cpus}", &values.cpus)
        };
        self.words.iter().map(replaced).collect()
    }
}

/// Returns the names in braces: letters only, so that JSON and shell code in a command stay as they are.
fn names(word: &str) -> Vec<&str> {
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
            template("redis-server --port {port} --bind {address} --dir /tmp/{index} {cpus}:{port}").unwrap();
        let address = "127.0.0.1".parse().unwrap();
        let values = InstanceValues { index: 3, port: 7003, address, cpus: "6-7".to_owned() };
        assert_eq!(
            template.words(&values).join(" "),
            "redis-server --port 7003 --bind 127.0.0.1 --dir /tmp/3 6-7:7003"
        );
    }

    #[test]
    fn braces_that_are_no_names_stay() {
        let template = template("sh -c {\"a\":1}${HOME}{port}{} {PORT").unwrap();
        let values =
            InstanceValues { index: 0, port: 1, address: "::1".parse().unwrap(), cpus: String::new() };
        assert_eq!(template.words(&values).join(" "), "sh -c {\"a\":1}${HOME}1{} {PORT");
    }

    #[test]
    fn commands_that_cannot_work_are_refused() {
        let said = |text| template(text).unwrap_err().to_string();
        assert!(said("").contains("empty"));
        assert!(said("redis-server --port 6379").contains("no {port}"));
        let unknown = said("server {port} {prot}");
        assert!(
            unknown.contains("{prot}") && unknown.contains("{index}, {port}, {address}, {cpus}"),
            "{unknown}"
        );
    }
}
