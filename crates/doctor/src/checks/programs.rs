//! Other programs that subcommands start.

use super::Maker;
use crate::{
    Check, Facts, Fix, State, Topic,
    facts::{EmulatorFacts, FeatureFacts, ProgramFacts, RuntimeFacts, SystemFacts},
    install::{PackageManager, Wanted},
};

const MAKER: Maker = Maker(Topic::Programs);

/// A program whose version was read.
struct Program {
    name: &'static str,
    used_by: &'static [&'static str],
    wanted: Wanted,
    /// What is lost without it.
    cost: &'static str,
    found: fn(&FeatureFacts) -> &ProgramFacts,
}

const PROGRAMS: [Program; 5] = [
    Program {
        name: "sysbench",
        used_by: &["eval"],
        wanted: Wanted::Sysbench,
        cost: "eval has no figures of sysbench beside its own",
        found: |features| &features.sysbench,
    },
    Program {
        name: "NumPy",
        used_by: &["eval"],
        wanted: Wanted::NumPy,
        cost: "eval leaves out threads and processes of Python",
        found: |features| &features.numpy,
    },
    Program {
        name: "stress-ng",
        used_by: &["bench", "eval"],
        wanted: Wanted::StressNg,
        cost: "semaphores and messages have no figures of stress-ng beside them",
        found: |features| &features.stress_ng,
    },
    Program {
        name: "libvirt",
        used_by: &["vm", "density"],
        wanted: Wanted::Libvirt,
        cost: "vm plan and vm check read domains from files only, and assume a version of libvirt",
        found: |features| &features.virsh,
    },
    Program {
        name: "QEMU",
        used_by: &["vm", "density"],
        wanted: Wanted::QemuSystem,
        cost: "vm plan assumes a version of QEMU; virtual machines cannot run here",
        found: |features| &features.qemu_system,
    },
];

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let runtimes = facts.features.runtimes.iter().map(|runtime| runtime_check(facts, runtime));
    let programs = PROGRAMS.iter().map(|program| program_check(facts, program));
    std::iter::once(emulator(facts)).chain(runtimes).chain(programs).collect()
}

fn program_check(facts: &Facts, program: &Program) -> Check {
    let Program { name, used_by, wanted, cost, found } = program;
    let check = |found: &str| MAKER.available(name, used_by, found);
    match found(&facts.features) {
        ProgramFacts::Found(version) => check(version),
        ProgramFacts::Missing => check("not installed").not_installed(facts, *wanted, cost),
        ProgramFacts::Broken(why) => check(why).lacking(
            State::Missing,
            *cost,
            Fix::Advice("run it by hand to see what is wrong".to_owned()),
        ),
    }
}

fn emulator(facts: &Facts) -> Check {
    let check = |found: String| MAKER.available("qemu-user", &["falseshare"], found);
    let cost = if facts.features.memory_events.is_empty() {
        "falseshare cannot observe programs"
    } else {
        "falseshare samples accesses of the CPU instead of observing all of them in an emulator"
    };
    match &facts.features.emulator {
        EmulatorFacts::Usable(version) => check(version.clone()),
        EmulatorFacts::Missing(name) => {
            let check = check(format!("no {name} in PATH"));
            if package_has_plugins(&facts.system) {
                check.not_installed(facts, Wanted::QemuUser, cost)
            } else {
                check.lacking(State::Missing, cost, emulator_with_plugins(&facts.system))
            }
        }
        EmulatorFacts::WithoutPlugins(path) => check(format!("{path} was built without plugins")).lacking(
            State::Missing,
            cost,
            emulator_with_plugins(&facts.system),
        ),
        EmulatorFacts::NotBuiltIn => check("this manycore has no plugin for it".to_owned()).lacking(
            State::Missing,
            cost,
            Fix::Advice(format!(
                "build manycore from source with Rust's target {}-unknown-linux-gnu installed",
                facts.system.architecture
            )),
        ),
        EmulatorFacts::Broken(why) => {
            check(why.clone()).lacking(State::Missing, cost, Fix::Advice("repair or reinstall it".to_owned()))
        }
    }
}

/// Whether the emulator in the distribution's package has plugins. Debian builds it statically, and so without, since
/// version 1:9.1.0 (Debian 13, Ubuntu 25.04).
fn package_has_plugins(system: &SystemFacts) -> bool {
    let version = |name: &str| -> Option<f64> {
        let version = system.os.as_deref()?.strip_prefix(name)?;
        // `12 (bookworm)`, `24.04.2 LTS`; testing has none: `trixie/sid`.
        let digits = version.split(|other: char| !other.is_ascii_digit() && other != '.').next()?;
        digits.split('.').take(2).collect::<Vec<_>>().join(".").parse().ok()
    };
    match system.packages {
        Some(PackageManager::Apt) => {
            version("Debian GNU/Linux ").is_some_and(|version| version < 13.0)
                || version("Ubuntu ").is_some_and(|version| version < 25.0)
        }
        Some(PackageManager::Dnf) | None => true,
    }
}

fn emulator_with_plugins(system: &SystemFacts) -> Fix {
    Fix::Advice(format!(
        "put a QEMU that was built with --enable-plugins first in PATH (the qemu-user of Debian 13, Ubuntu 25.04 and \
         later has no plugins): in QEMU's source, ./configure --target-list={}-linux-user --enable-plugins",
        system.architecture
    ))
}

fn runtime_check(facts: &Facts, runtime: &RuntimeFacts) -> Check {
    let (title, wanted) = match runtime.name.as_str() {
        "beam" => ("Erlang", Wanted::Erlang),
        "go" => ("Go", Wanted::Go),
        _ => ("Java", Wanted::Java),
    };
    let names = |found: bool| -> Vec<&str> {
        runtime.programs.iter().filter(|(_, there)| *there == found).map(|(name, _)| name.as_str()).collect()
    };
    let (there, missing) = (names(true), names(false));
    if missing.is_empty() {
        return MAKER.available(title, &["spawn"], there.join(", "));
    }
    MAKER.available(title, &["spawn"], format!("no {}", missing.join(", "))).not_installed(
        facts,
        wanted,
        &format!("spawn --runtime {} is refused, and spawn without --runtime leaves it out", runtime.name),
    )
}
