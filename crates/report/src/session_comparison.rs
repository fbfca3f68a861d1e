//! Stored records compared with each other: a baseline and a new side, of one or several records each.

use crate::sections::{conditions, differences::figures_table};
use manycore_analysis::{
    Finding, FindingKind,
    differences::{Change, FigureDifference, RecordDifferences, SessionSides},
    gate::{self, Gate, GatedFigure},
};
use manycore_experiment::{
    Record,
    record::{GateDecision, GateOutcome, id},
};
use manycore_render::{
    document::{Document, Item},
    table::{Align, Table},
    terminal::Mark,
};
use manycore_stats::Estimator;
use serde::Serialize;

/// Value of [`SessionComparison::schema`].
pub const SESSIONS_SCHEMA: &str = "manycore/sessions/1";

/// Width of the column of labels, as for findings.
const LABEL_COLUMNS: usize = 8;

/// Title of the table of all figures.
const FIGURES: &str = "New records against the baseline";

/// Title of the table of what differs besides the figures.
const CHANGED: &str = "What changed in between";

/// Said instead of an empty table.
const NOTHING_CHANGED: &str =
    "nothing that the records show: machine, kernel, microcode, settings and command are the same";

/// Rows of the conditions that always differ or explain nothing.
const NOT_LISTED: [&str; 7] = [
    "started",
    "duration",
    "run",
    "load at the start",
    "memory available",
    "swap in use",
    "CPU pressure (PSI, 10 s)",
];

/// A comparison of stored records.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionComparison {
    /// Always [`SESSIONS_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = SESSIONS_SCHEMA)))]
    pub schema: String,
    /// The subcommand that measured all records.
    pub subcommand: String,
    /// The records of the baseline.
    pub baseline: Vec<SessionName>,
    /// The new records.
    pub new: Vec<SessionName>,
    /// What differs in machine, kernel, microcode, settings and command.
    pub changed: Vec<ChangedCondition>,
    /// The answers for the primary metrics, in words.
    pub answers: Vec<String>,
    /// The differences of the figures.
    #[serde(flatten)]
    pub differences: RecordDifferences,
    /// The decisions of gates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateDecision>,
}

/// One record of a side.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionName {
    /// Name of its file or directory.
    pub record: String,
    /// Start in UTC.
    pub started: String,
    /// What was measured.
    pub command: String,
}

/// A condition that differs between the two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedCondition {
    /// What differs: `kernel`.
    pub what: String,
    /// Its values in the records of the baseline, without duplicates.
    pub baseline: Vec<String>,
    /// Its values in the new records.
    pub new: Vec<String>,
}

impl SessionComparison {
    /// Compares the records of two sides, each with its name. `margin` is the difference that does not matter; records
    /// of `earlier` sessions show how sessions scatter. `estimator` is what of each record is compared; by what they were
    /// decided where it is `None`.
    ///
    /// # Errors
    /// Why the records cannot be compared, in words.
    pub fn new(
        baseline: &[(String, &Record)],
        new: &[(String, &Record)],
        earlier: &[Record],
        margin: f64,
        estimator: Option<Estimator>,
    ) -> Result<Self, String> {
        let subcommand = same_subcommand(baseline, new)?;
        let [old_records, new_records] = [baseline, new].map(records);
        let earlier: Vec<&Record> = earlier.iter().collect();
        let differences = RecordDifferences::between(&SessionSides {
            baseline: &old_records,
            new: &new_records,
            earlier: &earlier,
            margin,
            estimator,
        });
        if differences.figures.is_empty() {
            return Err(nothing_in_common(&differences, baseline, new));
        }
        let names =
            |side: &[(String, &Record)]| side.iter().map(|(name, record)| session(name, record)).collect();
        Ok(Self {
            schema: SESSIONS_SCHEMA.to_owned(),
            subcommand,
            baseline: names(baseline),
            new: names(new),
            changed: changed(&old_records, &new_records),
            answers: answers(&differences, margin),
            differences,
            gates: Vec::new(),
        })
    }

    /// Decides gates, and keeps the decisions.
    ///
    /// # Errors
    /// Those of [`gate::decide`].
    pub fn decide(&mut self, gates: &[Gate], inconclusive_fails: bool) -> Result<(), String> {
        self.gates = gate::decide(gates, &GatedFigure::of_records(&self.differences), inconclusive_fails)?;
        Ok(())
    }

    /// Returns the answers, and what their intervals include, as findings.
    pub fn findings(&self) -> Vec<Finding> {
        // What the intervals include is the same for all answers.
        let mut evidence: Vec<String> = self.differences.spread_note().into_iter().collect();
        let finding = |text: &String| Finding {
            kind: FindingKind::Answer,
            topic: "baseline",
            text: text.clone(),
            evidence: std::mem::take(&mut evidence),
        };
        self.answers.iter().map(finding).collect()
    }

    /// Returns the comparison for reading.
    pub fn document(&self) -> Document {
        let mut document = Document::new();
        self.context(&mut document);
        document.heading("Findings");
        for finding in self.findings() {
            document.item(Item {
                is_answer: true,
                details: finding.evidence.into_iter().map(|evidence| ("", evidence)).collect(),
                indent: 2,
                label_columns: LABEL_COLUMNS,
                ..Item::new("ANSWER", Some(Mark::Strong), finding.text)
            });
        }
        gate_items(&self.gates, &mut document);
        document.gap();
        self.figures(&mut document);
        document
    }

    /// Adds the records, and what changed in between.
    pub(crate) fn context(&self, document: &mut Document) {
        document.heading("Records");
        for (label, side) in [("baseline", &self.baseline), ("new", &self.new)] {
            for session in side {
                let text = format!("{}, {}: {}", session.record, session.started, session.command);
                document.item(Item {
                    indent: 2,
                    label_columns: LABEL_COLUMNS,
                    ..Item::new(label, None, text)
                });
            }
        }
        document.gap();
        document.heading(CHANGED);
        if self.changed.is_empty() {
            document.indented(2, NOTHING_CHANGED);
        } else {
            document.table(self.changed_table());
        }
        document.gap();
    }

    /// Adds the table of all figures.
    pub(crate) fn figures(&self, document: &mut Document) {
        document.heading(FIGURES);
        document.table(self.figures_table());
        document.gap();
    }

    /// Returns the tables of a page: the records, what changed in between, and all figures.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let titled = |title: &str, table: Table| Table { title: title.to_owned(), ..table };
        vec![
            titled(FIGURES, self.figures_table()),
            titled(CHANGED, self.changed_table()),
            titled("Records", self.records_table()),
        ]
    }

    /// Returns the question that the comparison answers.
    pub(crate) fn question(&self) -> String {
        let primary = self.differences.figures.iter().find(|figure| figure.is_primary);
        let is_time = primary.is_none_or(|figure| figure.metric.is_empty() || figure.metric == "wall");
        format!("Is the new record {} than the baseline?", if is_time { "slower" } else { "worse" })
    }

    fn figures_table(&self) -> Table {
        let mut table = figures_table(&self.differences);
        table.notes.extend(self.differences.not_compared.iter().map(|why| format!("Not compared: {why}.")));
        table
    }

    fn records_table(&self) -> Table {
        let sides = [("baseline", &self.baseline), ("new", &self.new)];
        let row = |side: &str, session: &SessionName| {
            vec![side.to_owned(), session.record.clone(), session.started.clone(), session.command.clone()]
        };
        let rows =
            sides.into_iter().flat_map(|(side, all)| all.iter().map(move |session| row(side, session)));
        let head = ["side", "record", "started", "what was measured"].map(|head| (head, Align::Left));
        Table::new("", &head).with_rows(rows.collect())
    }

    fn changed_table(&self) -> Table {
        let head = ["what", "baseline", "new"].map(|head| (head, Align::Left));
        let row =
            |one: &ChangedCondition| vec![one.what.clone(), one.baseline.join("; "), one.new.join("; ")];
        let mut table = Table::new("", &head).with_rows(self.changed.iter().map(row).collect());
        if self.changed.is_empty() {
            table.notes.push(format!("{NOTHING_CHANGED}."));
        }
        table
    }
}

/// Adds a line for each gate.
pub(crate) fn gate_items(gates: &[GateDecision], document: &mut Document) {
    for gate in gates {
        let mark = match gate.outcome {
            _ if gate.is_failure => Mark::Bad,
            GateOutcome::Inconclusive => Mark::Warning,
            GateOutcome::Passed | GateOutcome::Failed => Mark::Good,
        };
        document.item(Item {
            indent: 2,
            label_columns: LABEL_COLUMNS,
            ..Item::new("gate", Some(mark), &gate.text)
        });
    }
}

fn records<'a>(side: &[(String, &'a Record)]) -> Vec<&'a Record> {
    side.iter().map(|(_, record)| *record).collect()
}

fn session(name: &str, record: &Record) -> SessionName {
    SessionName { record: name.to_owned(), started: record.started.clone(), command: record.command() }
}

/// Returns the sentences of the primary metrics.
fn answers(differences: &RecordDifferences, margin: f64) -> Vec<String> {
    let primary: Vec<&FigureDifference> =
        differences.figures.iter().filter(|figure| figure.is_primary).collect();
    // Beside many figures, those that are equivalent or inconclusive are in the table.
    let is_said = |figure: &&&FigureDifference| {
        primary.len() <= 3 || matches!(figure.change, Change::Better | Change::Worse)
    };
    let sentence = |figure: &&FigureDifference| match primary.len() {
        1 => figure.answer(margin),
        _ => format!("{}: {}", figure.what, figure.answer(margin)),
    };
    let said: Vec<String> = primary.iter().filter(is_said).map(sentence).collect();
    if said.is_empty() {
        vec![format!("None of {} figures is shown to differ.", primary.len())]
    } else {
        said
    }
}

fn same_subcommand(baseline: &[(String, &Record)], new: &[(String, &Record)]) -> Result<String, String> {
    let mut all = baseline.iter().chain(new);
    let Some((first, record)) = all.next() else { return Err("there is no record to compare".to_owned()) };
    match all.find(|(_, other)| other.subcommand != record.subcommand) {
        None => Ok(record.subcommand.clone()),
        Some((name, other)) => Err(format!(
            "{first} is a record of {} and {name} of {}: compare records of one subcommand",
            record.subcommand, other.subcommand
        )),
    }
}

/// Says which metrics each side has where no figure is in all records.
fn nothing_in_common(
    differences: &RecordDifferences,
    baseline: &[(String, &Record)],
    new: &[(String, &Record)],
) -> String {
    let metrics = |side: &[(String, &Record)]| -> String {
        let experiment = side
            .first()
            .and_then(|(_, record)| record.experiment(id::COMPARE).or_else(|| record.experiments.first()));
        let names: Vec<&str> = experiment
            .map(|experiment| experiment.metrics.iter().map(|metric| metric.name.as_str()).collect())
            .unwrap_or_default();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    match differences.not_compared.as_slice() {
        [] => format!(
            "the records have no figure in common: the baseline has the metrics {}, the new side {}; measure both with \
             the same --metric",
            metrics(baseline),
            metrics(new)
        ),
        all => format!("the records have no figure in common: {}", all.join("; ")),
    }
}

/// Returns what differs between the sides, in the order of the conditions of a report, the command last.
fn changed(baseline: &[&Record], new: &[&Record]) -> Vec<ChangedCondition> {
    let rows = |record: &Record| -> Vec<(String, String)> {
        let known = conditions::rows(record).into_iter().filter(|(what, _)| !NOT_LISTED.contains(what));
        let own = [("manycore", record.version.clone()), ("command", record.command())];
        known.chain(own).map(|(what, value)| (what.to_owned(), value)).collect()
    };
    let sides = [baseline, new].map(|side| side.iter().map(|record| rows(record)).collect::<Vec<_>>());
    let mut order: Vec<&String> = Vec::new();
    for (what, _) in sides.iter().flatten().flatten() {
        if !order.contains(&what) {
            order.push(what);
        }
    }
    let values = |side: &[Vec<(String, String)>], what: &String| -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for record in side {
            let value =
                record.iter().find(|(name, _)| name == what).map_or("unknown", |(_, value)| value.as_str());
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
        values.sort_unstable();
        values
    };
    let changed = |what: &String| {
        let [baseline, new] = sides.each_ref().map(|side| values(side, what));
        (baseline != new || baseline.len() > 1).then(|| ChangedCondition {
            what: what.clone(),
            baseline,
            new,
        })
    };
    order.into_iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_render::terminal::Terminal;
    use manycore_testkit::SyntheticMachine;

    fn record(seed: u64, ratio: f64) -> Record {
        let machine =
            SyntheticMachine { blocks: 12, noise: 0.01, steal: 0.0, seed, ..SyntheticMachine::guest() };
        Record { seed, ..machine.compare(ratio) }
    }

    fn named<'a>(name: &str, record: &'a Record) -> (String, &'a Record) {
        (name.to_owned(), record)
    }

    #[test]
    fn what_changed_comes_first_and_the_answer_says_what_its_interval_includes() {
        let (old, mut new) = (record(1, 1.0), record(2, 1.5));
        new.machine.system.kernel = Some("7.0.0".to_owned());
        let mut found =
            SessionComparison::new(&[named("old", &old)], &[named("new", &new)], &[], 0.02, None).unwrap();
        let what: Vec<&str> = found.changed.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(what, ["kernel"]);
        found.decide(&["slower > 3%".parse().unwrap()], false).unwrap();
        let text = found.document().text(Terminal::new(100, false));
        let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(position("7.0.0") < position("ANSWER") && position("ANSWER") < position("gate"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("which is assumed"), "{text}");
    }

    #[test]
    fn records_of_other_subcommands_and_metrics_are_refused() {
        let (old, new) = (record(1, 1.0), record(2, 1.0));
        let refused = |new: &Record| {
            SessionComparison::new(&[named("old", &old)], &[named("new", new)], &[], 0.02, None).unwrap_err()
        };
        let scale = Record { subcommand: "scale".to_owned(), ..new.clone() };
        assert_eq!(
            refused(&scale),
            "old is a record of compare and new of scale: compare records of one subcommand"
        );
        let mut other = new;
        other.experiments[0].metrics[0].name = "p99".to_owned();
        let said = refused(&other);
        assert!(
            said.contains("no figure in common") && said.contains("wall") && said.contains("p99"),
            "{said}"
        );
    }
}
