//! What is done with a result besides printing it: comparison with stored records, gates, exports, the summary of a job.

use crate::{
    cli::{ExportArgs, GateArgs, InconclusiveChoice},
    failure::{Failure, Outcome},
    folder::RECORD,
    output,
};
use manycore_analysis::differences::{MatchedVariants, comparison_variants};
use manycore_experiment::{Record, record::GateDecision};
use manycore_render::document::Extent;
use manycore_report::{Exported, NamedEvaluation, SessionComparison};
use manycore_stats::Estimator;
use manycore_text::units::counted;
use std::{
    collections::BTreeSet,
    env,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

/// The variable that names the file for the summary of a job, in GitHub Actions.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Checks<'a> {
    gates: Option<&'a GateArgs>,
    exports: Option<&'a ExportArgs>,
    baseline: Option<Baseline>,
}

/// Stored records with which a new one is compared.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The records with their names.
    pub records: Vec<(String, Record)>,
    /// Earlier records, which show how sessions scatter.
    pub earlier: Vec<Record>,
    /// The difference that does not matter, as a share.
    pub margin: f64,
    /// What of each record is compared.
    pub estimator: Estimator,
}

impl<'a> Checks<'a> {
    /// Checks that all files of exports can be written, before anything is measured.
    ///
    /// # Errors
    /// Those of [`output::check_file`].
    pub fn new(
        gates: Option<&'a GateArgs>,
        exports: &'a ExportArgs,
        baseline: Option<Baseline>,
    ) -> Outcome<Self> {
        let mut files: BTreeSet<PathBuf> = BTreeSet::new();
        for (_, path) in &exports.export {
            output::check_file(path)?;
            let (shown, file) = (path.display(), resolved(path));
            if file.file_name().is_some_and(|name| name == RECORD) {
                let what = format!("{shown} is the name of a record, from which all results are made");
                return Err(Failure::input(format!("{what}: export to another file")));
            }
            if !files.insert(file) {
                let what = format!("two exports are written to {shown}");
                return Err(Failure::input(format!("{what}: give each of them a file of its own")));
            }
        }
        Ok(Self { gates, exports: Some(exports), baseline })
    }

    /// Returns whether a new record is compared with stored ones.
    pub fn has_baseline(&self) -> bool {
        self.baseline.is_some()
    }

    /// Checks that variants of these names can be compared with those of the baseline, before anything is measured.
    ///
    /// # Errors
    /// [`Failure::Input`] if none of them has a counterpart there.
    pub fn check_variants(&self, names: &[String]) -> Outcome {
        let Some((name, record)) = self.baseline.as_ref().and_then(|baseline| baseline.records.first())
        else {
            return Ok(());
        };
        let matched = MatchedVariants::new(&comparison_variants(record), names);
        match matched.unmatched() {
            Some(why) if matched.pairs.is_empty() => Err(Failure::input(format!(
                "nothing can be compared with {name}: {why}\nMeasure the variants of the baseline, or name another one"
            ))),
            _ => Ok(()),
        }
    }

    /// Compares a new record with the baseline, decides the gates, and keeps the decisions in the record.
    ///
    /// # Errors
    /// [`Failure::Input`] if the records have no figure in common, or a gate names no metric.
    pub fn apply(&self, new: &mut NamedEvaluation) -> Outcome {
        if let Some(Baseline { records, earlier, margin, estimator }) = &self.baseline {
            let baseline: Vec<_> = records.iter().map(|(name, record)| (name.clone(), record)).collect();
            let sides = [("new".to_owned(), &new.record)];
            let compared = SessionComparison::new(&baseline, &sides, earlier, *margin, Some(*estimator))
                .map_err(Failure::Input)?;
            new.compare_with(compared);
        }
        match self.gates {
            Some(gates) if !gates.fail_if.is_empty() => {
                new.decide(&gates.fail_if, fails(gates)).map_err(Failure::Input)?;
                new.record.gates.clone_from(&new.decided);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes the exports, and the summary of the job. Returns how the gates ended.
    ///
    /// # Errors
    /// [`Failure::Check`] if a gate failed; the errors of writing.
    pub fn end(&self, result: &Exported) -> Outcome {
        for (format, path) in self.exports.iter().flat_map(|exports| &exports.export) {
            let text = result
                .text(*format)
                .map_err(|why| Failure::input(format!("cannot write {}: {why}", path.display())))?;
            output::write_file(path, text.as_bytes())?;
        }
        if self.gates.is_some() {
            add_to_summary(result);
        }
        outcome(result)
    }
}

/// Returns the path of a file without links, also where the file is still to be written.
fn resolved(path: &Path) -> PathBuf {
    let of_directory = || {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_directory).unwrap_or_else(|| path.to_owned())
}

/// Returns whether an inconclusive gate is a failure.
pub fn fails(gates: &GateArgs) -> bool {
    gates.inconclusive == InconclusiveChoice::Fail
}

/// Returns how the gates of this run ended; those that a record holds are of an earlier one.
fn outcome(result: &Exported) -> Outcome {
    let of_sessions = result.sessions.into_iter().flat_map(|sessions| &sessions.gates);
    let gates: Vec<&GateDecision> =
        result.all.iter().flat_map(|named| &named.decided).chain(of_sessions).collect();
    let failed: Vec<&str> =
        gates.iter().filter(|gate| gate.is_failure).map(|gate| gate.text.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let all = counted(gates.len(), "gate decision");
    Err(Failure::Check(format!("{} of {all} failed\n{}", failed.len(), failed.join("\n"))))
}

/// Appends the result to the summary of the job. A summary that cannot be written is no failure of the comparison.
fn add_to_summary(result: &Exported) {
    let Some(path) = env::var_os(SUMMARY).filter(|path| !path.is_empty()) else { return };
    let text = result.document(Extent::Brief { hint: "--verbose" }).markdown();
    let appended = File::options().append(true).create(true).open(&path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")
    });
    if let Err(error) = appended {
        output::note(&format!("The summary was not written: {SUMMARY} names {}: {error}", path.display()));
    }
}
