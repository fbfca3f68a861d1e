//! `manycore spawn`: starts light processes by the hundred thousand. Also runs the hidden subcommand of the
//! built-in ones.

use crate::{
    cli::{ALL_RUNTIMES, Light, Spawn, WorkChoice},
    failure::{Failure, Outcome},
    measuring::Run,
    source,
};
use manycore_experiment::spawning::{Runtime, Work};
use manycore_render::terminal::Terminal;
use manycore_spawn::{Error, SpawnOptions, builtin};

/// Counts that are measured if the user gives none.
const DEFAULT_COUNTS: [u64; 2] = [10_000, 100_000];

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Spawn, terminal: Terminal) -> Outcome {
    if let Some(folder) = args.scratch.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!(
            "--scratch: there is no directory {}: create it first",
            folder.display()
        )));
    }
    let machine = source::live()?;
    let options = options(args);
    let mut run = Run::begin("spawn", &args.results, terminal, Some(options.seconds()))?;
    let measured = manycore_spawn::run(machine, options, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard()).map_err(with_option)?;
    run.end(record, ending.map_err(with_option))
}

/// Runs built-in light processes.
pub fn run_light(args: &Light) -> Outcome {
    Ok(builtin::run(&args.kind)?)
}

fn options(args: &Spawn) -> SpawnOptions {
    let all = args.runtime.iter().any(|name| name == ALL_RUNTIMES);
    let is_requested = |runtime: &Runtime| all || args.runtime.iter().any(|name| name == runtime.name());
    SpawnOptions {
        runtimes: Runtime::ALL.into_iter().filter(is_requested).collect(),
        runtimes_given: !all,
        counts: if args.counts.is_empty() { DEFAULT_COUNTS.to_vec() } else { args.counts.clone() },
        counts_given: !args.counts.is_empty(),
        work: match args.work {
            WorkChoice::Idle => Work::Idle,
            WorkChoice::Spin => Work::Spin,
            WorkChoice::Io => Work::Io,
        },
        length: args.work_time,
        scratch: args.scratch.clone(),
        memory_limit: args.test_capacity,
        beyond_memory: args.beyond_memory,
    }
}

/// Adds the option that caused the error or resolves it.
fn with_option(error: Error) -> Failure {
    match error {
        Error::LimitTooLarge { .. } => Failure::input(format!("--test-capacity: {error}")),
        Error::TooManyForMemory { .. } => Failure::input(format!("{error} (--beyond-memory)")),
        Error::TooManyFiles { .. } => Failure::input(format!("{error} (--scratch DIR)")),
        Error::UnknownMemory | Error::NoMemoryGroup(_) => {
            Failure::missing(format!("--test-capacity and --beyond-memory: {error}"))
        }
        error => error.into(),
    }
}
