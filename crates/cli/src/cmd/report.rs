//! `manycore report`: renders results without measuring anything.

use crate::{
    checks::{self, Checks},
    cli::{Format, GateArgs, Report},
    failure::{Failure, Outcome},
    folder::RECORD,
    load, output, results,
};
use manycore_render::{document::Document, terminal::Terminal};
use manycore_report::{self, Exported, NamedEvaluation};
use manycore_top::Replay;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Prints the evaluation of the records and writes the requested files. Without records, shows the last one below a short
/// list of the last results. With `--list`, prints only a list of all.
///
/// # Errors
/// [`Failure::Input`] if there is no record or it cannot be read; the errors of writing.
pub fn run(args: &Report, terminal: Terminal) -> Outcome {
    if let [path] = args.records.as_slice()
        && Replay::is_recording(path)
    {
        return super::top::report(args, path, terminal);
    }
    let base = base(args);
    if args.list {
        return list(args, base, terminal);
    }
    if let Some(path) = &args.html {
        check_page(path)?;
    }
    let (list, paths) = chosen(args, base)?;
    let records = paths.iter().map(|path| load::record(path)).collect::<Outcome<Vec<_>>>()?;
    // A single record is compared with nothing.
    let earlier = match records.as_slice() {
        [first, _, ..] => results::earlier(&args.base.results, &first.subcommand),
        _ => Vec::new(),
    };
    let checks = Checks::new((!args.gates.fail_if.is_empty()).then_some(&args.gates), &args.exports, None)?;
    let mut all = NamedEvaluation::side_by_side(names(&paths).into_iter().zip(records), &earlier);
    decide(&mut all, &args.gates)?;
    if let Some(path) = &args.html {
        output::write_file(path, manycore_report::html(&all).as_bytes())?;
        output::note(&format!("The page is {}.", path.display()));
    }
    if let Some(folder) = &args.csv {
        write_csv(folder, &all)?;
    }
    if args.format == Format::Text {
        output::document(&list, terminal)?;
    }
    output::evaluations(&all, args.format, args.extent, terminal)?;
    checks.end(&Exported { all: &all, sessions: None })
}

/// Decides gates: on the comparison of one record, or on how each record differs from the first one.
fn decide(all: &mut [NamedEvaluation], gates: &GateArgs) -> Outcome {
    if gates.fail_if.is_empty() {
        return Ok(());
    }
    let compared = if let [_, others @ ..] = all
        && !others.is_empty()
    {
        others
    } else {
        all
    };
    compared
        .iter_mut()
        .try_for_each(|named| named.decide(&gates.fail_if, checks::fails(gates)).map_err(Failure::Input))
}

/// Prints the list of all results.
fn list(args: &Report, base: &Path, terminal: Terminal) -> Outcome {
    if args.records.iter().any(|path| path != base) {
        return Err(Failure::input(
            "--list lists the results of one directory; leave it out to show results",
        ));
    }
    let found = results::all(base)?;
    match args.format {
        Format::Text => output::document(&results::list(base, &found), terminal),
        Format::Csv => output::print_raw(&results::table(&found).csv()),
        Format::Markdown => output::print_raw(&results::table(&found).markdown()),
        Format::Json => Err(Failure::input(
            "--list has no JSON; a result has: manycore report latest --format json, and its record.json",
        )),
    }
}

/// Returns the directory of all results: that of `--results`, or a single directory that has no record.
fn base(args: &Report) -> &Path {
    match args.records.as_slice() {
        [path] if path.is_dir() && !path.join(RECORD).exists() => path,
        _ => &args.base.results,
    }
}

/// Returns the records to show, and a list of the last results if none is named.
fn chosen(args: &Report, base: &Path) -> Outcome<(Document, Vec<PathBuf>)> {
    if args.records.is_empty() || args.records.as_slice() == [base] {
        let found = results::all(base)?;
        return Ok((results::brief_list(base, &found), vec![found[0].join(RECORD)]));
    }
    let named = args.records.iter().map(|word| results::named(&args.base.results, word));
    Ok((Document::new(), named.collect::<Outcome<_>>()?))
}

/// Refuses a page that would replace a record: in `report --html record.json`, the record is read as the value of the
/// option.
fn check_page(path: &Path) -> Outcome {
    let is_record = path.is_dir() || path.extension().is_some_and(|extension| extension == "json");
    if !is_record {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::input(format!(
        "--html names the page to write, and {shown} is no page; type: manycore report {shown} --html"
    )))
}

fn write_csv(folder: &Path, all: &[NamedEvaluation]) -> Outcome {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::missing(format!("cannot create the directory {}: {error}", folder.display()))
    })?;
    manycore_report::csv(all)
        .iter()
        .try_for_each(|(name, contents)| output::write_file(&folder.join(name), contents.as_bytes()))
}

/// Returns short names that distinguish the records: the stem of the file, with its folder if several have
/// the same stem or the stem is just `record`, and with a number if that is still ambiguous.
pub(super) fn names(paths: &[PathBuf]) -> Vec<String> {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let stems: Vec<String> = paths.iter().map(|path| part(path.file_stem())).collect();
    let mut names: Vec<String> = Vec::new();
    for (path, stem) in paths.iter().zip(&stems) {
        let twice = stems.iter().filter(|other| *other == stem).count() > 1;
        let folder = part(path.parent().and_then(Path::file_name));
        let name = match folder.as_str() {
            "" => stem.clone(),
            folder if stem == "record" => folder.to_owned(),
            folder if twice => format!("{folder}/{stem}"),
            _ => stem.clone(),
        };
        let again = names.iter().filter(|other| other.split(" #").next() == Some(name.as_str())).count();
        names.push(if again > 0 { format!("{name} #{}", again + 1) } else { name });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_distinguish_records() {
        let of = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["x/before.json", "x/after.json"]), ["before", "after"]);
        assert_eq!(of(&["a/record.json", "b/record.json", "record.json"]), ["a", "b", "record"]);
        assert_eq!(of(&["a/x.json", "b/x.json"]), ["a/x", "b/x"]);
        assert_eq!(of(&["a/x.json", "a/x.json"]), ["a/x", "a/x #2"]);
    }
}
