//! `manycore fleet report`: which nodes are slow.

use crate::{
    cli::{ExtentArgs, FleetFormat, FleetJudging, FleetReport},
    failure::{Failure, Outcome},
    output,
    progress::StatusLine,
};
use manycore_fleet::{
    DatedRun, LEAST_RUNS, Options, changes, check_keys, evaluate,
    evaluation::{FLEET_SCHEMA, FleetEvaluation, Verdict},
    lasting_keys,
    reading::{FleetRecords, records},
    render,
};
use manycore_linux::input_file::{self, FileKind};
use manycore_render::terminal::Terminal;
use manycore_text::{names::printable, units::counted};
use std::{
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

/// How often the number of records that were read is shown.
const SHOWN: Duration = Duration::from_millis(200);
/// Name of the page in the folder of a run.
const PAGE: &str = "fleet.html";

/// An earlier result.
const BASELINE: FileKind = FileKind {
    name: "result over a fleet",
    schema: FLEET_SCHEMA,
    origin: "the output of 'manycore fleet report DIR --format json'",
    max_bytes: 1 << 30,
};

/// Prints what the records of a folder show, and writes the page.
///
/// # Errors
/// [`Failure::Input`]: the folder has no records, or none has a property of `--kinds-by`; [`Failure::Check`]: a node is slow.
pub fn run(args: &FleetReport, terminal: Terminal) -> Outcome {
    let (folder, earlier) = args
        .folders()
        .ok_or_else(|| Failure::input("--history needs the DIR of the run that is reported as well"))?;
    let evaluation = evaluated(args, folder, earlier)?;
    if let Some(path) = &args.html {
        let path = path.clone().unwrap_or_else(|| folder.join(PAGE));
        write_page(&evaluation, folder, &path, args.quiet)?;
    }
    print(&evaluation, args, terminal)?;
    end(&evaluation)
}

/// Evaluates the records of a folder, and what has changed since earlier ones.
fn evaluated(args: &FleetReport, folder: &Path, earlier: &[PathBuf]) -> Outcome<FleetEvaluation> {
    let found = read_some(folder, args.quiet)?;
    let baseline = args.judging.baseline.as_deref().map(baseline).transpose()?;
    let options = options(&args.judging, baseline.as_ref());
    check_keys(&found.nodes, &options.keys)?;
    if earlier.is_empty() {
        return Ok(evaluate(found.nodes, found.missing, &options));
    }
    let lasting = Options { keys: lasting_keys(&options.keys), ..options.clone() };
    let dated = |found: FleetRecords| {
        let evaluation = evaluate(found.nodes, found.missing, &lasting);
        (found.started.clone(), DatedRun::of(&found.started, &evaluation))
    };
    let mut runs = vec![dated(found.clone())];
    let mut evaluation = evaluate(found.nodes, found.missing, &options);
    // It may be among them, where they are named by a pattern.
    let is_other = |path: &&PathBuf| path.canonicalize().ok() != folder.canonicalize().ok();
    for path in earlier.iter().filter(is_other) {
        let found = read(path, args.quiet)?;
        if !found.is_empty() {
            runs.push(dated(found));
        } else if !args.quiet {
            output::note(&format!("{}: no records", printable(&path.display().to_string())));
        }
    }
    runs.sort_by(|a, b| a.0.cmp(&b.0));
    if runs.len() < LEAST_RUNS {
        if !args.quiet {
            output::note(&format!(
                "Changes over time need at least {LEAST_RUNS} runs, and there are {}.",
                runs.len()
            ));
        }
        return Ok(evaluation);
    }
    let (started, runs): (Vec<String>, Vec<DatedRun>) = runs.into_iter().unzip();
    evaluation.dated_runs = started;
    evaluation.changes = changes(&runs, options.false_discovery_level, options.least_deficit);
    Ok(evaluation)
}

/// Evaluates the records of a folder by itself, for a run that has just ended.
///
/// # Errors
/// As [`run`], but a slow node is none.
pub fn of_run(folder: &Path, judging: &FleetJudging, quiet: bool) -> Outcome<FleetEvaluation> {
    let found = read_some(folder, quiet)?;
    let baseline = judging.baseline.as_deref().map(baseline).transpose()?;
    let options = options(judging, baseline.as_ref());
    // What was measured is shown all the same.
    if let Err(error) = check_keys(&found.nodes, &options.keys)
        && !quiet
    {
        output::note(&format!("--kinds-by: {error}"));
    }
    Ok(evaluate(found.nodes, found.missing, &options))
}

/// Reads the baseline of a command line.
///
/// # Errors
/// [`Failure::Input`].
pub fn baseline(path: &Path) -> Outcome<FleetEvaluation> {
    Ok(input_file::load(path, &BASELINE)?)
}

fn options<'a>(judging: &FleetJudging, baseline: Option<&'a FleetEvaluation>) -> Options<'a> {
    Options {
        keys: judging.kinds_by.clone(),
        false_discovery_level: judging.false_discoveries,
        least_deficit: judging.slow,
        baseline,
    }
}

fn read(path: &Path, quiet: bool) -> Outcome<FleetRecords> {
    let line = Mutex::new((StatusLine::of_stderr(quiet), Instant::now()));
    let shows = |count: usize| {
        // A thread that finds it taken goes on reading.
        let Ok(mut line) = line.try_lock() else { return };
        let (line, drawn) = &mut *line;
        if let Some(line) = line.as_mut().filter(|_| drawn.elapsed() >= SHOWN) {
            *drawn = Instant::now();
            line.draw(&[format!("{} read", counted(count, "record"))]);
        }
    };
    let found = records(path, &shows)?;
    if let (false, [first, ..]) = (quiet, found.strangers.as_slice()) {
        output::note(&format!(
            "Not read: {}, because fleet.json names no such host: {}.",
            counted(found.strangers.len(), "directory"),
            printable(first)
        ));
    }
    Ok(found)
}

/// As [`read`], where there must be records.
fn read_some(path: &Path, quiet: bool) -> Outcome<FleetRecords> {
    let found = read(path, quiet)?;
    if found.is_empty() {
        return Err(Failure::input(format!(
            "{} has no records: 'manycore fleet eval --out {0}' writes them",
            path.display()
        )));
    }
    Ok(found)
}

/// Writes the page, and says where it is.
///
/// # Errors
/// Those of [`output::write_file`].
pub fn write_page(evaluation: &FleetEvaluation, folder: &Path, path: &Path, quiet: bool) -> Outcome {
    let title = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let title = printable(&title.file_name().unwrap_or_default().to_string_lossy());
    let beside = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let page = if beside.canonicalize().ok() == folder.canonicalize().ok() {
        render::page(evaluation, &title)
    } else {
        // The pages of nodes are not beside it.
        let mut evaluation = evaluation.clone();
        evaluation.nodes.iter_mut().for_each(|node| node.page = None);
        render::page(&evaluation, &title)
    };
    output::write_file(path, page.as_bytes())?;
    if !quiet {
        output::note(&format!("The page is {}.", path.display()));
    }
    Ok(())
}

/// Returns the path of the page of a run.
pub fn page_of(folder: &Path) -> PathBuf {
    folder.join(PAGE)
}

/// Prints the evaluation as text.
///
/// # Errors
/// Those of [`output::document`].
pub fn print_text(evaluation: &FleetEvaluation, extent: ExtentArgs, terminal: Terminal) -> Outcome {
    output::document(&render::document(evaluation, extent.extent()), terminal)
}

fn print(evaluation: &FleetEvaluation, args: &FleetReport, terminal: Terminal) -> Outcome {
    if args.drain {
        let drain = render::drain(evaluation);
        note_left_out(&drain.left_out, args.quiet);
        return output::print(
            &drain.lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect::<String>(),
        );
    }
    match args.format {
        FleetFormat::Text => print_text(evaluation, args.extent, terminal),
        FleetFormat::Markdown => {
            output::print_raw(&render::document(evaluation, args.extent.extent()).markdown())
        }
        FleetFormat::Csv => output::print_raw(&render::csv(evaluation)),
        FleetFormat::Json => output::print(&render::json(evaluation)),
        FleetFormat::Prometheus => output::print_raw(&render::prometheus(evaluation)),
        FleetFormat::Nodelist => {
            let list = render::node_list(evaluation);
            note_left_out(&list.left_out, args.quiet);
            output::print(&format!("{}\n", list.text))
        }
    }
}

fn note_left_out(names: &[String], quiet: bool) {
    if !names.is_empty() && !quiet {
        let names: Vec<String> = names.iter().map(|name| printable(name)).collect();
        output::note(&format!("left out, as these names are not safe in a command: {}", names.join(", ")));
    }
}

/// Returns the exit of a report: [`Failure::Check`] where a node is slow.
pub fn end(evaluation: &FleetEvaluation) -> Outcome {
    let slow = evaluation.nodes.iter().filter(|node| node.verdict == Verdict::Slow).count();
    match slow {
        0 => Ok(()),
        1 => Err(Failure::Check("1 node is slow".to_owned())),
        slow => Err(Failure::Check(format!("{slow} nodes are slow"))),
    }
}
