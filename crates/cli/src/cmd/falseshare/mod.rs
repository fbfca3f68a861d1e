//! `manycore falseshare`: finds cache lines that threads share without using the same bytes.

mod conclusion;
mod elapsed;

use crate::{
    cli::{EngineChoice, Falseshare as Args, Format},
    failure::{Failure, Outcome},
    load, output, signals,
};
use elapsed::Elapsed;
use manycore_control::cleanup;
use manycore_experiment::interrupt;
use manycore_falseshare::{
    Options, could_have_sampled, observe,
    sharing::{Findings, Observation, Settings},
    text,
};
use manycore_render::terminal::Terminal;
use std::cell::RefCell;

/// Observes the command or reads a saved observation, evaluates it and prints the findings.
///
/// # Errors
/// [`Failure::Check`] where false sharing was found, [`Failure::Measured`] where the program failed,
/// [`Failure::Interrupted`] after Ctrl-C, [`Failure::Input`] and [`Failure::Missing`] where nothing could be
/// observed.
pub fn run(args: &Args, terminal: Terminal) -> Outcome {
    if let Some(path) = &args.save {
        output::check_file(path)?;
    }
    // The program's own output must not mix with what other programs read.
    let is_for_programs = args.format != Format::Text;
    let seen = match &args.from {
        Some(path) => load::observation(path)?,
        None if is_for_programs => output::with_stdout_on_stderr(|| observe_command(args))?,
        None => observe_command(args)?,
    };
    let saved = match &args.save {
        Some(path) => {
            let text = serde_json::to_vec(&seen).map_err(Failure::missing)?;
            output::write_file(path, &text)
        }
        None => Ok(()),
    };
    let settings = match args.threshold {
        Some(threshold) => Settings { threshold },
        None => Settings::of_engine(&seen.engine),
    };
    let findings = Findings::from_observation(&seen, settings);
    let extent = args.extent.extent();
    output::result(args.format, terminal, &findings, || text::render(&findings, extent))?;
    // The findings are printed even where the observation could not be saved.
    saved?;
    conclusion::outcome(&findings, args)
}

fn observe_command(args: &Args) -> Outcome<Observation> {
    signals::catch_interrupts()?;
    let options = Options {
        command: args.command.clone(),
        engine: args.engine.into(),
        line_bytes: args.line_bytes,
        latent: args.latent,
        memory_limit_bytes: args.memory_limit,
        timeout: args.budget,
        cleanup: Some(cleanup::Program::own()),
    };
    let progress = RefCell::new(Elapsed::new(args.budget, args.quiet));
    let stop = || {
        progress.borrow_mut().update();
        interrupt::requested()
    };
    let seen = observe(&options, &stop);
    drop(progress);
    let seen = seen?;
    if args.engine == EngineChoice::Auto && !args.quiet && could_have_sampled(&seen) {
        output::note(
            "manycore: note: every access was followed, in an emulator; this CPU can sample some of them at nearly \
             full speed: --engine sampling",
        );
    }
    Ok(seen)
}
