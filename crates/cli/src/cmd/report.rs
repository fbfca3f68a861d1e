//! `manycore report`: renders records without measuring anything.

use crate::{
    cli::{Format, Report},
    failure::{Failure, Outcome},
    load, output,
};
use manycore_report::{self, NamedEvaluation};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Prints the evaluation of the records and writes the requested files.
pub fn run(args: &Report) -> Outcome {
    let records = args.records.iter().map(|path| load::record(path)).collect::<Outcome<Vec<_>>>()?;
    let all: Vec<NamedEvaluation> = names(&args.records)
        .into_iter()
        .zip(records)
        .map(|(name, record)| NamedEvaluation::new(name, record))
        .collect();
    if let Some(path) = &args.html {
        output::write_file(path, manycore_report::html(&all).as_bytes())?;
    }
    if let Some(folder) = &args.csv {
        write_csv(folder, &all)?;
    }
    output::print(&match args.format {
        Format::Text => manycore_report::text(&all),
        Format::Json => manycore_report::json(&all),
    })
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
fn names(paths: &[PathBuf]) -> Vec<String> {
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
