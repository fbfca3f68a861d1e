//! Results in the formats of other programs.

mod benchstat;
mod hyperfine;
mod junit;

use crate::{NamedEvaluation, SessionComparison, csv, document, json};
use manycore_experiment::record::{Experiment, Method};
use manycore_render::document::{Document, Extent};
use manycore_text::names::printable_json;
use std::str::FromStr;

/// A format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The evaluation as JSON, as with `--format json`.
    Json,
    /// Every figure of every sample.
    Csv,
    /// The report as Markdown, as with `--format markdown`.
    Markdown,
    /// The benchmark format of Go, which benchstat reads.
    Benchstat,
    /// The JSON of hyperfine's `--export-json`, which its scripts read.
    Hyperfine,
    /// `JUnit` XML, with a test case for each gate.
    Junit,
}

/// All formats by name.
pub const EXPORT_FORMATS: [(&str, ExportFormat); 6] = [
    ("json", ExportFormat::Json),
    ("csv", ExportFormat::Csv),
    ("markdown", ExportFormat::Markdown),
    ("benchstat", ExportFormat::Benchstat),
    ("hyperfine", ExportFormat::Hyperfine),
    ("junit", ExportFormat::Junit),
];

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = EXPORT_FORMATS.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| format).ok_or_else(|| {
            let names = EXPORT_FORMATS.map(|(name, _)| name).join(", ");
            format!("there is no export format {name:?}: there are {names}")
        })
    }
}

/// What is exported.
#[derive(Clone, Copy)]
pub struct Exported<'a> {
    /// The records with their evaluations.
    pub all: &'a [NamedEvaluation],
    /// How stored records differ, where that is the result.
    pub sessions: Option<&'a SessionComparison>,
}

impl Exported<'_> {
    /// Returns the text of an export.
    ///
    /// # Errors
    /// That the records have nothing that the format can hold, in words.
    pub fn text(&self, format: ExportFormat) -> Result<String, String> {
        match format {
            ExportFormat::Json => Ok(match self.sessions {
                Some(sessions) => sessions.json(),
                None => json(self.all),
            }),
            ExportFormat::Csv => {
                let tables = csv(self.all);
                let table = ["metrics.csv", "samples.csv"].into_iter().find_map(|name| {
                    tables.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
                });
                table.ok_or_else(|| "the records have no samples".to_owned())
            }
            ExportFormat::Markdown => Ok(self.document(Extent::Full).markdown()),
            ExportFormat::Benchstat => benchstat::text(self.all),
            ExportFormat::Hyperfine => hyperfine::text(self.all),
            ExportFormat::Junit => Ok(junit::text(self)),
        }
    }

    /// Returns the result for reading.
    pub fn document(&self, extent: Extent) -> Document {
        self.sessions.map_or_else(|| document(self.all, extent), SessionComparison::document)
    }
}

impl SessionComparison {
    /// Returns the comparison as JSON.
    pub fn json(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        printable_json(&format!("{value:#}\n"))
    }
}

/// Returns the experiments of all records whose samples are whole runs, each with its treatments and their names: the
/// same command as A and as B is one.
fn whole_runs(all: &[NamedEvaluation]) -> impl Iterator<Item = (&NamedEvaluation, &Experiment)> {
    all.iter().flat_map(|named| {
        let experiments = named.record.experiments.iter();
        experiments.filter(|experiment| experiment.method == Method::WholeRun).map(move |one| (named, one))
    })
}

#[cfg(test)]
mod tests;
