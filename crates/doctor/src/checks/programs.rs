//! Other programs that subcommands start.

use super::Maker;
use crate::{
    Check, Facts, Fix, State, Topic,
    facts::{EmulatorFacts, ProgramFacts, RuntimeFacts},
    install::Wanted,
};

const MAKER: Maker = Maker(Topic::Programs);

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let features = &facts.features;
    let program = |name, used_by: &[&str], program: &ProgramFacts, wanted, cost| match program {
        ProgramFacts::Found(version) => MAKER.available(name, used_by, version),
        ProgramFacts::Missing => {
            MAKER.available(name, used_by, "not installed").not_installed(facts, wanted, cost)
        }
        ProgramFacts::Broken(why) => MAKER.available(name, used_by, why).lacking(
            State::Missing,
            cost,
            Fix::Advice("run it by hand to see what is wrong, and reinstall it".to_owned()),
        ),
    };
    let mut checks = vec![emulator(facts)];
    checks.extend(features.runtimes.iter().map(|runtime| runtime_check(facts, runtime)));
    checks.extend([
        program(
            "sysbench",
            &["eval"],
            &features.sysbench,
            Wanted::Sysbench,
            "eval has no figures of sysbench beside its own",
        ),
        program(
            "NumPy",
            &["eval"],
            &features.numpy,
            Wanted::NumPy,
            "eval leaves out threads and processes of Python",
        ),
        program(
            "stress-ng",
            &["bench", "eval"],
            &features.stress_ng,
            Wanted::StressNg,
            "semaphores and messages have no figures of stress-ng beside them",
        ),
        program(
            "libvirt",
            &["vm"],
            &features.virsh,
            Wanted::Libvirt,
            "vm plan and vm check read domains from files only, and assume a version of libvirt",
        ),
        program(
            "QEMU",
            &["vm"],
            &features.qemu_system,
            Wanted::QemuSystem,
            "vm plan assumes a version of QEMU; virtual machines cannot run here",
        ),
    ]);
    checks
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
