//! Reads the input files that an earlier run wrote.

use crate::failure::{Failure, Outcome};
use manycore_experiment::{Record, record::RECORD_SCHEMA};
use manycore_falseshare::sharing::{Observation, SHARING_SCHEMA};
use manycore_text::units;
use manycore_vm::domain::{self, GUEST_SCHEMA, Guest};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileTypeExt,
    path::Path,
};

/// Reads a record and checks that it can be evaluated.
///
/// # Errors
/// [`Failure::Input`] that names the file and what is wrong with it: missing, empty, truncated, another kind
/// of file, written by a newer version, or with values that no measurement can produce.
pub fn record(path: &Path) -> Outcome<Record> {
    let bytes = fs::read(path)
        .map_err(|error| Failure::input(format!("cannot read the record {}: {error}", path.display())))?;
    parse(&bytes).map_err(|what| Failure::input(format!("{}: {what}", path.display())))
}

/// Size limit for a file of `falseshare --out`, in bytes.
const LARGEST_OBSERVATION: u64 = 1 << 30;

/// Returns the contents of a file, or of standard input if `path` is `-`. At most `most` bytes are accepted;
/// devices are refused, as some of them never end.
fn whole(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let read = |source: &mut dyn Read| {
        let mut bytes = Vec::new();
        let count = source.take(most + 1).read_to_end(&mut bytes);
        match count.map_err(|error| error.to_string())? as u64 {
            count if count <= most => Ok(bytes),
            _ => Err(format!("it is longer than {}", units::bytes(most))),
        }
    };
    if path == Path::new("-") {
        return read(&mut io::stdin().lock());
    }
    let kind = fs::metadata(path).map_err(|error| error.to_string())?;
    if kind.is_dir() || kind.file_type().is_char_device() || kind.file_type().is_block_device() {
        return Err("it is not a regular file or pipe (use - for standard input)".to_owned());
    }
    read(&mut File::open(path).map_err(|error| error.to_string())?)
}

/// Reads the XML of a libvirt domain, from standard input if `path` is `-`. Does not check that it describes
/// a domain.
///
/// # Errors
/// [`Failure::Input`] if it cannot be read, is too large, or is in an encoding other than UTF-8.
pub fn domain(path: &Path) -> Outcome<String> {
    let shown = path.display();
    let bytes = whole(path, domain::LARGEST as u64)
        .map_err(|error| Failure::input(format!("cannot read {shown}: {error}")))?;
    let text = domain::decode(&bytes);
    text.map(str::to_owned)
        .map_err(|error| Failure::input(format!("{shown} is not the XML of a domain: {error}")))
}

/// Reads the planned resources of a guest, from the XML of its libvirt domain or from the output of `vm plan
/// --format json`.
///
/// # Errors
/// [`Failure::Input`] that names the file and what is wrong with it.
pub fn guest(path: &Path) -> Outcome<Guest> {
    let text = domain(path)?;
    let shown = path.display();
    let parsed = if text.trim_start().starts_with('{') {
        guest_json(&text)
    } else {
        text.parse().map_err(|error: domain::XmlError| error.to_string())
    };
    parsed.map_err(|error| Failure::input(format!("{shown} is not a plan of a guest: {error}")))
}

fn guest_json(text: &str) -> Result<Guest, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON ({error})"))?;
    match value.get("schema").and_then(Value::as_str) {
        Some(GUEST_SCHEMA) => serde_json::from_value(value).map_err(|error| error.to_string()),
        other => Err(format!(
            "schema is {}, expected {GUEST_SCHEMA:?} or a domain's XML",
            other.unwrap_or("absent")
        )),
    }
}

/// Reads a file written by `falseshare --out`, from standard input if `path` is `-`.
///
/// # Errors
/// [`Failure::Input`] that names the file and what is wrong with it.
pub fn observation(path: &Path) -> Outcome<Observation> {
    let bytes = whole(path, LARGEST_OBSERVATION)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))?;
    let parse = || {
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| format!("not JSON ({error})"))?;
        match value.get("schema").and_then(Value::as_str) {
            Some(SHARING_SCHEMA) => {}
            other => return Err(format!("its schema is {}", other.unwrap_or("absent"))),
        }
        serde_json::from_value(value).map_err(|error| format!("damaged: {error}"))
    };
    parse().map_err(|what| {
        Failure::input(format!(
            "{}: {what}; expected {SHARING_SCHEMA:?}, as 'manycore falseshare --out FILE' writes it",
            path.display()
        ))
    })
}

/// Parses a record, or returns why `bytes` are not a record.
fn parse(bytes: &[u8]) -> Result<Record, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("the file is empty; a record is the record.json that a measuring verb writes".to_owned());
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_eof() {
            format!("the record is truncated ({error}); copy the file again")
        } else {
            format!("not JSON ({error}); a record is the record.json that a measuring verb writes")
        }
    })?;
    check_schema(&value)?;
    let record: Record = serde_json::from_value(value).map_err(|error| format!("damaged record: {error}"))?;
    record.check().map_err(|invalid| format!("damaged record: {invalid}"))?;
    Ok(record)
}

/// Checks by the `schema` field (`manycore/KIND/VERSION`) that a JSON file is a record.
fn check_schema(value: &Value) -> Result<(), String> {
    let Some(schema) = value.get("schema").and_then(Value::as_str) else {
        return Err(format!("JSON, but not a record: it has no \"schema\" (expected {RECORD_SCHEMA:?})"));
    };
    if schema == RECORD_SCHEMA {
        return Ok(());
    }
    let parts: Vec<&str> = schema.split('/').collect();
    Err(match parts[..] {
        ["manycore", "record", version] if version.parse().is_ok_and(|version: u64| version > 1) => {
            format!("the record has schema {schema:?}, written by a newer manycore; update this one")
        }
        ["manycore", kind, _] if kind != "record" => {
            format!("a file of kind {kind:?} ({schema:?}), not a record ({RECORD_SCHEMA:?})")
        }
        _ => format!("unknown schema {schema:?}; expected {RECORD_SCHEMA:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_report::{self, Named};
    use manycore_testkit::World;
    use proptest::prelude::*;

    fn small() -> String {
        let record = World { blocks: 6, ..World::guest() }.record();
        serde_json::to_string(&record).unwrap()
    }

    /// Evaluates and renders everything that loads; none of it may panic.
    fn render(bytes: &[u8]) {
        if let Ok(record) = parse(bytes) {
            let all = [Named::judge("mutated".to_owned(), record)];
            let _ = (
                manycore_report::text(&all),
                manycore_report::html(&all),
                manycore_report::csv(&all),
                manycore_report::json(&all),
            );
        }
    }

    #[test]
    fn a_record_survives_the_way_through_a_file() {
        let record = World::server().record();
        let read = parse(serde_json::to_string(&record).unwrap().as_bytes()).unwrap();
        assert!(read == record, "every number must be read back unchanged");
    }

    /// Replaces the `nth` number of a JSON text.
    fn with_number(text: &str, nth: usize, number: &str) -> String {
        let starts: Vec<usize> = text
            .match_indices([':', ',', '['])
            .map(|(at, _)| at + 1)
            .filter(|&at| text[at..].starts_with(|c: char| c.is_ascii_digit()))
            .collect();
        let start = starts[nth % starts.len()];
        let end = start + text[start..].find([',', '}', ']']).unwrap();
        format!("{}{number}{}", &text[..start], &text[end..])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_cut_record_is_refused(share in 0.0f64..1.0) {
            let text = small();
            let cut = (share * text.len() as f64) as usize;
            prop_assert!(parse(&text.as_bytes()[..cut]).is_err());
        }

        #[test]
        fn absurd_numbers_never_panic(
            changes in prop::collection::vec((any::<usize>(), 0usize..8), 1..6)
        ) {
            let absurd = ["0", "1", "-1", "1e300", "18446744073709551615", "null", "1e-300", "9007199254740992"];
            let text = changes.iter().fold(small(), |text, &(nth, which)| with_number(&text, nth, absurd[which]));
            render(text.as_bytes());
        }

        #[test]
        fn damaged_bytes_never_panic(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)
        ) {
            let mut bytes = small().into_bytes();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            render(&bytes);
        }
    }
}
