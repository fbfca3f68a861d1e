//! The outcome of a write: the value requested, written and in force, and why they differ.

use crate::translate::SchemataWrite;
use manycore_linux::resctrl::{
    dialect::{AMD_UNIT, Capabilities, Dialect, ValueRange},
    schemata::{Schemata, SchemataKind},
};
use serde::Serialize;

/// The outcome for one domain of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitOutcome {
    /// Name of the line.
    pub line: String,
    /// Number of the domain.
    pub domain: u32,
    /// The request: `bandwidth 55%`.
    pub requested: String,
    /// The value in force before; absent for a group that does not exist yet.
    pub before: Option<u64>,
    /// The value that was written.
    pub written: u64,
    /// The value in force; absent if nothing was written yet, or the kernel no longer shows a value.
    pub in_force: Option<u64>,
    /// Why the value in force is not the requested one.
    pub why: Option<String>,
    /// Whether the kernel accepted the write without an error, but the old value is still in force.
    pub ignored: bool,
}

/// Compares the written values with those that the kernel shows.
pub fn limit_outcomes(
    write: &SchemataWrite,
    before: Option<&Schemata>,
    after: Option<&Schemata>,
    capabilities: &Capabilities,
) -> Vec<LimitOutcome> {
    let name = &write.line.name;
    let outcome = |(&domain, &written): (&u32, &u64)| {
        let before = before.and_then(|schemata| schemata.value(name, domain));
        let in_force = after.and_then(|schemata| schemata.value(name, domain));
        let expected = write.expected.get(&domain).copied().unwrap_or(written);
        let why = match after {
            // Nothing is written yet: report what can be predicted.
            None => predicted_change(capabilities, name, written, expected),
            Some(_) => difference_reason(capabilities, name, [written, expected], before, in_force),
        };
        let why = [why, write.note.clone()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        LimitOutcome {
            line: name.clone(),
            domain,
            requested: write.requested.clone(),
            before,
            written,
            in_force,
            why: Some(why).filter(|why| !why.is_empty()),
            ignored: in_force.is_some_and(|now| now != expected && now != written && Some(now) == before),
        }
    };
    write.line.values.iter().map(outcome).collect()
}

fn predicted_change(capabilities: &Capabilities, name: &str, written: u64, expected: u64) -> Option<String> {
    if written == expected {
        return None;
    }
    let Some(ValueRange::Number { minimum, step, .. }) =
        capabilities.control(name).map(|control| control.bounds.clone())
    else {
        return None;
    };
    Some(if written < minimum {
        format!("the kernel raises it to the minimum, {expected}")
    } else {
        format!("the kernel silently rounds it up to steps of {step}")
    })
}

fn difference_reason(
    capabilities: &Capabilities,
    name: &str,
    [written, expected]: [u64; 2],
    before: Option<u64>,
    in_force: Option<u64>,
) -> Option<String> {
    match in_force {
        None => Some("the kernel no longer shows a value".to_owned()),
        Some(now) if now == written => None,
        Some(now) if now == expected => predicted_change(capabilities, name, written, expected),
        Some(now) if Some(now) == before => {
            Some("the kernel silently ignored it: nothing changed".to_owned())
        }
        Some(_) => Some(match predicted_change(capabilities, name, written, expected) {
            Some(predicted_change) => format!("{predicted_change}, and the hardware changes it further"),
            None => "the kernel silently changed it".to_owned(),
        }),
    }
}

/// Returns a value as text: `50 %`, `2000 MB/s`, `3ff (10 of 20 ways)`, `no limit`.
pub fn format_value(capabilities: &Capabilities, line: &str, value: u64) -> String {
    if SchemataKind::from_line_name(line) == SchemataKind::Mask {
        let all = match capabilities.control(line).map(|control| &control.bounds) {
            Some(ValueRange::Mask { full, .. }) => full.count_ones(),
            _ => 64,
        };
        return format!("{value:x} ({} of {all} ways)", value.count_ones());
    }
    let is_unlimited = capabilities.control(line).is_some_and(|control| control.unlimited == value);
    match line {
        "MB" | "MBMAX" if is_unlimited => "no limit".to_owned(),
        "MB" if capabilities.megabytes => format!("{value} MB/s"),
        "MB" | "SMBA" if capabilities.dialect == Dialect::AmdPqos => {
            if is_unlimited {
                "no limit".to_owned()
            } else {
                format!("{} MB/s", value * AMD_UNIT)
            }
        }
        "MB" | "MBMAX" | "MBMIN" | "L3MAX" | "L3MIN" => format!("{value} %"),
        "MBHDL" => if value == 1 { "on" } else { "off" }.to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::resctrl::{dialect::Info, schemata::SchemataLine};
    use std::collections::BTreeMap;

    fn capabilities(dialect: Dialect) -> Capabilities {
        let info = BTreeMap::from([(
            "MB".to_owned(),
            Info { minimum: Some(10), step: Some(10), ..Info::default() },
        )]);
        Capabilities::new(dialect, &[], &Schemata::parse("L3:0=fffff\nMB:0=100"), &info)
    }

    fn why(written: u64, before: u64, in_force: Option<u64>) -> Option<String> {
        let capabilities = capabilities(Dialect::OpenEuler510);
        let line = SchemataLine { name: "MB".to_owned(), values: [(0, written)].into() };
        let expected = [(0, capabilities.control("MB").unwrap().bounds.rounded(written))].into();
        let write = SchemataWrite { requested: String::new(), line, expected, note: None };
        let text = |value: u64| Schemata::parse(&format!("MB:0={value}"));
        let after = in_force.map(text).unwrap_or_default();
        limit_outcomes(&write, Some(&text(before)), Some(&after), &capabilities).remove(0).why
    }

    #[test]
    fn differences_are_explained() {
        assert_eq!(why(50, 100, Some(50)), None);
        assert_eq!(why(55, 100, Some(60)).unwrap(), "the kernel silently rounds it up to steps of 10");
        assert_eq!(why(1, 100, Some(10)).unwrap(), "the kernel raises it to the minimum, 10");
        assert_eq!(why(50, 100, Some(100)).unwrap(), "the kernel silently ignored it: nothing changed");
        assert_eq!(why(50, 100, Some(47)).unwrap(), "the kernel silently changed it");
        assert_eq!(
            why(1, 100, Some(12)).unwrap(),
            "the kernel raises it to the minimum, 10, and the hardware changes it further"
        );
        assert_eq!(why(50, 100, None).unwrap(), "the kernel no longer shows a value");
    }

    #[test]
    fn values_as_text() {
        let (intel, amd) = (capabilities(Dialect::IntelRdt), capabilities(Dialect::AmdPqos));
        assert_eq!(format_value(&intel, "L3", 0x3ff), "3ff (10 of 20 ways)");
        assert_eq!(format_value(&intel, "MB", 100), "no limit");
        assert_eq!(format_value(&intel, "MB", 50), "50 %");
        assert_eq!(format_value(&amd, "MB", 16), "2000 MB/s");
        assert_eq!(format_value(&amd, "MB", 2048), "no limit");
        assert_eq!(format_value(&intel, "MBHDL", 1), "on");
    }
}
