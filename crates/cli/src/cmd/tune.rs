//! `manycore tune`: searches for the number of workers, placement, SMT use and memory policy that serve a
//! command best, and confirms the result.

use crate::{
    checks::Checks,
    cli::Tune,
    failure::{Failure, Outcome},
    measuring::Run,
    output, source, study,
};
use manycore_render::terminal::Terminal;
use manycore_study::{
    scheduler::{ClusterPolicy, SchedulerChoice},
    tune::{self, Search},
};

/// Searches, saves the record and the winner's plan, and prints the verdict.
pub fn run(args: &Tune, terminal: Terminal) -> Outcome {
    let options = study::options("tune", &args.measuring)?;
    let life = &args.measuring.life;
    let search = Search {
        command: life.shell.plain_command(&args.command.command),
        hooks: study::hooks(life, 1)?.pop().unwrap_or_default(),
        settings: args.settings.clone(),
        schedulers: schedulers(args),
        workers: args.workers.iter().map(|&count| count as usize).collect(),
        place: args.place.clone(),
        memory: args.memory.clone(),
        today: args.today.map(|workers| workers as usize),
    };
    let checks = Checks::new(None, &args.exports, None)?;
    let machine = source::live()?;
    let mut run = Run::begin("tune", &args.measuring.results, terminal, study::planned_seconds(&options))?
        .with_checks(checks);
    let measured = tune::run(machine, &options, &search, &mut run);
    let (tuned, ending) = measured.inspect_err(|_| run.discard())?;
    let path = run.folder().join("plan.json");
    run.end(tuned.record, ending.map_err(Into::into))?;
    let Some(plan) = tuned.winner else { return Ok(()) };
    output::write_file(&path, &serde_json::to_vec_pretty(&plan).map_err(Failure::missing)?)?;
    if !args.measuring.results.quiet {
        output::note(&format!("The plan of the winner is {}.", path.display()));
    }
    Ok(())
}

/// The schedulers to try: those that are named, or those of this program where the option has no value.
fn schedulers(args: &Tune) -> Vec<SchedulerChoice> {
    match &args.schedulers {
        None => Vec::new(),
        Some(named) if named.is_empty() => ClusterPolicy::ALL.map(SchedulerChoice::Cluster).to_vec(),
        // The kernel's own one is always tried.
        Some(named) => named.iter().filter(|choice| **choice != SchedulerChoice::Kernel).cloned().collect(),
    }
}
