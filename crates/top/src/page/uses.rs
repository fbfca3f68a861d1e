//! Courses of many processes or groups, of which only those that used most are kept.

use super::course::Course;
use std::collections::BTreeMap;

/// Most that are kept at one time.
const MOST: usize = 1024;
/// A course begins when a value is at least this.
const LEAST: f64 = 1e-3;

/// The courses of one of them.
#[derive(Clone, Debug)]
pub(super) struct Use<const N: usize> {
    /// Its name, printable.
    pub name: String,
    /// Sum of each value over time, times seconds.
    pub sums: [f64; N],
    /// Sum and maximum of each value at each moment.
    moments: Vec<[(f32, f32); N]>,
}

/// Courses by key.
#[derive(Clone, Debug)]
pub(super) struct Uses<K, const N: usize> {
    all: BTreeMap<K, Use<N>>,
}

impl<K, const N: usize> Default for Uses<K, N> {
    fn default() -> Self {
        Self { all: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, const N: usize> Uses<K, N> {
    /// Adds the values of an interval.
    pub fn add(&mut self, key: K, name: &str, moment: usize, values: [f64; N], seconds: f64) {
        if !self.all.contains_key(&key) {
            if values.iter().all(|&value| value < LEAST) {
                return;
            }
            if self.all.len() >= MOST {
                self.forget_small();
            }
        }
        let new = || Use { name: name.to_owned(), sums: [0.0; N], moments: Vec::new() };
        let found = self.all.entry(key).or_insert_with(new);
        if found.moments.len() <= moment {
            found.moments.resize(moment + 1, [(0.0, 0.0); N]);
        }
        for (at, value) in values.into_iter().enumerate() {
            found.sums[at] += value * seconds;
            let (sum, largest) = &mut found.moments[moment][at];
            (*sum, *largest) = (*sum + (value * seconds) as f32, largest.max(value as f32));
        }
    }

    /// Forgets the half that has used least.
    fn forget_small(&mut self) {
        let mut sums: Vec<(f64, K)> =
            self.all.iter().map(|(key, one)| (one.largest_sum(), key.clone())).collect();
        sums.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, key) in &sums[..MOST / 2] {
            self.all.remove(key);
        }
    }

    /// Returns up to `count` of those that used most of a value, the first one most.
    pub fn most(&self, value: usize, count: usize) -> Vec<(&K, &Use<N>)> {
        let mut all: Vec<(&K, &Use<N>)> = self.all.iter().filter(|(_, one)| one.sums[value] > 0.0).collect();
        all.sort_by(|a, b| b.1.sums[value].total_cmp(&a.1.sums[value]));
        all.truncate(count);
        all
    }

    /// Returns all, by key.
    pub fn all(&self) -> impl Iterator<Item = (&K, &Use<N>)> {
        self.all.iter()
    }
}

impl<const N: usize> Use<N> {
    fn largest_sum(&self) -> f64 {
        self.sums.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the course of a value over the moments of `clock`, which has seconds of each. Where it was absent it is 0.
    pub fn course(&self, value: usize, clock: &Course) -> Vec<(f64, f64)> {
        let of = |(at, length): (usize, f64)| {
            let (sum, largest) = self.moments.get(at).map_or((0.0, 0.0), |moment| moment[value]);
            if length > 0.0 { (f64::from(sum) / length, f64::from(largest)) } else { (f64::NAN, f64::NAN) }
        };
        clock.lengths().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_used_most_are_kept_in_bounded_memory() {
        let mut uses: Uses<u32, 1> = Uses::default();
        for round in 0..3 {
            for key in 0..3000 {
                let value = if key % 1000 == 7 { 1.0 } else { 0.01 };
                uses.add(key, "x", round, [value], 2.0);
            }
        }
        uses.add(9999, "idle", 0, [0.0], 2.0);
        assert!(uses.all().count() <= MOST);
        let most = uses.most(0, 3);
        assert_eq!(most.iter().map(|one| *one.0).collect::<Vec<_>>(), [7, 1007, 2007]);
        assert_eq!(most[0].1.sums, [6.0]);
        let mut clock = Course::default();
        clock.add(0, 0.0, 4.0);
        assert_eq!(most[0].1.course(0, &clock)[0], (0.5, 1.0));
    }
}
