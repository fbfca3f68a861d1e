//! `manycore doctor`: shows what this machine lets the program do, and what brings the rest.

use crate::{
    cli::Doctor,
    failure::{Failure, Outcome},
    output,
};
use manycore_doctor::{
    FeatureFacts, diagnose,
    facts::{EmulatorFacts, ProgramFacts, RuntimeFacts},
    probe, text,
};
use manycore_evaluate::python::numpy_version;
use manycore_experiment::spawning::Runtime;
use manycore_falseshare::{Error as FalseshareError, emulator, sampled_events};
use manycore_render::terminal::Terminal;
use manycore_topology::SysTree;
use std::{
    env::consts::ARCH,
    path::Path,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// Time after which a program that was run to get its version counts as broken. Importing NumPy takes seconds on a busy machine.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Examines the machine and prints the result. Missing things are no failure.
///
/// # Errors
/// [`Failure::Input`] if sysfs or procfs cannot be read.
pub fn run(args: &Doctor, terminal: Terminal) -> Outcome {
    let tree = SysTree::open(Path::new("/")).map_err(Failure::input)?;
    let machine = manycore_topology::read(&tree).map_err(Failure::input)?;
    let facts = probe::read(&tree, &machine, env!("CARGO_PKG_VERSION"), features());
    let diagnosis = diagnose(&facts);
    output::result(args.format, terminal, &diagnosis, || text::render(&diagnosis, args.extent.extent()))
}

/// Runs the probes of the features, all at once.
fn features() -> FeatureFacts {
    let deadline = Instant::now() + PROBE_LIMIT;
    let virsh = started(|| version(manycore_vm::libvirt_version()));
    let qemu_system = started(|| version(manycore_vm::qemu_version(ARCH)));
    let sysbench = started(|| evaluated(manycore_evaluate::sysbench_version()));
    let stress_ng = started(|| evaluated(manycore_evaluate::stress_ng_version()));
    let numpy = started(|| evaluated(numpy_version()));
    let emulator = started(emulator_facts);
    FeatureFacts {
        emulator: result(&emulator, deadline).unwrap_or_else(|| EmulatorFacts::Broken(no_answer())),
        memory_events: sampled_events().unwrap_or_default(),
        virsh: program(&virsh, deadline),
        qemu_system: program(&qemu_system, deadline),
        runtimes: [Runtime::Beam, Runtime::Go, Runtime::Jvm].map(runtime).into(),
        sysbench: program(&sysbench, deadline),
        stress_ng: program(&stress_ng, deadline),
        numpy: program(&numpy, deadline),
    }
}

/// Starts a probe in a thread. Its programs do not outlive this one.
fn started<T: Send + 'static>(probe: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    // The receiver is gone after the time limit.
    thread::spawn(move || drop(sender.send(probe())));
    receiver
}

fn result<T>(receiver: &Receiver<T>, deadline: Instant) -> Option<T> {
    receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}

fn program(receiver: &Receiver<ProgramFacts>, deadline: Instant) -> ProgramFacts {
    result(receiver, deadline).unwrap_or_else(|| ProgramFacts::Broken(no_answer()))
}

fn no_answer() -> String {
    format!("no answer after {} s", PROBE_LIMIT.as_secs())
}

fn version(found: Option<impl ToString>) -> ProgramFacts {
    found.map_or(ProgramFacts::Missing, |version| ProgramFacts::Found(version.to_string()))
}

fn evaluated(found: manycore_evaluate::Result<String>) -> ProgramFacts {
    match found {
        Ok(version) => ProgramFacts::Found(version),
        Err(manycore_evaluate::Error::Unavailable(_)) => ProgramFacts::Missing,
        Err(error) => ProgramFacts::Broken(error.to_string()),
    }
}

fn emulator_facts() -> EmulatorFacts {
    match emulator::find() {
        Ok(found) => EmulatorFacts::Usable(found.version),
        Err(FalseshareError::NoEmulator(name)) => EmulatorFacts::Missing(name),
        Err(FalseshareError::NoPlugins(path)) => EmulatorFacts::WithoutPlugins(path),
        Err(FalseshareError::NoPlugin(_)) => EmulatorFacts::NotBuiltIn,
        Err(error) => EmulatorFacts::Broken(error.to_string()),
    }
}

fn runtime(runtime: Runtime) -> RuntimeFacts {
    let programs = manycore_spawn::needed_programs(runtime);
    RuntimeFacts {
        name: runtime.name().to_owned(),
        programs: programs.into_iter().map(|(name, there)| (name.to_owned(), there)).collect(),
    }
}
