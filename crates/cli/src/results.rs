//! The results of earlier runs: where they are, and a list of the last ones.

use crate::{
    failure::{Failure, Outcome},
    folder::{LATEST, RECORD},
    load,
};
use manycore_analysis::{Evaluation, summary::conclusions};
use manycore_experiment::Record;
use manycore_render::{
    document::{Document, Item},
    table::{
        Align::{Left, Right},
        Table,
    },
    terminal::Mark,
};
use manycore_text::{names::printable, units::counted};
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Number of results in a list, and in the short one above a result.
const LISTED: usize = 20;
const LISTED_BRIEFLY: usize = 5;

/// Returns the record that a word of the command line names: that of a path, or else of a result in `base`: by its
/// name, as `latest`, or by its number in the list.
///
/// # Errors
/// [`Failure::Input`] for a number that the list does not have.
pub fn named(base: &Path, word: &Path) -> Outcome<PathBuf> {
    if word.exists() {
        return Ok(record_path(word));
    }
    let name = word.to_str().unwrap_or_default();
    if name == LATEST {
        return Ok(all(base)?.swap_remove(0).join(RECORD));
    }
    if let Ok(number) = name.parse::<usize>() {
        let found = all(base)?;
        let result = number.checked_sub(1).and_then(|index| found.get(index));
        return result.map(|path| path.join(RECORD)).ok_or_else(|| {
            Failure::input(format!(
                "there is no result {number}: {} has {}; 'manycore report --list' shows their numbers",
                base.display(),
                counted(found.len(), "result")
            ))
        });
    }
    let in_base = base.join(word).join(RECORD);
    Ok(if in_base.is_file() { in_base } else { record_path(word) })
}

/// Returns the record that a path names: a record itself, or that of a directory of results.
fn record_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RECORD) } else { path.to_owned() }
}

/// Returns the directories of all results in `base`, the last ones first. The time of a result is that of its record's
/// last change: reading all records for the times in them would take long.
///
/// # Errors
/// [`Failure::Input`] if there is no result there.
pub fn all(base: &Path) -> Outcome<Vec<PathBuf>> {
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
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Maximum number of earlier records that are read to see how sessions scatter.
const MAX_EARLIER: usize = 40;

/// Returns the last records of `subcommand` in `base`, which show how its sessions scatter on this machine. A record that
/// cannot be read is left out: nothing depends on it.
pub fn earlier(base: &Path, subcommand: &str) -> Vec<Record> {
    let is_named = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(subcommand))
    };
    let found = all(base).unwrap_or_default().into_iter().filter(is_named).take(MAX_EARLIER);
    found.filter_map(|path| load::record(&path.join(RECORD)).ok()).collect()
}

/// One result of a list.
struct Entry {
    number: usize,
    path: PathBuf,
    /// Minute in UTC; empty where the record cannot be read.
    measured: String,
    subcommand: String,
    subject: String,
    /// What the variants of a comparison were.
    variants: Vec<String>,
    /// The answer, or else the first finding, or the reason why the record cannot be read.
    answer: String,
}

impl Entry {
    fn read(number: usize, path: &Path) -> Self {
        match load::record(&path.join(RECORD)) {
            Ok(record) => Self::of(number, path, &record, &Evaluation::from_record(&record)),
            Err(failure) => Self {
                number,
                path: path.to_owned(),
                measured: String::new(),
                subcommand: String::new(),
                subject: "cannot be read".to_owned(),
                variants: Vec::new(),
                answer: failure.message().to_owned(),
            },
        }
    }

    fn of(number: usize, path: &Path, record: &Record, evaluation: &Evaluation) -> Self {
        let interrupted = if record.interrupted { " (interrupted)" } else { "" };
        let variants = record.variants();
        let subject = if variants.is_empty() { record.subject.as_str() } else { "" };
        Self {
            number,
            path: path.to_owned(),
            measured: record.started.get(..16).unwrap_or(&record.started).replace('T', " "),
            subcommand: record.subcommand.clone(),
            subject: printable(format!("{subject}{interrupted}").trim()),
            variants: variants.iter().map(|(label, what)| printable(&format!("{label}: {what}"))).collect(),
            answer: conclusions(record, evaluation).into_iter().next().unwrap_or_default(),
        }
    }
}

impl Entry {
    /// Returns the subject and the variants in one line.
    fn whole_subject(&self) -> String {
        let subject = [&self.subject].into_iter().filter(|subject| !subject.is_empty());
        subject.chain(&self.variants).map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

/// Returns the first entries of a list, and how many results follow them.
fn entries(results: &[PathBuf], count: usize) -> (Vec<Entry>, usize) {
    let entries = results.iter().take(count).enumerate().map(|(index, path)| Entry::read(index + 1, path));
    (entries.collect(), results.len().saturating_sub(count))
}

/// Returns a short list, to stand above the last result.
pub fn brief_list(base: &Path, results: &[PathBuf]) -> Document {
    let (entries, _) = entries(results, LISTED_BRIEFLY);
    let mut document = Document::new();
    document.paragraph(format!("Results in {}, newest first:", base.display()));
    let mut table =
        Table::new("", &[("", Right), ("measured", Left), ("subcommand", Left), ("subject", Left)]);
    table.rows = entries
        .into_iter()
        .map(|entry| {
            let subject = entry.whole_subject();
            vec![entry.number.to_string(), entry.measured, entry.subcommand, subject]
        })
        .collect();
    document.table(table);
    if results.len() > 1 {
        let count = results.len();
        document.paragraph(format!("Another one: manycore report 2. All {count}: manycore report --list"));
    }
    document.gap();
    document
}

/// Returns a list of the last results with their answers and paths.
pub fn list(base: &Path, results: &[PathBuf]) -> Document {
    let (entries, more) = entries(results, LISTED);
    let mut document = Document::new();
    document.paragraph(format!("Results in {}, newest first:", base.display()));
    let columns = entries.len().to_string().len();
    for entry in entries {
        document.gap();
        let what = [entry.measured, entry.subcommand, entry.subject].join("  ");
        let number = Item::new(format!("{:>columns$}", entry.number), Some(Mark::Strong), what.trim());
        document.item(Item { indent: 2, label_columns: columns + 1, ..number });
        let lines = entry.variants.into_iter().chain([entry.answer, entry.path.display().to_string()]);
        lines.filter(|line| !line.is_empty()).for_each(|line| document.indented(columns + 4, line));
    }
    if more > 0 {
        document.gap();
        document.paragraph(format!("{} in the same directory.", counted(more, "older result")));
    }
    document
}

/// Returns the list as a table, for files.
pub fn table(results: &[PathBuf]) -> Document {
    let (entries, _) = entries(results, usize::MAX);
    let heads = ["measured", "subcommand", "subject", "answer", "directory"].map(|head| (head, Left));
    let mut table = Table::new("", &[&[("number", Right)], &heads[..]].concat());
    table.rows = entries
        .into_iter()
        .map(|entry| {
            let directory = entry.path.display().to_string();
            let number = entry.number.to_string();
            let subject = entry.whole_subject();
            vec![number, entry.measured, entry.subcommand, subject, entry.answer, directory]
        })
        .collect();
    let mut document = Document::new();
    document.table(table);
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_render::terminal::Terminal;
    use manycore_testkit::SyntheticMachine;

    /// Writes a record of this age in seconds.
    fn save(base: &Path, name: &str, age: u64, contents: &[u8]) -> PathBuf {
        let path = base.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(RECORD), contents).unwrap();
        let file = fs::File::options().append(true).open(path.join(RECORD)).unwrap();
        file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        path
    }

    #[test]
    fn the_last_results_come_first_and_no_other_directories() {
        let base = tempfile::tempdir().unwrap();
        let none = all(base.path()).unwrap_err();
        assert!(matches!(&none, Failure::Input(why) if why.contains("manycore eval")), "{none:?}");
        for (name, age) in [("old", 300), ("new", 100), ("middle", 200)] {
            save(base.path(), name, age, b"");
        }
        fs::create_dir(base.path().join("empty")).unwrap();
        std::os::unix::fs::symlink("old", base.path().join(LATEST)).unwrap();
        let found = all(base.path()).unwrap();
        assert_eq!(found, ["new", "middle", "old"].map(|name| base.path().join(name)));
    }

    #[test]
    fn results_are_named_by_path_name_number_and_latest() {
        let base = tempfile::tempdir().unwrap();
        let [old, new] = [("old", 300), ("new", 100)].map(|(name, age)| save(base.path(), name, age, b""));
        let of = |word: &str| named(base.path(), Path::new(word)).unwrap();
        assert_eq!([of("latest"), of("1"), of("new")], [(); 3].map(|()| new.join(RECORD)));
        assert_eq!([of("2"), of(old.to_str().unwrap())], [(); 2].map(|()| old.join(RECORD)));
        assert_eq!(of("no-such-result"), Path::new("no-such-result"));
        for wrong in ["0", "3"] {
            let refused = named(base.path(), Path::new(wrong)).unwrap_err();
            assert!(refused.message().contains("has 2 results"), "{refused:?}");
        }
    }

    #[test]
    fn a_list_has_the_time_the_subject_the_answer_and_the_path_of_a_result() {
        let base = tempfile::tempdir().unwrap();
        let record = SyntheticMachine { blocks: 6, ..SyntheticMachine::guest() }.record();
        let record = Record {
            started: "2026-11-23T14:30:05Z".to_owned(),
            subcommand: "scale".to_owned(),
            subject: "gzip -9".to_owned(),
            ..record
        };
        let path = save(base.path(), "scale-1", 0, &serde_json::to_vec(&record).unwrap());
        for columns in [60, 80, 140] {
            let terminal = Terminal::new(columns, false);
            let text = list(base.path(), std::slice::from_ref(&path)).text(terminal);
            assert!(text.contains("\n  1  2026-11-23 14:30 scale gzip -9\n"), "{text}");
            assert!(text.replace("\n     ", "").contains("/scale-1\n"), "{text}");
            let brief = brief_list(base.path(), std::slice::from_ref(&path)).text(terminal);
            assert!(brief.contains("1  2026-11-23 14:30  scale       gzip -9\n"), "{brief}");
            assert!(text.lines().chain(brief.lines()).all(|line| line.len() <= columns), "{text}{brief}");
        }
        assert!(
            table(&[path]).csv().starts_with("number,measured,subcommand,subject,answer,directory\n1,2026")
        );
    }

    /// Regression test: a comparison was listed with its command A only, and its answer was cut in the interval.
    #[test]
    fn a_comparison_is_listed_with_both_variants_and_its_whole_answer() {
        let base = tempfile::tempdir().unwrap();
        let record = SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.compare(1.2);
        let path = save(base.path(), "compare-1", 0, &serde_json::to_vec(&record).unwrap());
        let text = list(base.path(), &[path]).text(Terminal::new(80, false));
        assert!(
            text.contains("\n     A: gzip -9 -k -c big.log\n     B: gzip -9 -k -c big.log (close)\n"),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let answer = &Evaluation::from_record(&record).findings[0].text;
        assert!(words.contains(answer), "{text}");
    }

    #[test]
    fn a_damaged_record_is_listed_with_the_reason() {
        let base = tempfile::tempdir().unwrap();
        let path = save(base.path(), "eval-1", 0, b"{");
        let text = list(base.path(), &[path]).text(Terminal::default());
        assert!(text.contains("cannot be read") && text.contains("record.json"), "{text}");
    }

    #[test]
    fn names_of_others_have_no_control_characters() {
        let record = SyntheticMachine { blocks: 6, ..SyntheticMachine::guest() }.record();
        let record = Record { subject: "\u{1b}[31mred".to_owned(), ..record };
        let entry = Entry::of(1, Path::new("r"), &record, &Evaluation::from_record(&record));
        assert!(!entry.subject.contains('\u{1b}'));
    }
}
