//! `manycore schema`: prints the JSON Schema of a kind of JSON.

use crate::{
    cli::Schema,
    failure::Outcome,
    output,
    schemas::{JsonKind, KINDS},
};

/// Prints the schema of a kind, or lists the kinds.
///
/// # Errors
/// Those of [`output::print`].
pub fn run(args: &Schema) -> Outcome {
    match KINDS.iter().find(|kind| Some(kind.name) == args.kind.as_deref()) {
        Some(kind) => output::print(kind.schema),
        None => output::print(&KINDS.iter().map(line).collect::<String>()),
    }
}

fn line(kind: &JsonKind) -> String {
    format!("{:<16} {:<50} {}\n", kind.name, kind.about, kind.written_by)
}
