//! `manycore schema`: prints the JSON Schema of a kind of JSON.

use crate::{
    cli::Schema,
    failure::Outcome,
    output,
    schemas::{JsonKind, KINDS},
};
use manycore_render::{
    document::Document,
    table::{Align, Table},
    terminal::Terminal,
};

/// Prints the schema of a kind, or lists the kinds.
///
/// # Errors
/// Those of [`output::print`].
pub fn run(args: &Schema, terminal: Terminal) -> Outcome {
    match KINDS.iter().find(|kind| Some(kind.name) == args.kind.as_deref()) {
        Some(kind) => output::print(kind.schema),
        None => output::document(&list(), terminal),
    }
}

fn list() -> Document {
    let row = |kind: &JsonKind| [kind.name, kind.about, kind.written_by].map(str::to_owned).to_vec();
    let head = ["kind", "what it is", "written by"].map(|name| (name, Align::Left));
    let mut document = Document::new();
    document.table(Table::new("", &head).with_rows(KINDS.iter().map(row).collect()));
    document
}
