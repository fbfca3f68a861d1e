//! Reads the input files that an earlier run wrote.

use crate::failure::{Failure, Outcome};
use manycore_experiment::{Record, record::RECORD_SCHEMA};
use manycore_falseshare::sharing::{Observation, SHARING_SCHEMA};
use manycore_linux::input_file::{self, ContentProblem, FileKind};
use manycore_text::xml;
use manycore_vm::domain::{DomainXmlError, GUEST_SCHEMA, GuestHardware};
use std::path::Path;

/// Size limit for results of a run, in bytes.
const MAX_RESULT_BYTES: u64 = 1 << 30;

/// What a subcommand that measures writes.
const RECORD: FileKind = FileKind {
    name: "record",
    schema: RECORD_SCHEMA,
    origin: "the record.json of a measurement; 'report' also reads a recording of 'top'",
    max_bytes: MAX_RESULT_BYTES,
};

/// What `falseshare --save` writes.
const OBSERVATION: FileKind = FileKind {
    name: "observation of 'manycore falseshare --save'",
    schema: SHARING_SCHEMA,
    origin: "the file that this option writes",
    max_bytes: MAX_RESULT_BYTES,
};

/// The planned resources of a virtual machine.
const GUEST: FileKind = FileKind {
    name: "guest",
    schema: GUEST_SCHEMA,
    origin: "the output of 'manycore vm plan --format json', or the XML of a libvirt domain",
    max_bytes: xml::MAX_BYTES as u64,
};

/// Reads a record and checks that it can be evaluated.
///
/// # Errors
/// [`Failure::Input`] that names the file and what is wrong with it: missing, empty, truncated, another kind
/// of file, written by a newer version, or with values that no measurement can produce.
pub fn record(path: &Path) -> Outcome<Record> {
    let bytes = input_file::read(path, RECORD.max_bytes)?;
    Ok(parse_record(&bytes).map_err(|problem| problem.in_file(path))?)
}

fn parse_record(bytes: &[u8]) -> Result<Record, ContentProblem> {
    let record: Record = input_file::parse(bytes, &RECORD)?;
    record.check().map_err(|invalid| ContentProblem::damaged(&RECORD, &invalid.to_string()))?;
    Ok(record)
}

/// Reads the XML of a libvirt domain, from standard input if `path` is `-`. Does not check that it describes
/// a domain.
///
/// # Errors
/// [`Failure::Input`] if it cannot be read, is too large, or is in an encoding other than UTF-8.
pub fn domain(path: &Path) -> Outcome<String> {
    let bytes = input_file::read(path, xml::MAX_BYTES as u64)?;
    let text = xml::decode(&bytes);
    text.map(str::to_owned)
        .map_err(|error| Failure::input(format!("{} is not the XML of a domain: {error}", path.display())))
}

/// Reads the planned resources of a guest, from the XML of its libvirt domain or from the output of `vm plan
/// --format json`.
///
/// # Errors
/// [`Failure::Input`] that names the file and what is wrong with it.
pub fn guest(path: &Path) -> Outcome<GuestHardware> {
    let text = domain(path)?;
    if text.trim_start().starts_with('{') {
        return Ok(input_file::parse(text.as_bytes(), &GUEST).map_err(|problem| problem.in_file(path))?);
    }
    text.parse().map_err(|error: DomainXmlError| {
        Failure::input(format!("{} is not a plan of a guest: {error}", path.display()))
    })
}

/// Reads a file written by `falseshare --save`, from standard input if `path` is `-`.
///
/// # Errors
/// [`Failure::Input`] that names the file and what is wrong with it.
pub fn observation(path: &Path) -> Outcome<Observation> {
    Ok(input_file::load(path, &OBSERVATION)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_render::{document::Extent, terminal::Terminal};
    use manycore_report::{self, NamedEvaluation};
    use manycore_testkit::SyntheticMachine;
    use proptest::prelude::*;

    fn small() -> String {
        let record = SyntheticMachine { blocks: 6, ..SyntheticMachine::guest() }.record();
        serde_json::to_string(&record).unwrap()
    }

    /// Evaluates and renders everything that loads; none of it may panic.
    fn render(bytes: &[u8]) {
        if let Ok(record) = parse_record(bytes) {
            let all = [NamedEvaluation::new("mutated".to_owned(), record)];
            let _ = (
                manycore_report::document(&all, Extent::Full).text(Terminal::default()),
                manycore_report::html(&all),
                manycore_report::csv(&all),
                manycore_report::json(&all),
            );
        }
    }

    #[test]
    fn a_record_is_equal_after_saving_and_loading() {
        let record = SyntheticMachine::server().record();
        let read = parse_record(serde_json::to_string(&record).unwrap().as_bytes()).unwrap();
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
            prop_assert!(parse_record(&text.as_bytes()[..cut]).is_err());
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
