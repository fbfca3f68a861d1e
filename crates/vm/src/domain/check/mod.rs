//! Checks of whether the XML of a domain is in effect: on the host, and in the guest.
#![allow(clippy::needless_pass_by_value, reason = "values are numbers and texts, owned and borrowed")]

mod guest;
mod host;
#[cfg(test)]
mod tests;

pub use guest::of_guest;
pub use host::{Running, of_running};

use serde::{Deserialize, Serialize};

/// Value of [`Check::schema`] that this version writes.
pub const CHECK_SCHEMA: &str = "manycore/check/1";

/// The planned and the found values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Always [`CHECK_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// What was compared: `domain web1 (pid 4711)`, `this guest`.
    pub of: String,
    /// One line for each checked property.
    pub lines: Vec<Line>,
}

/// One checked property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Name of the property: `virtual CPU 3`, `device 0000:f5:00.0`.
    pub what: String,
    /// The planned value; empty if the plan does not specify it.
    pub planned: String,
    /// The found value.
    pub found: String,
    /// Whether the found value matches the plan; absent if the plan does not specify it.
    pub holds: Option<bool>,
}

impl Check {
    fn new(of: String) -> Self {
        Self { schema: CHECK_SCHEMA.to_owned(), of, lines: Vec::new() }
    }

    /// Returns whether everything that was planned was found.
    pub fn holds(&self) -> bool {
        self.lines.iter().all(|line| line.holds != Some(false))
    }

    /// Returns the number of planned properties, and how many of them match.
    pub fn count(&self) -> (usize, usize) {
        let judged = self.lines.iter().filter_map(|line| line.holds);
        (judged.clone().count(), judged.filter(|holds| *holds).count())
    }

    fn judge(&mut self, what: impl ToString, planned: impl ToString, found: impl ToString, holds: bool) {
        self.add(what, planned, found, Some(holds));
    }

    /// Adds a property whose values must be equal.
    fn equal<T: ToString + PartialEq>(&mut self, what: impl ToString, planned: &T, found: &T) {
        self.judge(what, planned.to_string(), found.to_string(), planned == found);
    }

    fn tell(&mut self, what: impl ToString, found: impl ToString) {
        self.add(what, "", found, None);
    }

    fn add(
        &mut self,
        what: impl ToString,
        planned: impl ToString,
        found: impl ToString,
        holds: Option<bool>,
    ) {
        let (what, planned, found) = (what.to_string(), planned.to_string(), found.to_string());
        self.lines.push(Line { what, planned, found, holds });
    }
}
