//! What `bench` measures: one load, on some CPUs, for some time.

use crate::{
    LOADS, LoadOptions, Options, SECTIONS, Section,
    error::{Error, LoadOption, Result},
    profile::{Profile, UNIXBENCH_SECONDS},
    scaled_to,
};
use manycore_stats::verdict::EQUIVALENCE_MARGIN;
use manycore_text::names::similar;
use manycore_topology::{CpuSet, Machine};
use std::time::Duration;

/// A request to measure one load.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Name of the load, or of a section of `eval`.
    pub name: String,
    /// CPUs to measure on; all usable ones by default.
    pub cpus: Option<CpuSet>,
    /// Time to spend; that of the profile by default.
    pub seconds: Option<Duration>,
    /// The budget, for any number of CPUs.
    pub profile: Profile,
    /// Options of the load.
    pub loads: LoadOptions,
    /// Seed of all random orders.
    pub seed: u64,
}

/// Returns everything that can be measured: the loads, then the sections of `eval`.
pub fn all() -> impl Iterator<Item = Section> {
    LOADS.into_iter().chain(SECTIONS)
}

impl Bench {
    /// Returns the section to measure, the options of the run, and `machine` restricted to the requested CPUs.
    ///
    /// # Errors
    /// [`Error::UnknownLoad`]; [`Error::InvalidOption`] and [`Error::Conflict`] for options that do not apply.
    pub fn prepare(self, machine: Machine) -> Result<(Section, Options, Machine)> {
        let section = self.check()?;
        let machine = restricted(machine, self.cpus.as_ref())?;
        let unixbench = self.as_unixbench();
        let options = Options {
            subcommand: "bench",
            profile: self.budget(&section, machine.allowed.cpus.len()),
            subject: self.name,
            loads: LoadOptions { unixbench, ..self.loads },
            margin: EQUIVALENCE_MARGIN,
            seed: self.seed,
        };
        Ok((section, options, machine))
    }

    /// Returns the section to measure. Rejects options that do not apply to it.
    ///
    /// # Errors
    /// As [`Self::prepare`], apart from CPUs that may not be used.
    pub fn check(&self) -> Result<Section> {
        let section = find(&self.name)?;
        let (stream, pipe) = (section.name == "stream", section.name == "pipe");
        let is_load = LOADS.iter().any(|load| load.name == section.name);
        let LoadOptions { workers, unixbench, unixbench_dir, stream: options } = &self.loads;
        for (option, given, applies, to) in [
            (LoadOption::Workers, !workers.is_empty(), is_load || stream, "loads and stream"),
            (LoadOption::Kernels, !options.kernels.is_empty(), stream, "stream"),
            (LoadOption::Array, options.array.is_some(), stream, "stream"),
            (LoadOption::Nodes, options.nodes.is_some(), stream, "stream"),
            (LoadOption::Unixbench, *unixbench, pipe, "pipe"),
            (LoadOption::UnixbenchFolder, unixbench_dir.is_some(), pipe, "pipe"),
        ] {
            if given && !applies {
                return Err(Error::invalid(option, format!("applies to {to}, not to {}", section.name)));
            }
        }
        let option = LoadOption::Unixbench;
        if *unixbench && !workers.is_empty() {
            let reason = "it measures one pair of processes";
            return Err(Error::Conflict { option, other: LoadOption::Workers, reason });
        }
        if *unixbench && self.seconds.is_some() {
            let reason = "it takes ten passes of 10 s";
            return Err(Error::Conflict { option, other: LoadOption::Seconds, reason });
        }
        Ok(section)
    }

    /// Returns whether pipes are measured as UnixBench does: on request, and with the published parameters.
    fn as_unixbench(&self) -> bool {
        let published = self.profile.published && self.name == "pipe";
        self.loads.unixbench || published && self.loads.workers.is_empty() && self.seconds.is_none()
    }

    /// Returns the profile, scaled so that the section takes the requested time.
    fn budget(&self, section: &Section, cpus: usize) -> Profile {
        let profile = self.profile.for_cpus(cpus);
        if self.as_unixbench() {
            return Profile { bench: UNIXBENCH_SECONDS, ..profile };
        }
        match self.seconds {
            Some(time) => scaled_to(profile, &[*section], time),
            None => profile,
        }
    }
}

fn find(name: &str) -> Result<Section> {
    all().find(|section| section.name == name).ok_or_else(|| Error::UnknownLoad {
        name: name.to_owned(),
        similar: similar(all().map(|section| section.name), name),
    })
}

/// Restricts the machine to `cpus`, as if no other CPUs could be used.
fn restricted(mut machine: Machine, cpus: Option<&CpuSet>) -> Result<Machine> {
    if let Some(cpus) = cpus {
        let usable = machine.usable();
        let invalid = |reason: String| Err(Error::invalid(LoadOption::Cpus, reason));
        if cpus.is_empty() {
            return invalid(format!("is empty; expected some of {usable}, which may be used here"));
        }
        if !cpus.iter().all(|cpu| usable.contains(cpu)) {
            return invalid(format!("{cpus} has CPUs that may not be used here; expected some of {usable}"));
        }
        machine.allowed.cpus = cpus.clone();
    }
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{FULL, QUICK};
    use manycore_topology::machine::Allowed;
    use std::collections::BTreeSet;

    fn request(name: &str) -> Bench {
        let (name, loads) = (name.to_owned(), LoadOptions::default());
        Bench { name, cpus: None, seconds: None, profile: QUICK, loads, seed: 1 }
    }

    fn machine() -> Machine {
        let online: CpuSet = "0-3".parse().unwrap();
        let allowed = Allowed { cpus: online.clone(), ..Allowed::default() };
        Machine { online, allowed, ..Machine::default() }
    }

    #[test]
    fn every_name_means_one_thing() {
        let names: BTreeSet<&str> = all().map(|section| section.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn options_of_other_loads_are_rejected() {
        let refused = |request: Bench| request.prepare(machine()).unwrap_err().to_string();
        let loads = LoadOptions { workers: vec![2], ..LoadOptions::default() };
        let message = refused(Bench { loads, ..request("noise") });
        assert_eq!(message, "the number of workers applies to loads and stream, not to noise");
        let loads = LoadOptions { unixbench: true, workers: vec![2], ..LoadOptions::default() };
        let message = refused(Bench { loads, ..request("pipe") });
        assert!(message.contains("cannot be combined with the number of workers"), "{message}");
        assert!(refused(request("lokc")).contains("similar names are: lock"));
        let cpus = Some("3-4".parse().unwrap());
        assert!(refused(Bench { cpus, ..request("lock") }).contains("3-4 has CPUs that may not be used"));
    }

    #[test]
    fn a_run_takes_the_requested_time_on_the_requested_cpus() {
        let (cpus, seconds) = (Some("1-2".parse().unwrap()), Some(Duration::from_secs(3)));
        let (section, options, machine) =
            Bench { cpus, seconds, ..request("counter") }.prepare(machine()).unwrap();
        assert_eq!((section.name, options.subcommand), ("counter", "bench"));
        assert!((crate::seconds(&options.profile, &[section]) - 3.0).abs() < 1e-9);
        assert_eq!(machine.usable().to_string(), "1-2");
    }

    #[test]
    fn the_published_parameters_of_pipes_are_those_of_unixbench() {
        let full = Bench { profile: FULL, ..request("pipe") };
        assert!(full.clone().prepare(machine()).unwrap().1.loads.unixbench);
        let timed = Bench { seconds: Some(Duration::from_secs(3)), ..full };
        assert!(!timed.prepare(machine()).unwrap().1.loads.unixbench);
    }
}
