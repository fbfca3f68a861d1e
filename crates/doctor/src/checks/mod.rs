//! Facts -> checks. One file for each topic; all are pure.

mod hardware;
mod kernel;
mod programs;
mod rights;

use crate::{
    Check, DOCTOR_SCHEMA, Diagnosis, Facts, Fix, State, Topic,
    facts::SystemFacts,
    install::{PackageManager, Wanted},
};

/// Returns what follows from the facts, grouped by topic.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let topics =
        [rights::checks(facts), kernel::checks(facts), hardware::checks(facts), programs::checks(facts)];
    let checks: Vec<Check> = topics.into_iter().flatten().collect();
    let mut packages: Vec<String> = checks.iter().flat_map(|check| check.packages.clone()).collect();
    packages.sort_unstable();
    packages.dedup();
    let manager = facts.system.packages.filter(|_| !packages.is_empty());
    let install_all = manager.map(|manager| match root_command(facts, &manager.install(&packages)) {
        Fix::Command(words) | Fix::Advice(words) => words,
    });
    Diagnosis {
        schema: DOCTOR_SCHEMA.to_owned(),
        version: facts.system.version.clone(),
        system: system(&facts.system),
        install_all,
        checks,
    }
}

fn system(facts: &SystemFacts) -> String {
    let kernel = facts.kernel.as_ref().map(|release| format!("Linux {release}"));
    let hypervisor = facts.hypervisor.as_ref().map(|name| format!("guest of {name}"));
    let parts = [facts.os.clone(), kernel, Some(facts.architecture.clone()), hypervisor];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the fix of a command that only root may run.
fn root_command(facts: &Facts, command: &str) -> Fix {
    let sudo = if facts.rights.is_root { "" } else { "sudo " };
    Fix::Command(format!("{sudo}{command}"))
}

/// Returns the reason why a virtual machine lacks hardware, or the one for bare metal.
fn not_here(facts: &Facts, in_guest: &str, on_metal: &str) -> Fix {
    Fix::Advice(match &facts.system.hypervisor {
        Some(name) => format!("not on this machine: a virtual machine ({name}) {in_guest}"),
        None => format!("not on this machine: {on_metal}"),
    })
}

/// Builds the checks of one topic.
struct Maker(Topic);

impl Maker {
    /// Returns a check of something that can be used.
    fn available(&self, name: &str, used_by: &[&str], found: impl Into<String>) -> Check {
        Check {
            topic: self.0,
            name: name.to_owned(),
            state: State::Available,
            found: found.into(),
            used_by: used_by.iter().map(|&name| name.to_owned()).collect(),
            cost: None,
            fix: None,
            packages: Vec::new(),
        }
    }
}

impl Check {
    /// Returns the check as one of something that cannot be used, or not fully.
    fn lacking(self, state: State, cost: impl Into<String>, fix: Fix) -> Self {
        Self { state, cost: Some(cost.into()), fix: Some(fix), ..self }
    }

    /// Returns the check as one of a program that a package brings.
    fn not_installed(self, facts: &Facts, wanted: Wanted, cost: &str) -> Self {
        let packages = |manager: PackageManager| manager.packages(wanted, &facts.system.architecture);
        match facts.system.packages {
            Some(manager) => {
                let packages = packages(manager);
                let fix = root_command(facts, &manager.install(&packages));
                Self { packages, ..self.lacking(State::Missing, cost, fix) }
            }
            None => {
                let [debian, other] =
                    [PackageManager::Apt, PackageManager::Dnf].map(|manager| packages(manager).join(" "));
                let names = if debian == other {
                    format!("the package {debian}")
                } else {
                    format!("the packages {debian} (Debian) or {other} (Fedora, openEuler)")
                };
                self.lacking(State::Missing, cost, Fix::Advice(format!("install {names}")))
            }
        }
    }
}
