//! Stored records among the arguments of `compare`: as both sides, or as the baseline of a new measurement.

use crate::{
    checks::{Baseline, Checks, fails},
    cli::{Compare, Format},
    cmd::report,
    failure::{Failure, Outcome},
    folder::RECORD,
    load, output, results, source,
};
use manycore_analysis::gate;
use manycore_experiment::{
    Record,
    metric::{MEASURED, MEASURED_OF_SERVICE},
    record::{Direction, Metric, RECORD_SCHEMA},
};
use manycore_render::terminal::Terminal;
use manycore_report::{Exported, NamedEvaluation, SessionComparison};
use manycore_study::{format_command, sharing::SharingMeter};
use manycore_text::names::list;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Bytes at the start of a file that has to name its kind.
const START_BYTES: u64 = 256;

/// The records of both sides.
pub(super) struct Sides {
    baseline: Vec<PathBuf>,
    new: Vec<PathBuf>,
}

/// Returns the records that are compared with each other; `None` where commands are measured.
///
/// # Errors
/// [`Failure::Input`] where records and commands are mixed, or one side has no record.
pub(super) fn sides(args: &Compare) -> Outcome<Option<Sides>> {
    let (records, commands): (Vec<&String>, Vec<&String>) =
        args.commands.iter().partition(|word| is_record(Path::new(word)));
    let Some(first) = records.first() else {
        return match args.commands.as_slice() {
            [command] if !args.baseline.is_empty() && args.variants.parameter.is_empty() => {
                Err(Failure::input(format!(
                    "one command that is compared with stored records follows --\nType: manycore compare --baseline {} -- \
                 {command}",
                    shown(&args.baseline)
                )))
            }
            _ => Ok(None),
        };
    };
    if let Some(command) = commands.first().copied().or(args.command.first()).or(args.variants.vs.as_ref()) {
        return Err(Failure::input(format!(
            "{first} is a record and {command} is a command\nType, to measure the command and compare it with the \
             record: manycore compare --baseline {first} -- COMMAND"
        )));
    }
    let path = |word: &&String| results::named(&args.measuring.results.base.results, Path::new(word));
    let mut named = records.iter().map(path).collect::<Outcome<Vec<_>>>()?;
    let baseline = named_baseline(args)?;
    if !baseline.is_empty() {
        return Ok(Some(Sides { baseline, new: named }));
    }
    if named.len() != 2 {
        let words = format_command(&records.iter().map(|word| (*word).clone()).collect::<Vec<_>>());
        let what = if named.len() == 1 { "there is one record" } else { "there are several records" };
        return Err(Failure::input(format!(
            "{what}, and none of them is named as the baseline\nType: manycore compare {words} --baseline OLD/record.json"
        )));
    }
    let new = named.split_off(1);
    Ok(Some(Sides { baseline: named, new }))
}

/// Returns the records of `--baseline`.
fn named_baseline(args: &Compare) -> Outcome<Vec<PathBuf>> {
    args.baseline.iter().map(|word| results::named(&args.measuring.results.base.results, word)).collect()
}

fn shown(paths: &[PathBuf]) -> String {
    format_command(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
}

/// Returns whether a word names a record and not a command: a directory of results, a file that begins as a record
/// does, or a JSON file that is no program and is read for the reason why it is no record.
fn is_record(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    if found.is_dir() {
        return path.join(RECORD).is_file();
    }
    if !found.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    let kind = RECORD_SCHEMA.trim_end_matches(|sign: char| sign.is_ascii_digit());
    let is_program = found.permissions().mode() & 0o111 != 0;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    read.is_ok() && String::from_utf8_lossy(&start).contains(kind) || (is_json && !is_program)
}

/// Compares stored records, and prints the result.
///
/// # Errors
/// [`Failure::Input`] for records that cannot be read or compared, [`Failure::Check`] where a gate failed.
pub(super) fn run(args: &Compare, sides: &Sides, terminal: Terminal) -> Outcome {
    let checks = Checks::new(Some(&args.gates), &args.exports, None)?;
    let paths: Vec<PathBuf> = sides.baseline.iter().chain(&sides.new).cloned().collect();
    let records = paths.iter().map(|path| load::record(path)).collect::<Outcome<Vec<Record>>>()?;
    let named: Vec<(String, Record)> = report::names(&paths).into_iter().zip(records).collect();
    let (baseline, new) = named.split_at(sides.baseline.len());
    let earlier = earlier(args, &named[0].1.subcommand);
    let compared = SessionComparison::new(
        &borrowed(baseline),
        &borrowed(new),
        &earlier,
        args.measuring.equivalent,
        args.estimator.by,
    );
    let mut compared = compared.map_err(Failure::Input)?;
    compared.decide(&args.gates.fail_if, fails(&args.gates)).map_err(Failure::Input)?;
    let all: Vec<NamedEvaluation> =
        named.into_iter().map(|(name, record)| NamedEvaluation::new(name, record)).collect();
    let result = Exported { all: &all, sessions: Some(&compared) };
    print(&compared, args.measuring.results.format, terminal)?;
    checks.end(&result)
}

fn borrowed(side: &[(String, Record)]) -> Vec<(String, &Record)> {
    side.iter().map(|(name, record)| (name.clone(), record)).collect()
}

fn print(compared: &SessionComparison, format: Format, terminal: Terminal) -> Outcome {
    match format {
        Format::Json => output::print(&compared.json()),
        Format::Text => output::document(&compared.document(), terminal),
        Format::Markdown => output::print_raw(&compared.document().markdown()),
        Format::Csv => output::print_raw(&compared.document().csv()),
    }
}

fn earlier(args: &Compare, subcommand: &str) -> Vec<Record> {
    results::earlier(&args.measuring.results.base.results, subcommand)
}

/// Returns what is done with the result of a new measurement. Reads the baseline, and checks the gates as far as their
/// metrics are known, before anything is measured.
///
/// # Errors
/// [`Failure::Input`] for a baseline that cannot be read or is no comparison, and a gate that names no metric.
pub(super) fn checks(args: &Compare) -> Outcome<Checks<'_>> {
    check_metrics(args)?;
    let paths = named_baseline(args)?;
    let records = paths.iter().map(|path| load::record(path)).collect::<Outcome<Vec<_>>>()?;
    if let Some((path, record)) =
        paths.iter().zip(&records).find(|(_, record)| record.subcommand != "compare")
    {
        return Err(Failure::input(format!(
            "--baseline {}: it is a record of {}, and compare measures something else; name a record of compare",
            path.display(),
            record.subcommand
        )));
    }
    let baseline = (!records.is_empty()).then(|| Baseline {
        records: report::names(&paths).into_iter().zip(records).collect(),
        earlier: earlier(args, "compare"),
        margin: args.measuring.equivalent,
        estimator: args.estimator.by.unwrap_or_default(),
    });
    Checks::new(Some(&args.gates), &args.exports, baseline)
}

/// Checks the metrics, the primary one and those of gates, where all names are known before a run.
fn check_metrics(args: &Compare) -> Outcome {
    let readers = args.measuring.metric.iter();
    let Some(mut metrics) = readers.map(|reader| reader.metric().cloned()).collect::<Option<Vec<Metric>>>()
    else {
        return Ok(());
    };
    let mut seen = BTreeSet::new();
    if let Some(twice) = metrics.iter().find(|metric| !seen.insert(&metric.name)) {
        let name = &twice.name;
        return Err(Failure::input(format!(
            "metric {name} is requested twice: give one of them another name"
        )));
    }
    let has_service = args.measuring.service.is_some() || !args.measuring.service_pid.is_empty();
    let measured = MEASURED.into_iter().chain(has_service.then_some(MEASURED_OF_SERVICE));
    metrics.extend(measured.map(|name| Metric {
        name: name.to_owned(),
        unit: String::new(),
        better: Direction::Lower,
    }));
    if let Some(level) = args.measuring.sharing {
        metrics.extend(SharingMeter::new(level, &source::live()?)?.metrics());
    }
    gate::check(&args.gates.fail_if, &metrics).map_err(Failure::Input)?;
    let names: Vec<String> = metrics.into_iter().map(|metric| metric.name).collect();
    match args.measuring.primary.as_ref().filter(|primary| !names.contains(primary)) {
        Some(primary) => Err(Failure::input(format!(
            "--primary {primary}: there is no such metric; there are {}",
            list(&names)
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_from_commands() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let record = write("old", "{\"schema\":\"manycore/record/1\",\"subcommand\"");
        let older = write("older.txt", "{ \"schema\": \"manycore/record/0\" }");
        let empty = write("empty.json", "");
        assert!([&record, &older, &empty].into_iter().all(|path| is_record(path)));
        let program = write("run.json", "#!/bin/sh");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let text = write("notes", "text");
        assert!(!is_record(&program) && !is_record(&text) && !is_record(folder.path()));
        assert!(!is_record(Path::new("sleep 1")) && !is_record(Path::new("/dev/null")));
        write(RECORD, "");
        assert!(is_record(folder.path()));
    }
}
