//! Checks of whether the XML of a domain is in effect: on the host, and in the guest.
#![allow(clippy::needless_pass_by_value, reason = "values are numbers and texts, owned and borrowed")]

mod guest;
mod host;
#[cfg(test)]
mod tests;

pub use guest::check_guest;
pub use host::{RunningDomain, check_running};

use serde::{Deserialize, Serialize};

/// Value of [`CheckReport::schema`] that this version writes.
pub const CHECK_SCHEMA: &str = "manycore/guest-check/1";

/// The planned and the found values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckReport {
    /// Always [`CHECK_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = CHECK_SCHEMA)))]
    pub schema: String,
    /// What was compared: `domain web1 (pid 4711)`, `this guest`.
    pub subject: String,
    /// Whether everything that was planned was found.
    pub matches: bool,
    /// The checked properties.
    pub properties: Vec<CheckedProperty>,
}

/// One checked property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckedProperty {
    /// Name of the property: `virtual CPU 3`, `device 0000:f5:00.0`.
    pub name: String,
    /// The planned value; empty if the plan does not specify it.
    pub planned: String,
    /// The found value.
    pub found: String,
    /// Whether the found value matches the plan; absent if the plan does not specify it.
    pub matches: Option<bool>,
}

impl CheckReport {
    fn new(subject: String) -> Self {
        Self { schema: CHECK_SCHEMA.to_owned(), subject, matches: true, properties: Vec::new() }
    }

    /// Returns whether everything that was planned was found.
    pub fn all_match(&self) -> bool {
        self.matches
    }

    /// Returns the number of planned properties, and how many of them match.
    pub fn planned_and_matching(&self) -> (usize, usize) {
        let planned = self.properties.iter().filter_map(|property| property.matches);
        (planned.clone().count(), planned.filter(|matches| *matches).count())
    }

    /// Adds a planned property.
    fn compare(&mut self, name: impl ToString, planned: impl ToString, found: impl ToString, matches: bool) {
        self.add(name, planned, found, Some(matches));
    }

    /// Adds a property whose values must be equal.
    fn compare_equal<T: ToString + PartialEq>(&mut self, name: impl ToString, planned: &T, found: &T) {
        self.compare(name, planned.to_string(), found.to_string(), planned == found);
    }

    /// Adds a property that the plan does not specify.
    fn report(&mut self, name: impl ToString, found: impl ToString) {
        self.add(name, "", found, None);
    }

    fn add(
        &mut self,
        name: impl ToString,
        planned: impl ToString,
        found: impl ToString,
        matches: Option<bool>,
    ) {
        let (name, planned, found) = (name.to_string(), planned.to_string(), found.to_string());
        self.matches &= matches != Some(false);
        self.properties.push(CheckedProperty { name, planned, found, matches });
    }
}
