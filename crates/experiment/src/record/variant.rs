//! The variants of a comparison: their labels, names and reference.

use super::{Experiment, SAME_NAME, Treatment, factor, parameter};

/// Returns the label of the variant at this index: `A`, `B`, ... `Z`, `AA`, `AB`, ...
pub fn variant_label(index: usize) -> String {
    let letter = char::from(b'A' + (index % 26) as u8);
    match index / 26 {
        0 => letter.to_string(),
        before => format!("{}{letter}", variant_label(before - 1)),
    }
}

impl Treatment {
    /// Returns the label of a variant; `None` for a treatment that is none.
    pub fn variant(&self) -> Option<&str> {
        self.factors.get(factor::VARIANT).map(String::as_str)
    }

    /// Returns the name without what distinguishes a command from itself.
    pub fn plain_name(&self) -> &str {
        self.name.trim_end_matches(SAME_NAME)
    }

    /// Returns what sentences and tables call a variant: the user's name where one was given, otherwise its label.
    /// Other treatments have only their name.
    pub fn title(&self) -> &str {
        self.factors.get(factor::NAME).map(String::as_str).or(self.variant()).unwrap_or(&self.name)
    }
}

impl Experiment {
    /// Iterates over the indices of the treatments that are variants of a comparison.
    pub fn variants(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.treatments.len()).filter(|&index| self.treatments[index].variant().is_some())
    }

    /// Returns the index of the variant with which the others are compared: the one in [`parameter::REFERENCE`], or A.
    pub fn reference(&self) -> Option<usize> {
        let label = self.parameters.get(parameter::REFERENCE).map_or("A", String::as_str);
        self.treatments.iter().position(|treatment| treatment.variant() == Some(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_go_on_after_z() {
        assert_eq!(
            [0, 1, 25, 26, 27, 51, 52, 701, 702].map(variant_label),
            ["A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]
        );
    }

    #[test]
    fn a_variant_has_the_name_of_the_user_or_its_label() {
        let mut treatment = Treatment { name: "gzip -1".to_owned(), ..Treatment::default() };
        assert_eq!((treatment.title(), treatment.variant()), ("gzip -1", None));
        treatment.factors.insert(factor::VARIANT.to_owned(), "B".to_owned());
        assert_eq!(treatment.title(), "B");
        treatment.factors.insert(factor::NAME.to_owned(), "fast".to_owned());
        assert_eq!((treatment.title(), treatment.variant()), ("fast", Some("B")));
    }
}
