//! `manycore falseshare`: finds cache lines that threads share without using the same bytes.

use crate::{
    cli::{EngineChoice, Falseshare as Args, Format},
    failure::{Failure, Outcome},
    load, output,
};
use manycore_experiment::interrupt;
use manycore_falseshare::sharing::{End, Engine, Findings, Layout, Observation, Settings};
use manycore_falseshare::text;
use manycore_falseshare::{emulator, memory_sampling, symbols};
use manycore_topology::SysTree;
use std::{
    io::{IsTerminal, Write, stderr, stdout},
    path::Path,
    time::Instant,
};

/// Default of `--threshold` for emulation: false-sharing transfers from which on a line is reported.
const THRESHOLD: u64 = 50;

/// Default of `--threshold` for sampling, where each sample stands for thousands of accesses.
const SAMPLED: u64 = 5;

/// Longest line that can be followed, in bytes.
const MOST_LINE_BYTES: u32 = 128;

/// Alignment of data by allocators and linkers, in bytes; latent findings shift lines by multiples of it.
const GRAIN: u32 = 16;

/// Number of shifts that are tried for latent findings.
const MOST_SHIFTS: usize = 6;

/// Observes the command or reads a saved observation, evaluates it and prints the findings.
///
/// # Errors
/// [`Failure::Check`] where false sharing was found, [`Failure::Measured`] where the program failed,
/// [`Failure::Interrupted`] after Ctrl-C, [`Failure::Input`] and [`Failure::Missing`] where nothing could be
/// observed.
pub fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.out {
        output::check_file(path)?;
    }
    let seen = match &args.from {
        Some(path) => load::observation(path)?,
        None if is_json(args) => apart(|| observe(args))?,
        None => observe(args)?,
    };
    let saved = match &args.out {
        Some(path) => {
            let text = serde_json::to_vec(&seen).map_err(Failure::missing)?;
            output::write_file(path, &text)
        }
        None => Ok(()),
    };
    let threshold = args.threshold.unwrap_or(match seen.engine {
        Engine::Emulator { .. } => THRESHOLD,
        Engine::Sampling { .. } => SAMPLED,
    });
    let findings = Findings::of(&seen, Settings { threshold });
    output::print(&match args.format {
        _ if !is_json(args) => text::render(&findings),
        _ => output::json(&findings)?,
    })?;
    // The findings are printed even where the observation could not be saved.
    saved?;
    verdict(&findings, args)
}

/// Returns whether the program exited with status 0, or was stopped after `--timeout`.
fn ended_well(end: End) -> bool {
    matches!(end, End::Status(0) | End::Timeout)
}

/// Maps the findings to an exit code. What was found takes precedence over how the program ended.
fn verdict(findings: &Findings, args: &Args) -> Outcome {
    let latent = if args.latent { findings.latent.len() } else { 0 };
    match (findings.false_sharing.len() + latent, findings.end) {
        (0, _) if findings.unfollowed > 0 => Err(Failure::Missing(format!(
            "no false sharing among the accesses that were followed, but {} accesses were not followed; the report \
             gives the reason. If the memory was used up, run again with more than --memory {}",
            findings.unfollowed, args.memory
        ))),
        (0, end) if findings.escaped > 0 && (args.from.is_some() || ended_well(end)) => {
            Err(Failure::Missing(format!(
                "no false sharing in the observed programs, but {} ran unobserved; the report gives the reason",
                findings.escaped
            )))
        }
        (0, end) if findings.unattributed > 0 && (args.from.is_some() || ended_well(end)) => {
            Err(Failure::Missing(format!(
                "no false sharing in the program's named code, but {} of the cases in the report may belong to the \
                 program: an interpreter shares for it, or code that was generated at run time has no name. Have the \
                 runtime write names (java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node \
                 --perf-basic-prof, DOTNET_PerfMapEnabled=1), and let the program run until its methods are compiled",
                findings.unattributed
            )))
        }
        (0, _) if args.from.is_some() => Ok(()),
        (0, end) if ended_well(end) => Ok(()),
        (0, End::Status(status)) => {
            Err(Failure::Measured(format!("no false sharing before the program ended with status {status}")))
        }
        (0, End::Signal(signal)) => {
            let why = match &findings.engine {
                Engine::Emulator { version } => format!(
                    "; the emulator may be the cause (to check, run: {} {})",
                    version.split(' ').next().unwrap_or("qemu"),
                    findings.command.join(" ")
                ),
                Engine::Sampling { .. } => String::new(),
            };
            Err(Failure::Measured(format!("no false sharing before signal {signal} ended the program{why}")))
        }
        (0, End::Interrupted) => {
            Err(Failure::Interrupted("interrupted; no false sharing was found until then".to_owned()))
        }
        (1, _) => Err(Failure::Check("1 case of false sharing".to_owned())),
        (several, _) => Err(Failure::Check(format!("{several} cases of false sharing"))),
    }
}

fn is_json(args: &Args) -> bool {
    args.json || args.format == Format::Json
}

/// Runs `run` with standard output redirected to standard error, so that the command's output does not mix
/// with our JSON. Restores it afterwards.
fn apart<T>(run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let ours = rustix::io::fcntl_dupfd_cloexec(stdout(), 3).map_err(Failure::missing)?;
    rustix::stdio::dup2_stdout(stderr()).map_err(Failure::missing)?;
    let result = run();
    rustix::stdio::dup2_stdout(ours).map_err(Failure::missing)?;
    result
}

/// Runs the command under the selected engine, and adds the names of code and data to the observation.
fn observe(args: &Args) -> Outcome<Observation> {
    crate::signals::catch_interrupts()?;
    let layouts = layouts(args)?;
    let watch = Watch { began: Instant::now(), shown: !args.quiet && stderr().is_terminal() };
    let stop = || watch.look();
    let emulation = emulator::Request {
        command: args.command.iter().map(Into::into).collect(),
        layouts: layouts.clone(),
        memory_limit_bytes: args.memory,
        timeout: args.timeout,
        cleanup: Some(manycore_control::cleanup::Program::own()),
    };
    let sampling = memory_sampling::Request {
        command: args.command.clone(),
        timeout: args.timeout,
        line_bytes: layouts[0].line_bytes,
    };
    let emulated = || emulator::observe(&emulation, &stop);
    let sampled = || memory_sampling::observe(&sampling, &stop);
    let seen = match args.engine {
        EngineChoice::Emulation => emulated().map_err(of_emulation),
        EngineChoice::Sampling => sampled().map_err(of_sampling),
        EngineChoice::Auto => match emulated() {
            Err(missing @ (emulator::Error::NoEmulator(_) | emulator::Error::NoPlugins(_))) => {
                match sampled() {
                    Err(memory_sampling::Error::NoEvents(why)) => {
                        Err(Failure::missing(format!("{missing}; {why}")))
                    }
                    seen => seen.map_err(of_sampling),
                }
            }
            seen => seen.map_err(of_emulation),
        },
    };
    watch.end();
    let mut seen = seen?;
    if args.engine == EngineChoice::Auto && !args.quiet {
        tell_of_sampling(&seen);
    }
    symbols::resolve(&mut seen);
    Ok(seen)
}

/// Prints a note if this machine could have sampled accesses instead of emulating the program.
fn tell_of_sampling(seen: &Observation) {
    if matches!(seen.engine, Engine::Emulator { .. }) && memory_sampling::find(Path::new("/")).is_ok() {
        let _ = writeln!(
            stderr(),
            "manycore: note: every access was followed, in an emulator; this CPU can sample some of them at nearly \
             full speed: --engine sampling"
        );
    }
}

/// Returns the line layouts to follow: first that of this machine or of `--line-bytes`, then those for latent
/// findings.
fn layouts(args: &Args) -> Outcome<Vec<Layout>> {
    let line_bytes = match args.line_bytes {
        Some(bytes) => bytes,
        None => {
            let tree = SysTree::open(Path::new("/")).map_err(Failure::missing)?;
            let machine = manycore_topology::read(&tree).map_err(Failure::missing)?;
            machine
                .caches
                .iter()
                .filter_map(|cache| cache.line_bytes)
                .map(|bytes| bytes as u32)
                .min()
                .unwrap_or(64)
        }
    };
    let mut layouts = vec![Layout { line_bytes, shift_bytes: 0 }];
    if args.latent {
        let doubled = Some(2 * line_bytes).filter(|bytes| *bytes <= MOST_LINE_BYTES);
        layouts.extend(doubled.map(|line_bytes| Layout { line_bytes, shift_bytes: 0 }));
        let shifts = (GRAIN..line_bytes).step_by(GRAIN as usize);
        layouts.extend(shifts.map(|shift_bytes| Layout { line_bytes, shift_bytes }).take(MOST_SHIFTS));
    }
    Ok(layouts)
}

fn of_emulation(error: emulator::Error) -> Failure {
    match error {
        emulator::Error::OtherArchitecture { .. } | emulator::Error::Request(_) => Failure::input(error),
        _ => Failure::missing(error),
    }
}

fn of_sampling(error: memory_sampling::Error) -> Failure {
    match error {
        memory_sampling::Error::NoEvents(_) => {
            Failure::missing(format!("{error}; --engine emulation needs no such events"))
        }
        _ => Failure::missing(error),
    }
}

/// Progress on a terminal, with the elapsed time.
struct Watch {
    began: Instant,
    shown: bool,
}

impl Watch {
    /// Updates the progress line and returns whether to stop. Called several times a second.
    fn look(&self) -> bool {
        let seconds = self.began.elapsed().as_secs();
        if self.shown && seconds >= 2 {
            let _ = write!(
                stderr(),
                "\robserving for {seconds} s; Ctrl-C stops it and prints the findings so far"
            );
        }
        interrupt::requested()
    }

    /// Clears the progress line.
    fn end(&self) {
        if self.shown && self.began.elapsed().as_secs() >= 2 {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
