//! The hosts on which loads run: this machine, or others.
//!
//! With one host, all loads run there. With several, the load of the observed instance has the first one alone, and those of
//! the other instances are distributed over the rest.

use crate::{Error, Result};
use manycore_remote::{RemoteConnection, RemoteHost};
use manycore_topology::CpuSet;
use std::{fs, net::IpAddr, rc::Rc, time::Duration};

/// How long a host may take to answer before anything is measured.
const ANSWER: Duration = Duration::from_secs(30);
/// A number that only the running kernel of one machine has.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The hosts of the loads; this machine if there are none. Connections are closed when the last copy is dropped.
#[derive(Clone, Debug, Default)]
pub struct LoadHosts(Rc<Vec<LoadHost>>);

#[derive(Debug)]
struct LoadHost {
    connection: RemoteConnection,
    /// Names the running kernel of the machine.
    boot: String,
    /// Whether it is this machine, under another name.
    is_here: bool,
    /// The generator of this program there, if it is used.
    generator: Option<String>,
}

impl LoadHosts {
    /// Connects to hosts, and checks that commands run there. `ssh` is the program with its options. `generator` is the program
    /// `manycore` there, where it generates the loads: it must have this version.
    ///
    /// # Errors
    /// [`Error::Remote`]; [`Error::GeneratorVersion`].
    pub fn open(hosts: &[RemoteHost], ssh: &[String], generator: Option<&str>) -> Result<Self> {
        let own = fs::read_to_string(BOOT_ID).unwrap_or_default();
        let open = |host: &RemoteHost| {
            let connection = RemoteConnection::open(host, ssh)?;
            let boot = connection.output(&["cat", BOOT_ID].map(str::to_owned), ANSWER)?;
            if let Some(program) = generator {
                check_version(&connection, program)?;
            }
            // The shell there may print other lines before.
            let boot = boot.stdout.lines().rfind(|line| !line.is_empty()).unwrap_or_default().to_owned();
            let is_here = !own.is_empty() && boot == own.trim();
            Ok(LoadHost { connection, boot, is_here, generator: generator.map(str::to_owned) })
        };
        Ok(Self(Rc::new(hosts.iter().map(open).collect::<Result<_>>()?)))
    }

    /// Whether loads run on this machine, without a connection.
    pub fn is_local(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that the hosts can reach an address on which instances serve.
    ///
    /// # Errors
    /// [`Error::UnreachableAddress`] if it means the host itself there, or no single address.
    pub fn check_address(&self, address: IpAddr) -> Result {
        match self.0.iter().find(|host| is_wrong(address, host.is_here)) {
            Some(host) => Err(Error::UnreachableAddress { address, host: host.connection.host().clone() }),
            None => Ok(()),
        }
    }

    /// Returns the number of hosts.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether the load of the observed instance has a machine of its own.
    pub(crate) fn first_is_alone(&self) -> bool {
        self.0.split_first().is_some_and(|(first, others)| {
            !first.is_here && !others.is_empty() && others.iter().all(|other| other.boot != first.boot)
        })
    }

    /// Returns the connection to a host.
    pub(crate) fn connection(&self, host: usize) -> &RemoteConnection {
        &self.0[host].connection
    }

    /// Returns the program `manycore` of a host.
    pub(crate) fn generator(&self, host: usize) -> &str {
        self.0[host].generator.as_deref().unwrap_or("manycore")
    }

    /// Returns the hosts as text for a record.
    pub(crate) fn names(&self) -> String {
        let name = |host: &LoadHost| {
            let here = if host.is_here { " (this machine)" } else { "" };
            format!("{}{here}", host.connection.host())
        };
        self.0.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the host of a load, and its number among the loads there.
pub(crate) fn place_of(index: usize, hosts: usize) -> (usize, usize) {
    match (index, hosts.saturating_sub(1)) {
        (index, 0) => (0, index),
        (0, _) => (0, 0),
        (index, others) => (1 + (index - 1) % others, (index - 1) / others),
    }
}

/// Returns the CPUs of a load on its host: the first one alone for the observed instance, and the rest for the others. If
/// `first_is_alone`, on a machine of its own, all loads have all.
pub(crate) fn cpus_of(index: usize, cpus: &CpuSet, first_is_alone: bool) -> Option<CpuSet> {
    if first_is_alone {
        return Some(cpus.clone()).filter(|cpus| !cpus.is_empty());
    }
    let (first, rest) = (cpus.first()?, cpus.iter().skip(1).collect::<CpuSet>());
    Some(if index > 0 && !rest.is_empty() { rest } else { std::iter::once(first).collect() })
}

fn is_wrong(address: IpAddr, is_here: bool) -> bool {
    address.is_unspecified() || address.is_loopback() && !is_here
}

fn check_version(connection: &RemoteConnection, program: &str) -> Result {
    let wanted = concat!("manycore ", env!("CARGO_PKG_VERSION"));
    let output = connection.output(&[program, "--version"].map(str::to_owned), ANSWER)?;
    if output.stdout.lines().any(|line| line == wanted) {
        return Ok(());
    }
    let said = output.stdout.lines().rfind(|line| !line.is_empty()).unwrap_or(&output.last_line).to_owned();
    Err(Error::GeneratorVersion {
        program: program.to_owned(),
        host: connection.host().clone(),
        said,
        wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observed_load_has_a_host_of_its_own() {
        let places = |hosts| (0..5).map(|index| place_of(index, hosts)).collect::<Vec<_>>();
        assert_eq!(places(1), [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
        assert_eq!(places(2), [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]);
        assert_eq!(places(3), [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)]);
    }

    #[test]
    fn the_observed_load_has_a_cpu_of_its_own() {
        let of = |index, list: &str, alone| {
            cpus_of(index, &list.parse().unwrap(), alone).map(|cpus| cpus.to_string())
        };
        let found = [of(0, "4-6", false), of(1, "4-6", false), of(9, "4-6", false)];
        assert_eq!(found.map(Option::unwrap), ["4", "5-6", "5-6"]);
        assert_eq!([of(0, "3", false), of(1, "3", false)].map(Option::unwrap), ["3", "3"]);
        assert_eq!([of(0, "4-6", true), of(1, "4-6", true)].map(Option::unwrap), ["4-6", "4-6"]);
        assert_eq!([of(0, "", false), of(0, "", true)], [None, None]);
    }

    #[test]
    fn another_host_cannot_reach_the_loopback_address() {
        let wrong = |text: &str, is_here| is_wrong(text.parse().unwrap(), is_here);
        assert!(wrong("127.0.0.1", false) && wrong("::1", false) && wrong("0.0.0.0", true));
        assert!(!wrong("127.0.0.1", true) && !wrong("192.0.2.1", false));
    }
}
