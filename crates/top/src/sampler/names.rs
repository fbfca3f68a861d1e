//! Names that recur in each sample, each once in memory.

use manycore_text::names::printable;
use std::{collections::BTreeSet, sync::Arc};

/// Most names that are remembered.
const MOST_NAMES: usize = 16_384;

/// Names, of which equal ones share their memory.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<Arc<str>>);

impl Names {
    /// Returns a name with unprintable characters replaced.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        let text = printable(text);
        if let Some(known) = self.0.get(text.as_str()) {
            return Arc::clone(known);
        }
        if self.0.len() >= MOST_NAMES {
            self.0.clear();
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_shared_and_their_number_is_bounded() {
        let mut names = Names::default();
        let first = names.get("a\u{1b}b");
        assert_eq!(&*first, "a\u{fffd}b");
        assert!(Arc::ptr_eq(&first, &names.get("a\u{1b}b")));
        for number in 0..2 * MOST_NAMES {
            names.get(&number.to_string());
            assert!(names.0.len() <= MOST_NAMES);
        }
    }
}
