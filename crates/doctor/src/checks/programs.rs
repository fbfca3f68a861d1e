//! Other programs that subcommands start.

use super::Maker;
use crate::{
    Check, Facts, Fix, State, Topic,
    facts::{EmulatorFacts, FeatureFacts, ProgramFacts, RuntimeFacts},
    install::Wanted,
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
            Fix::Advice("run it by hand to see what is wrong, and reinstall it".to_owned()),
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
            check(format!("no {name} in PATH")).not_installed(facts, Wanted::QemuUser, cost)
        }
        EmulatorFacts::WithoutPlugins(path) => {
            check(format!("{path} has no plugins")).not_installed(facts, Wanted::QemuUser, cost)
        }
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
