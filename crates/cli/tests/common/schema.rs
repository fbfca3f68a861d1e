//! Checks of JSON against the schemas in `docs/schema`.

use boon::{Compiler, Schemas};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of the schemas.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

/// Returns why `value` does not have the schema of `kind`. Fields that the schema does not list are a reason, too.
pub fn problem(kind: &str, value: &Value) -> Option<String> {
    let text = std::fs::read_to_string(folder().join(format!("{kind}.json"))).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["unevaluatedProperties"] = false.into();
    let mut compiler = Compiler::new();
    compiler.add_resource("schema.json", schema).unwrap();
    let mut schemas = Schemas::new();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    schemas.validate(value, index).err().map(|error| format!("{kind}: {error:#}\n{value}"))
}

/// Asserts that `value` has the schema of `kind`.
pub fn assert_valid(kind: &str, value: &Value) {
    assert_eq!(problem(kind, value), None);
}

/// Asserts that `text` is JSON with the schema of `kind`; returns it.
pub fn parse(kind: &str, text: impl AsRef<[u8]>) -> Value {
    let text = text.as_ref();
    let value = serde_json::from_slice(text);
    let value = value.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    assert_valid(kind, &value);
    value
}
