//! Whether what a domain's XML says came true: on the host, and in the guest.
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

/// What was planned beside what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Always [`CHECK_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// Whose plan was held against what: `domain web1 (pid 4711)`, `this guest`.
    pub of: String,
    /// One for each thing that was looked at.
    pub lines: Vec<Line>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What it is: `virtual CPU 3`, `device 0000:f5:00.0`.
    pub what: String,
    /// What the plan says; empty where it says nothing.
    pub planned: String,
    /// What was found.
    pub found: String,
    /// Whether the one is the other; absent where the plan says nothing.
    pub holds: Option<bool>,
}

impl Check {
    fn new(of: String) -> Self {
        Self { schema: CHECK_SCHEMA.to_owned(), of, lines: Vec::new() }
    }

    /// Whether all that was planned was found.
    pub fn holds(&self) -> bool {
        self.lines.iter().all(|line| line.holds != Some(false))
    }

    /// How many things the plan says, and how many of them hold.
    pub fn count(&self) -> (usize, usize) {
        let judged = self.lines.iter().filter_map(|line| line.holds);
        (judged.clone().count(), judged.filter(|holds| *holds).count())
    }

    fn judge(&mut self, what: impl ToString, planned: impl ToString, found: impl ToString, holds: bool) {
        self.add(what, planned, found, Some(holds));
    }

    /// Something that must be equal.
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
