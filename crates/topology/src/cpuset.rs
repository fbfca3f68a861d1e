//! A set of logical CPUs (or NUMA nodes) of any size and numbering.
//!
//! Stored as sorted, disjoint ranges, as the kernel prints it: `0-3,8`. A contiguous set of 4,096 CPUs is
//! one range, and the size of a machine is not limited.

mod text;

pub use text::ParseCpuSetError;

/// Number of a logical CPU in the kernel (`/sys/devices/system/cpu/cpuN`).
pub type CpuId = u32;

/// A set of logical CPU ids (or node ids), parsed and printed in the kernel's list format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    /// Inclusive ranges, ascending, with at least one missing id between two ranges.
    ranges: Vec<(CpuId, CpuId)>,
}

impl CpuSet {
    /// Returns the empty set.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Returns the set with one CPU.
    pub fn single(cpu: CpuId) -> Self {
        Self { ranges: vec![(cpu, cpu)] }
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|&(first, last)| (last - first) as usize + 1).sum()
    }

    /// Returns the lowest CPU.
    pub fn first(&self) -> Option<CpuId> {
        self.ranges.first().map(|range| range.0)
    }

    /// Returns the highest CPU.
    pub fn last(&self) -> Option<CpuId> {
        self.ranges.last().map(|range| range.1)
    }

    /// Returns whether `cpu` is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        let after = self.ranges.partition_point(|range| range.0 <= cpu);
        after > 0 && self.ranges[after - 1].1 >= cpu
    }

    /// Adds one CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        if !self.contains(cpu) {
            let at = self.ranges.partition_point(|range| range.0 < cpu);
            self.ranges.insert(at, (cpu, cpu));
            *self = Self::from_ranges(std::mem::take(&mut self.ranges));
        }
    }

    /// Iterates over the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Iterates over the contiguous ranges, ascending: first and last CPU of each.
    pub fn ranges(&self) -> impl Iterator<Item = (CpuId, CpuId)> + '_ {
        self.ranges.iter().copied()
    }

    /// Returns the CPUs in any of the sets. The cost depends on the number of ranges, not of CPUs.
    pub fn union_of<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::from_ranges(sets.into_iter().flat_map(|set| &set.ranges).copied().collect())
    }

    /// Returns the CPUs in this set, the other, or both.
    pub fn union(&self, other: &Self) -> Self {
        Self::union_of([self, other])
    }

    /// Returns the CPUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut mine, mut theirs) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(&&a), Some(&&b)) = (mine.peek(), theirs.peek()) {
            if a.0.max(b.0) <= a.1.min(b.1) {
                ranges.push((a.0.max(b.0), a.1.min(b.1)));
            }
            if a.1 < b.1 {
                mine.next()
            } else {
                theirs.next()
            };
        }
        Self { ranges }
    }

    /// Returns the CPUs in this set but not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        let mut cuts = other.ranges.iter().peekable();
        for &(first, last) in &self.ranges {
            while cuts.next_if(|cut| cut.1 < first).is_some() {}
            let mut next = first;
            // The last cut may overlap the next range as well, so it is not consumed.
            for &(cut_first, cut_last) in cuts.clone().take_while(|cut| cut.0 <= last) {
                if next < cut_first {
                    ranges.push((next, cut_first - 1));
                }
                // Ids stay below u32::MAX, so one past the last exists.
                next = cut_last + 1;
            }
            if next <= last {
                ranges.push((next, last));
            }
        }
        Self { ranges }
    }

    /// Returns whether every CPU of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.intersection(other) == *self
    }

    /// Returns whether the sets have a CPU in common.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Divides the set by groups of CPUs. Of groups that overlap, as a captured machine may have them, the first one gets
    /// a CPU. A CPU that is in no group is a part of its own; these parts are the last ones.
    pub fn divide<'a>(&self, groups: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut left = self.clone();
        let mut parts = Vec::new();
        for group in groups {
            let part = group.intersection(&left);
            if !part.is_empty() {
                left = left.difference(&part);
                parts.push(part);
            }
        }
        parts.extend(left.iter().map(Self::single));
        parts
    }

    /// Builds a set from ranges in any order. Overlapping and adjacent ranges are merged. A range that ends
    /// before it begins is empty.
    pub fn from_ranges(mut ranges: Vec<(CpuId, CpuId)>) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(CpuId, CpuId)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(ids: I) -> Self {
        Self::from_ranges(ids.into_iter().map(|id| (id, id)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{
        collection::{btree_set, vec},
        prelude::*,
    };
    use std::collections::BTreeSet;

    #[test]
    fn kernel_lists_are_read_and_written() {
        for (text, written, count) in
            [("0-3,8", "0-3,8", 5), ("", "", 0), ("0\n", "0", 1), ("7,0-1,2", "0-2,7", 4), ("1,1", "1", 1)]
        {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.len()), (written, count), "{text:?}");
        }
    }

    #[test]
    fn invalid_lists_are_reported_with_the_reason() {
        for (text, message) in [
            ("3-1", "range 3-1 ends before it begins; write 1-3"),
            ("0-99999999999", "the number 99999999999 is too large"),
            ("4294967295", "the number 4294967295 is too large"),
            ("a", "'a' is not a number or range; write a list such as 0-3,8"),
            ("1,,2", "'' is not a number or range; write a list such as 0-3,8"),
            ("-1", "'-1' is not a number or range; write a list such as 0-3,8"),
            ("+1", "'+1' is not a number or range; write a list such as 0-3,8"),
        ] {
            assert_eq!(text.parse::<CpuSet>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn masks_are_read_most_significant_word_first() {
        for (mask, list) in
            [("3", "0-1"), ("00000001,00000001", "0,32"), ("0", ""), ("", ""), ("ff,00000000", "32-39")]
        {
            assert_eq!(CpuSet::from_mask(mask).unwrap().to_string(), list);
        }
        for bad in ["xyz", "123456789", "1,,1", "+1"] {
            assert!(CpuSet::from_mask(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_lists_are_shortened() {
        let list = |step: usize, count: u32| (0..count).step_by(step).collect::<CpuSet>();
        assert_eq!(list(2, 10).brief(), "0,2,4,6,8");
        assert_eq!(list(4, 512).brief(), "0-508:4");
        let mut odd = list(4, 512);
        odd.insert(1);
        assert_eq!(odd.brief(), "0-1,4-508:4");
        let cores: CpuSet = (0..4096).filter(|cpu| cpu % 16 < 4).collect();
        assert_eq!(cores.brief(), "0-4083:4/16");
        let rest: CpuSet = (0..4096).filter(|cpu| cpu % 16 >= 4 || *cpu >= 2036).collect();
        assert_eq!(rest.brief(), "4-2031:12/16,2036-4095");
        for bad in ["0-8:0", "0-8:", "0-8:x", "0-4294967294:2", "0-8:4:2", "0-8:4/2", "0-8:0/2"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_huge_range_costs_nothing() {
        let set: CpuSet = "0-4294967294".parse().unwrap();
        assert_eq!(set.len(), 4_294_967_295);
        assert_eq!(set.intersection(&"5-6".parse().unwrap()).to_string(), "5-6");
    }

    proptest! {
        #[test]
        fn every_cpu_is_in_one_part(cpus in btree_set(0u32..40, 0..30),
                                    groups in vec(btree_set(0u32..40, 0..9), 0..9)) {
            let cpus: CpuSet = cpus.into_iter().collect();
            let groups: Vec<CpuSet> = groups.into_iter().map(|group| group.into_iter().collect()).collect();
            let parts = cpus.divide(&groups);
            prop_assert_eq!(parts.iter().map(CpuSet::len).sum::<usize>(), cpus.len());
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
            prop_assert_eq!(CpuSet::union_of(&parts), cpus);
        }

        #[test]
        fn operations_agree_with_ordinary_sets(
            a in btree_set(0u32..200, 0..60), b in btree_set(0u32..200, 0..60), probe in 0u32..200,
        ) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            let same = |set: CpuSet, want: BTreeSet<u32>| {
                assert_eq!(set.iter().collect::<BTreeSet<_>>(), want);
                assert_eq!(set.len(), want.len());
                assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
                assert_eq!(set.within(4).parse::<CpuSet>().unwrap(), set);
            };
            same(x.union(&y), &a | &b);
            same(x.intersection(&y), &a & &b);
            same(x.difference(&y), &a - &b);
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.contains(probe), a.contains(&probe));
            let mut grown = x.clone();
            grown.insert(probe);
            same(grown, &a | &BTreeSet::from([probe]));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9a-f,+: \n]{0,40}") {
            if let Ok(set) = text.parse::<CpuSet>() {
                prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
            }
            let _ = CpuSet::from_mask(&text);
        }
    }
}
