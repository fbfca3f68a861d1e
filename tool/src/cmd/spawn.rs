//! `manycore spawn`: starts light processes by the hundred thousand. Also runs the hidden verb of the
//! built-in ones.

use crate::{
    cli::{ALL_RUNTIMES, Light, Spawn, WorkChoice},
    experiment::interrupt,
    failure::{Failure, Outcome},
    folder::Folder,
    progress::Progress,
    source,
    spawn::{self, Asked, Event, light},
};
use manycore_model::spawn::{Runtime, Work};
use std::time::Duration;

/// Counts that are measured if the user gives none.
const USUAL_COUNTS: [u64; 2] = [10_000, 100_000];

/// Estimated seconds of a run in addition to the work, for the progress bar.
const RUN_SECONDS: f64 = 2.0;

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
    interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
    let folder = Folder::make(args.results.out.clone(), args.results.force, "spawn")?;
    let total = seconds(&asked);
    let mut progress = Progress::new(total, args.results.quiet);
    let measured = spawn::run(machine, asked, &mut |event| match event {
        Event::Begin(what, share) => {
            progress.left(Duration::from_secs_f64(total * (1.0 - share)));
            progress.section(what);
        }
        Event::Missed(missed) => progress.note(&format!("{}: {}", missed.what, missed.why)),
        // Finished runs survive even SIGKILL. A full disk is reported by the final save.
        Event::Measured(record) => drop(folder.write_record(record)),
    });
    progress.finish();
    let (record, ending) = measured.inspect_err(|_| folder.give_up())?;
    if record.spawnings.is_empty() {
        folder.give_up();
        let last = record.missed.last().map(|missed| Failure::missing(missed.why.clone()));
        return ending.and(last.map_or(Ok(()), Err));
    }
    let saved = folder.save("spawn", record, args.results.quiet, args.results.format);
    match (saved, ending) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Err(Failure::Interrupted(_))) => Err(Failure::Interrupted(format!(
            "interrupted; the finished runs are in {} (show them: manycore report {0})",
            folder.record().display()
        ))),
        (Ok(()), ending) => ending,
    }
}

/// Runs built-in light processes, or the cleanup process.
pub fn light(args: &Light) -> Outcome {
    light::run(&args.kind)
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

fn seconds(asked: &Asked) -> f64 {
    let work = if asked.work == Work::Idle { 0.0 } else { asked.length.as_secs_f64() };
    let runs = asked.counts.len() + usize::from(asked.ceiling.is_some()) + 1;
    asked.runtimes.len() as f64 * (runs as f64 * RUN_SECONDS + asked.counts.len() as f64 * work)
}
