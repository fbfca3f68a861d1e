//! `manycore scale`: measures how a command scales with more workers or more copies at once.

use crate::{
    checks::Checks,
    cli,
    failure::{Failure, Outcome},
    measuring::Run,
    source, study,
};
use manycore_render::terminal::Terminal;
use manycore_study::scale::{self, Scale};

/// Measures rounds of all numbers of workers, saves the record and prints the report.
pub fn run(args: &cli::Scale, terminal: Terminal) -> Outcome {
    let in_file = args.measuring.metric.iter().find(|reader| reader.file().is_some());
    if let Some(reader) = in_file.filter(|_| args.copies) {
        return Err(Failure::input(format!(
            "--metric '{reader}' with --copies: all copies would write one file; print the figure to standard output \
             or standard error"
        )));
    }
    let options = study::options("scale", &args.measuring)?;
    let life = &args.measuring.life;
    let scale = Scale {
        command: life.shell.plain_command(&args.command.command),
        hooks: study::hooks(life, 1)?.pop().unwrap_or_default(),
        workers: args.workers.iter().map(|&count| count as usize).collect(),
        copies: args.copies,
        place: args.place.clone(),
        memory: args.memory.clone(),
    };
    let checks = Checks::new(None, &args.exports, None)?;
    let machine = source::live()?;
    let mut run = Run::begin("scale", &args.measuring.results, terminal, study::planned_seconds(&options))?
        .with_checks(checks);
    let measured = scale::run(machine, &options, &scale, &mut run);
    let (record, ending) = measured.inspect_err(|_| run.discard())?;
    run.end(record, ending.map_err(Into::into))
}
