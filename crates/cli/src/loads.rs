//! The list of what `manycore bench` can measure.

use manycore_evaluate::{LOADS, SECTIONS, Section};
use manycore_render::document::Document;
use serde::Serialize;

/// Value of [`LoadList::schema`].
const LOADS_SCHEMA: &str = "manycore/loads/1";

/// The loads and sections that `bench` measures by their names.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadList {
    /// Always [`LOADS_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = LOADS_SCHEMA)))]
    schema: &'static str,
    /// Loads whose workers share something, or nothing.
    loads: Vec<NamedLoad>,
    /// Sections of `eval`.
    sections: Vec<NamedLoad>,
}

/// A load or a section.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NamedLoad {
    /// Name on the command line.
    name: &'static str,
    /// What it measures.
    title: &'static str,
}

impl LoadList {
    /// Returns all of them.
    pub fn all() -> Self {
        let named = |sections: &[Section]| {
            sections.iter().map(|&Section { name, title, .. }| NamedLoad { name, title }).collect()
        };
        Self { schema: LOADS_SCHEMA, loads: named(&LOADS), sections: named(&SECTIONS) }
    }

    /// Returns the list for reading.
    pub fn document(&self) -> Document {
        let mut document = Document::new();
        for (title, all) in [("Loads", &self.loads), ("Sections of eval", &self.sections)] {
            document.strong(title);
            for one in all {
                document.field(format!("  {}", one.name), one.title);
            }
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_render::terminal::Terminal;

    #[test]
    fn the_list_fits_a_terminal() {
        let text = LoadList::all().document().text(Terminal::new(60, false));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }
}
