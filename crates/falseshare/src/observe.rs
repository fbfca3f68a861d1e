//! Observes a command with the requested engine, and looks up the names of its code and data.

use crate::{
    Error, Result, emulator, memory_sampling,
    sharing::{Engine, LineLayout, Observation},
    symbols,
};
use manycore_control::cleanup;
use manycore_topology::SysTree;
use std::{path::Path, time::Duration};

/// Size of a cache line in bytes on machines that do not report one.
const DEFAULT_LINE_BYTES: u32 = 64;

/// How memory accesses are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// Emulation, or sampling where there is no emulator with plugins.
    #[default]
    Auto,
    /// Every access, in an emulator.
    Emulation,
    /// Some accesses, recorded by the hardware.
    Sampling,
}

/// What to observe, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The engine.
    pub engine: EngineChoice,
    /// Size of a cache line in bytes, 32, 64 or 128; that of this machine if absent.
    pub line_bytes: Option<u32>,
    /// Whether to follow other line layouts too, for latent findings.
    pub latent: bool,
    /// Maximum memory for the bookkeeping of emulation, in bytes: see
    /// [`emulator::Request::memory_limit_bytes`].
    pub memory_limit_bytes: u64,
    /// The command is stopped after this time.
    pub timeout: Option<Duration>,
    /// The program that runs the cleanup process: see [`emulator::Request::cleanup`].
    pub cleanup: Option<cleanup::Program>,
}

/// Runs the command to its end and returns what was observed, with the names of its code and data. The
/// command uses our terminal, standard input and output. `stop` is called several times a second; when it
/// returns true, the command is ended early, and what was seen until then is returned. Processes that the
/// command leaves behind are ended with it. Therefore, no other children of this process may start or exit
/// during the call.
///
/// # Errors
/// See [`Error`]; failures of the command itself are in [`Observation::end`].
pub fn observe(options: &Options, stop: &dyn Fn() -> bool) -> Result<Observation> {
    let line_bytes = options.line_bytes.map_or_else(machine_line_bytes, Ok)?;
    let emulated = || {
        let request = emulator::Request {
            command: options.command.iter().map(Into::into).collect(),
            layouts: LineLayout::to_follow(line_bytes, options.latent),
            memory_limit_bytes: options.memory_limit_bytes,
            timeout: options.timeout,
            cleanup: options.cleanup.clone(),
        };
        emulator::observe(&request, stop)
    };
    let sampled = || {
        let (command, timeout) = (options.command.clone(), options.timeout);
        memory_sampling::observe(&memory_sampling::Request { command, timeout, line_bytes }, stop)
    };
    let mut seen = match options.engine {
        EngineChoice::Emulation => emulated()?,
        EngineChoice::Sampling => sampled()?,
        EngineChoice::Auto => match emulated() {
            Err(emulator @ (Error::NoEmulator(_) | Error::NoPlugins(_))) => {
                sampled().map_err(|error| match error {
                    Error::NoEvents(events) => Error::NoEngine { emulator: emulator.to_string(), events },
                    other => other,
                })?
            }
            seen => seen?,
        },
    };
    symbols::resolve(&mut seen);
    Ok(seen)
}

/// Returns the names of the events with which this machine's CPUs sample the addresses of loads and stores.
///
/// # Errors
/// [`Error::NoEvents`] if they have none.
pub fn sampled_events() -> Result<Vec<String>> {
    Ok(memory_sampling::find(Path::new("/"))?.into_iter().map(|event| event.name).collect())
}

/// Returns whether `seen` was observed in an emulator on a machine that could have sampled accesses.
pub fn could_have_sampled(seen: &Observation) -> bool {
    matches!(seen.engine, Engine::Emulator { .. }) && memory_sampling::find(Path::new("/")).is_ok()
}

/// Returns the size of the smallest cache line of this machine in bytes.
fn machine_line_bytes() -> Result<u32> {
    let tree = SysTree::open(Path::new("/")).map_err(|error| Error::Machine(error.to_string()))?;
    let machine = manycore_topology::read(&tree).map_err(|error| Error::Machine(error.to_string()))?;
    let sizes = machine.caches.iter().filter_map(|cache| cache.line_bytes);
    Ok(sizes.map(|bytes| bytes as u32).min().unwrap_or(DEFAULT_LINE_BYTES))
}
