//! The results of earlier runs: where they are, and a list of the last ones.

use crate::{
    failure::{Failure, Outcome},
    folder::{LATEST, RECORD},
    load,
};
use manycore_analysis::{Evaluation, summary::conclusions};
use manycore_experiment::Record;
use manycore_render::wrap::wrap;
use manycore_text::names::printable;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};
use unicode_width::UnicodeWidthChar;

/// Number of results in a list.
const LISTED: usize = 10;

/// Width of the lines of a list, in columns of a terminal.
const WIDTH: usize = 80;

/// Returns the record that a path names: a record itself, or that of a directory of results.
pub fn record_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RECORD) } else { path.to_owned() }
}

/// Returns the directories of results in `base`, the last ones first, as many as a list has. The time of a result is
/// that of its record's last change: reading all records for the times in them would take long.
///
/// # Errors
/// [`Failure::Input`] if there is no result there.
pub fn last(base: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found: Vec<(SystemTime, PathBuf)> = fs::read_dir(base)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let changed =
                fs::metadata(path.join(RECORD)).ok().filter(fs::Metadata::is_file)?.modified().ok()?;
            (path.file_name()? != LATEST).then_some((changed, path))
        })
        .collect();
    if found.is_empty() {
        return Err(Failure::input(format!(
            "there are no results in {}: measure something first (manycore eval), name results (manycore report DIR), \
             or name the directory of all results with --results DIR",
            base.display()
        )));
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, path)| path).take(LISTED).collect())
}

/// Returns the list of results.
pub fn list(base: &Path, results: &[PathBuf]) -> String {
    let entries = results.iter().map(|path| match load::record(&path.join(RECORD)) {
        Ok(record) => entry(path, &record, &Evaluation::from_record(&record)),
        Err(failure) => entry_lines(path, "", failure.message()),
    });
    let which = if results.len() == LISTED { format!("Last {LISTED} results") } else { "Results".to_owned() };
    format!("{which} in {}, newest first:\n\n{}", base.display(), entries.collect::<String>())
}

/// Returns the lines for one result: when and what was measured, the variants of a comparison, what was found, its path.
fn entry(path: &Path, record: &Record, evaluation: &Evaluation) -> String {
    let minute = record.started.get(..16).unwrap_or(&record.started).replace('T', " ");
    let interrupted = if record.interrupted { " (interrupted)" } else { "" };
    let variants = record.variants();
    let subject = if variants.is_empty() { record.subject.as_str() } else { "" };
    let what = format!("{minute}  {:<8} {subject}{interrupted}", record.subcommand);
    let variants: String =
        variants.iter().map(|(label, what)| wrapped(&format!("{label}: {what}"))).collect();
    let found = conclusions(record, evaluation).into_iter().next().unwrap_or_default();
    entry_lines(path, &format!("  {}\n{variants}", cut(what.trim_end(), WIDTH - 2)), &found)
}

fn entry_lines(path: &Path, head: &str, finding: &str) -> String {
    format!("{head}{}      {}\n", wrapped(finding), path.display())
}

fn wrapped(text: &str) -> String {
    wrap(text, WIDTH - 6).iter().flat_map(|line| ["      ", line.as_str(), "\n"]).collect()
}

/// Returns a text as one line of at most `columns` columns of a terminal, with dots in place of the rest.
fn cut(text: &str, columns: usize) -> String {
    let text = printable(&text.replace('\n', " "));
    let width = |character: char| character.width().unwrap_or(0);
    if text.chars().map(width).sum::<usize>() <= columns {
        return text;
    }
    let mut left = columns - 3;
    let fits = |character: &char| {
        let fits = width(*character) <= left;
        left = left.saturating_sub(width(*character));
        fits
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{}...", start.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;

    #[test]
    fn lines_are_cut_at_the_width_of_a_terminal() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("a long sentence", 10), "a long...");
        assert_eq!(cut("two\nlines", 20), "two lines");
        // Each of these takes two columns.
        assert_eq!(cut("測測測測測", 9), "測測測...");
        assert!(!cut("\u{1b}[31mred", 40).contains('\u{1b}'));
    }

    #[test]
    fn the_last_results_come_first_and_no_other_directories() {
        let base = tempfile::tempdir().unwrap();
        let none = last(base.path()).unwrap_err();
        assert!(matches!(&none, Failure::Input(why) if why.contains("manycore eval")), "{none:?}");
        for (name, age) in [("old", 300), ("new", 100), ("middle", 200)] {
            fs::create_dir(base.path().join(name)).unwrap();
            let record = fs::File::create(base.path().join(name).join(RECORD)).unwrap();
            record.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        fs::create_dir(base.path().join("empty")).unwrap();
        std::os::unix::fs::symlink("old", base.path().join(LATEST)).unwrap();
        let found = last(base.path()).unwrap();
        assert_eq!(found, ["new", "middle", "old"].map(|name| base.path().join(name)));
    }

    fn entry_of(record: &Record) -> String {
        let text = entry(Path::new("r/compare-1"), record, &Evaluation::from_record(record));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.ends_with("\n      r/compare-1\n"), "{text}");
        text
    }

    #[test]
    fn a_list_has_the_time_the_subject_the_finding_and_the_path_of_a_result() {
        let record = SyntheticMachine { blocks: 6, ..SyntheticMachine::guest() }.record();
        let started = "2026-11-23T14:30:05Z".to_owned();
        let record =
            Record { started, subcommand: "scale".to_owned(), subject: "gzip -9".to_owned(), ..record };
        let text = entry_of(&record);
        assert!(text.starts_with("  2026-11-23 14:30  scale    gzip -9\n      "), "{text}");
    }

    /// Regression test: a comparison was listed with its command A only, and its answer was cut in the interval.
    #[test]
    fn a_comparison_is_listed_with_both_variants_and_its_whole_answer() {
        let record = SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.compare(1.2);
        let text = entry_of(&record);
        assert!(
            text.contains("\n      A: gzip -9 -k -c big.log\n      B: gzip -9 -k -c big.log (close)\n"),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let answer = &Evaluation::from_record(&record).findings[0].text;
        assert!(words.contains(answer), "{text}");
    }

    #[test]
    fn a_damaged_record_is_listed_with_the_reason() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("eval-1");
        fs::create_dir(&path).unwrap();
        fs::write(path.join(RECORD), "{").unwrap();
        let text = list(base.path(), &[path]);
        assert!(text.contains("record") && text.contains("eval-1\n"), "{text}");
    }
}
