//! The hosts of a command line.

use crate::{
    cli::FleetHosts,
    failure::{Failure, Outcome},
    quoted_command,
};
use manycore_fleet::{collect::Way, hostlist};
use manycore_linux::input_file;
use manycore_remote::{RemoteHost, batch_nodes};
use manycore_text::names::printable;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Largest list of hosts that is read, in bytes.
const MOST: u64 = 16 << 20;

/// Which hosts are asked, and how.
pub struct Targets {
    /// The hosts, each once.
    pub hosts: Vec<String>,
    /// How they are reached.
    pub way: Way,
    /// The program that is copied to them.
    pub program: PathBuf,
}

impl Targets {
    /// Reads the list of hosts, which may be standard input, or asks Slurm for it.
    ///
    /// # Errors
    /// [`Failure::Input`]: a line names no host, there is none, or the program is no file; [`Failure::Missing`]: Slurm does not
    /// answer.
    pub fn of(args: &FleetHosts) -> Outcome<Self> {
        let (hosts, way) = named(args)?;
        Ok(Self { hosts, way, program: program(args)? })
    }
}

fn named(args: &FleetHosts) -> Outcome<(Vec<String>, Way)> {
    let (hosts, way) = match &args.hosts {
        Some(path) => {
            let text = String::from_utf8_lossy(&input_file::read(path, MOST)?).into_owned();
            (listed(&text, path)?, Way::Ssh(quoted_command::split(&args.ssh)?))
        }
        None if args.partition.is_none() && args.nodes.is_none() => {
            return Err(Failure::input(
                "which hosts? Give --nodes or --partition for Slurm, or --hosts for ssh",
            ));
        }
        None => {
            let (partition, nodes) = (args.partition.as_deref(), args.nodes.as_deref());
            let found = batch_nodes(partition, nodes).map_err(Failure::missing)?;
            let mut hosts: Vec<String> = found.into_iter().map(|node| node.name).collect();
            // Those that Slurm does not have there are listed as missing. A list that only Slurm can read has its nodes.
            let listed = nodes.filter(|_| !hosts.is_empty()).and_then(|nodes| hostlist::expand(nodes).ok());
            let known: BTreeSet<&String> = hosts.iter().collect();
            let unknown: Vec<String> =
                listed.into_iter().flatten().filter(|name| !known.contains(name)).collect();
            hosts.extend(unknown);
            let way = Way::Slurm { partition: args.partition.clone(), wait: args.wait };
            (hosts, way)
        }
    };
    if hosts.is_empty() {
        return Err(Failure::input(no_host(args)));
    }
    Ok((hosts, way))
}

fn no_host(args: &FleetHosts) -> String {
    if let Some(path) = &args.hosts {
        return format!("{} names no host: write one on each line, as ssh takes it", path.display());
    }
    let option =
        |name, value: &Option<String>| value.as_ref().map(|value| format!("{name} {}", printable(value)));
    let given = [option("--partition", &args.partition), option("--nodes", &args.nodes)];
    let given: Vec<String> = given.into_iter().flatten().collect();
    format!("Slurm has no node of {}: 'sinfo --Node' lists those that there are", given.join(" "))
}

/// Reads a list of hosts, one on each line. What follows # is a comment.
fn listed(text: &str, path: &Path) -> Outcome<Vec<String>> {
    let mut known = BTreeSet::new();
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let host = line.split('#').next().unwrap_or_default().trim();
        if host.is_empty() {
            continue;
        }
        let wrong = |why: String| Failure::input(format!("{}, line {}: {why}", path.display(), number + 1));
        match host.parse::<RemoteHost>() {
            Ok(RemoteHost::Ssh(_)) => {}
            Ok(RemoteHost::Slurm(_)) => {
                return Err(wrong(format!("{host} is a node of Slurm: name it with --nodes")));
            }
            Err(_) => {
                return Err(wrong(format!("{} is no host of ssh such as user@host", printable(host))));
            }
        }
        if known.insert(host) {
            hosts.push(host.to_owned());
        }
    }
    Ok(hosts)
}

fn program(args: &FleetHosts) -> Outcome<PathBuf> {
    let path = match &args.program {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(Failure::missing)?,
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::input(format!(
        "{} is no program that can be copied: name one with --program",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_host_on_each_line_and_comments() {
        let text = "# rack 1\nn1\n\nroot@n2  # slow?\nn1\r\nssh://n3:2222\n";
        assert_eq!(listed(text, Path::new("hosts")).unwrap(), ["n1", "root@n2", "ssh://n3:2222"]);
        let refused = |text: &str| listed(text, Path::new("hosts")).unwrap_err().message().to_owned();
        assert!(refused("n1\n-oProxyCommand=x\n").starts_with("hosts, line 2: "));
        assert!(refused("n1 n2").contains("line 1"));
        assert!(refused("slurm:n1").contains("--nodes"));
    }
}
