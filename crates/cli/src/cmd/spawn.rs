//! `manycore spawn`: starts light processes by the hundred thousand. Also runs the hidden verb of the
//! built-in ones.

use crate::{
    cli::{ALL_RUNTIMES, Light, Spawn, WorkChoice},
    failure::{Failure, Outcome},
    measuring::Run,
    source,
};
use manycore_experiment::spawning::{Runtime, Work};
use manycore_spawn::{self, Asked, light};

/// Counts that are measured if the user gives none.
const USUAL_COUNTS: [u64; 2] = [10_000, 100_000];

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Spawn) -> Outcome {
    if let Some(folder) = args.scratch.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!(
            "--scratch: there is no directory {}: create it first",
            folder.display()
        )));
    }
    let machine = source::live()?;
    let asked = asked(args);
    let mut run = Run::begin("spawn", &args.results, manycore_spawn::seconds(&asked))?;
    let measured = manycore_spawn::run(machine, asked, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.give_up())?;
    run.end(record, ending.map_err(Into::into))
}

/// Runs built-in light processes.
pub fn light(args: &Light) -> Outcome {
    Ok(light::run(&args.kind)?)
}

fn asked(args: &Spawn) -> Asked {
    let all = args.runtime.iter().any(|name| name == ALL_RUNTIMES);
    let wanted = |runtime: &Runtime| all || args.runtime.iter().any(|name| name == runtime.name());
    Asked {
        runtimes: Runtime::ALL.into_iter().filter(wanted).collect(),
        named: !all,
        chosen: !args.counts.is_empty(),
        counts: if args.counts.is_empty() { USUAL_COUNTS.to_vec() } else { args.counts.clone() },
        work: match args.work {
            WorkChoice::Idle => Work::Idle,
            WorkChoice::Spin => Work::Spin,
            WorkChoice::Io => Work::Io,
        },
        length: args.length,
        scratch: args.scratch.clone(),
        ceiling: args.ceiling,
        force: args.beyond_memory,
    }
}
