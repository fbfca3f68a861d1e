//! Which variants of two comparisons are the same.

use manycore_experiment::{Record, record::id};
use manycore_text::names::list;

/// The variants of a baseline and of new records, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchedVariants {
    /// Those that are compared: the name in the baseline and the name in the new records.
    pub pairs: Vec<[String; 2]>,
    /// Those of either side without a counterpart.
    only: [Vec<String>; 2],
}

impl MatchedVariants {
    /// Matches variants of one name and, where as many are left on both sides, the others in their order: those of a
    /// command that has changed.
    pub fn new(old: &[String], new: &[String]) -> Self {
        let rest = |names: &[String], others: &[String]| -> Vec<String> {
            names.iter().filter(|name| !others.contains(name)).cloned().collect()
        };
        let mut pairs = Self::by_name(old, new).pairs;
        let mut only = [rest(old, new), rest(new, old)];
        if only[0].len() == only[1].len() {
            let [old, new] = std::mem::take(&mut only);
            pairs.extend(old.into_iter().zip(new).map(|(old, new)| [old, new]));
        }
        Self { pairs, only }
    }

    /// Matches only those of one name, such as numbers of workers.
    pub(super) fn by_name(old: &[String], new: &[String]) -> Self {
        let both = new.iter().filter(|name| old.contains(name));
        Self { pairs: both.map(|name| [name.clone(), name.clone()]).collect(), ..Self::default() }
    }

    /// Says which variants have no counterpart. `None` where all have one.
    pub fn unmatched(&self) -> Option<String> {
        let names = |side: &Vec<String>| if side.is_empty() { "no other".to_owned() } else { list(side) };
        let [old, new] = &self.only;
        (!old.is_empty() || !new.is_empty()).then(|| {
            format!(
                "variants without a counterpart: the new records have {}, and the baseline {}",
                names(new),
                names(old)
            )
        })
    }
}

/// Returns the names of the variants of a comparison, each once.
pub fn comparison_variants(record: &Record) -> Vec<String> {
    let treatments = record.experiment(id::COMPARE).map_or(&[][..], |experiment| &experiment.treatments);
    each_once(treatments.iter().map(|treatment| treatment.plain_name().to_owned()))
}

/// Returns names without duplicates, in their order.
pub fn each_once(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(old: &[&str], new: &[&str]) -> MatchedVariants {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        MatchedVariants::new(&owned(old), &owned(new))
    }

    #[test]
    fn names_come_before_the_order() {
        let found = matched(&["a", "b"], &["b", "c"]);
        assert_eq!(found.pairs, [["b", "b"], ["a", "c"]].map(|pair| pair.map(str::to_owned)));
        assert_eq!(found.unmatched(), None);
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        let found = matched(&["a", "b"], &["c"]);
        assert!(found.pairs.is_empty());
        assert_eq!(
            found.unmatched().unwrap(),
            "variants without a counterpart: the new records have c, and the baseline a and b"
        );
        let more = matched(&["a"], &["a", "b"]);
        assert!(more.unmatched().unwrap().contains("have b, and the baseline no other"));
    }
}
