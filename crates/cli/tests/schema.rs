//! The schemas in `docs/schema`: they are those of the types, and `manycore schema` prints them.
//!
//! The files are written from the types by `UPDATE_SCHEMAS=1 cargo test -p manycore schema::`.

use crate::common::{manycore, schema::folder, text};
use manycore::schemas::KINDS;
use manycore_audit::Audit;
use manycore_control::journal::{
    Change, Header,
    report::{PendingJournals, UndoneJournals},
};
use manycore_doctor::Diagnosis;
use manycore_experiment::Record;
use manycore_falseshare::sharing::{Findings, Observation};
use manycore_fleet::{evaluation::FleetEvaluation, folder::FleetRun};
use manycore_guard::{decision::event_line::EventLine, outlook::WhyReport};
use manycore_irq::report::{InterruptMoves, Interrupts};
use manycore_linux::resctrl::{state::QosState, watch::UsageSnapshot};
use manycore_placement::PlacementPlan;
use manycore_qos::{changes::LimitChanges, enforcement::EnforcementReport};
use manycore_report::{PrintedEvaluation, SessionComparison};
use manycore_sched::show::SchedulerReport;
use manycore_top::snapshot::TopSnapshot;
use manycore_topology::Machine;
use manycore_vm::{
    domain::{PrintedPlan, check::CheckReport},
    usage::DomainsSnapshot,
};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde::Serialize;
use serde_json::{Serializer, Value, json, ser::PrettyFormatter};
use std::fs;

/// A line of a journal.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum JournalLine {
    /// The first line.
    Header(Header),
    /// A change, written before it is made.
    Change(Change),
}

/// The types of all kinds.
fn generated() -> Vec<(&'static str, Schema)> {
    vec![
        ("audit", of::<Audit>()),
        ("config", of::<manycore::settings::Config>()),
        ("doctor", of::<Diagnosis>()),
        ("evaluation", of::<PrintedEvaluation>()),
        ("falseshare", of::<Findings>()),
        ("fleet", of::<FleetEvaluation>()),
        ("fleet-run", of::<FleetRun>()),
        ("guard-event", of::<EventLine>()),
        ("guard-why", of::<WhyReport>()),
        ("guest", of::<PrintedPlan>()),
        ("guest-check", of::<CheckReport>()),
        ("interrupts", of::<Interrupts>()),
        ("irq-moves", of::<InterruptMoves>()),
        ("journal", of::<JournalLine>()),
        ("loads", of::<manycore::loads::LoadList>()),
        ("machine", of::<Machine>()),
        ("memory-accesses", of::<Observation>()),
        ("placement-trace", of::<manycore::sharing::TraceFile>()),
        ("plan", of::<PlacementPlan>()),
        ("qos", of::<QosState>()),
        ("qos-applied", of::<LimitChanges>()),
        ("qos-proof", of::<EnforcementReport>()),
        ("qos-watch", of::<UsageSnapshot>()),
        ("record", of::<Record>()),
        ("scheduler", of::<SchedulerReport>()),
        ("sessions", of::<SessionComparison>()),
        ("top", of::<TopSnapshot>()),
        ("undo-list", of::<PendingJournals>()),
        ("undo-result", of::<UndoneJournals>()),
        ("vms", of::<DomainsSnapshot>()),
    ]
}

/// Generates the schema of what is written: a field that may be left out is not required.
fn of<T: JsonSchema>() -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    for_readers_of_json(&mut schema);
    schema
}

/// Replaces what only readers of the Rust code understand.
fn for_readers_of_json(schema: &mut Schema) {
    transform_subschemas(&mut for_readers_of_json, schema);
    // Widths of Rust's numbers.
    schema.remove("format");
    if schema.get("const").is_some_and(|value| value.as_str().is_some_and(|it| it.starts_with("manycore/"))) {
        schema.insert("description".to_owned(), json!("Kind and version of this JSON."));
    }
    let description = schema.get("description").and_then(|text| text.as_str()).map(plain);
    if let Some(description) = description {
        schema.insert("description".to_owned(), json!(description));
    }
}

/// Returns documentation without links to Rust items, one line for each paragraph.
fn plain(documentation: &str) -> String {
    let mut parts = documentation.split("[`");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (item, rest) = part.split_once("`]").unwrap_or((part, ""));
        let rest =
            rest.strip_prefix('(').and_then(|link| link.split_once(')')).map_or(rest, |(_, rest)| rest);
        text += &format!("`{}`{rest}", item.replace("::", "."));
    }
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n").replace("`None`", "`null`")
}

/// Returns the contents of the file of a kind.
fn file(kind: &str, mut schema: Schema) -> String {
    let version = format!("manycore/{kind}/1");
    schema.insert("$id".to_owned(), json!(format!("urn:{}", version.replace('/', ":"))));
    // The name of the Rust type says nothing to readers of JSON.
    schema.insert("title".to_owned(), json!(version));
    let mut file = Vec::new();
    // One space: the program contains these files.
    schema.serialize(&mut Serializer::with_formatter(&mut file, PrettyFormatter::with_indent(b" "))).unwrap();
    String::from_utf8(file).unwrap() + "\n"
}

#[test]
fn schemas_are_those_of_the_types() {
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some();
    let generated = generated();
    let names: Vec<&str> = generated.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(names, KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>(), "crates/cli/src/schemas.rs");
    for (kind, schema) in generated {
        let path = folder().join(format!("{kind}.json"));
        let file = file(kind, schema);
        assert!(file.contains(&format!("\"const\": \"manycore/{kind}/1\"")), "{kind} does not name its kind");
        if update {
            fs::write(&path, &file).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == file,
            "docs/schema/{kind}.json differs from the types: UPDATE_SCHEMAS=1 cargo test -p manycore schema::"
        );
    }
    assert_eq!(fs::read_dir(folder()).unwrap().count(), KINDS.len(), "one file for each kind");
}

#[test]
fn kinds_are_listed_and_their_schemas_printed() {
    let list = manycore().arg("schema").env("COLUMNS", "200").assert().success();
    let list = text(&list.get_output().stdout);
    assert_eq!(list.lines().count(), 1 + KINDS.len());
    for (line, kind) in list.lines().skip(1).zip(KINDS) {
        let line = line.trim();
        assert!(line.starts_with(&format!("{} ", kind.name)) && line.ends_with(kind.written_by), "{line}");
        let printed = manycore().args(["schema", kind.name]).assert().success();
        assert_eq!(text(&printed.get_output().stdout), kind.schema, "{}", kind.name);
    }
}

#[test]
fn unknown_kind_is_refused_with_the_known_ones() {
    let output = manycore().args(["schema", "recrod"]).assert().code(2);
    let message = text(&output.get_output().stderr);
    assert!(KINDS.iter().all(|kind| message.contains(kind.name)), "{message}");
}

#[test]
fn every_field_is_described() {
    for kind in KINDS {
        let schema: Value = serde_json::from_str(kind.schema).unwrap();
        let mut missing = Vec::new();
        undescribed(&schema, kind.name, false, &mut missing);
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// Collects the properties without a description of their own, of their type or of the variant of an enum that they
/// belong to.
fn undescribed(schema: &Value, path: &str, is_variant: bool, missing: &mut Vec<String>) {
    let is_described = |schema: &Value| ["description", "$ref"].iter().any(|key| schema.get(key).is_some());
    for key in ["properties", "$defs"] {
        for (name, child) in schema[key].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if !is_described(child) && !is_variant {
                missing.push(path.clone());
            }
            undescribed(child, &path, false, missing);
        }
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for child in schema[key].as_array().into_iter().flatten() {
            undescribed(child, path, key == "oneOf" && is_described(child), missing);
        }
    }
    for key in ["items", "additionalProperties"] {
        schema.get(key).into_iter().for_each(|child| undescribed(child, path, false, missing));
    }
}
