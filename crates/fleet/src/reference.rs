//! The distribution of standardised values: Student's t with degrees of freedom and a factor that depend on the number of
//! nodes, because centre and spread are estimated from them.
//!
//! The table was computed with `cargo run --release -p manycore-fleet --example calibrate`: for each number of nodes, it
//! draws healthy fleets, standardises every value, and chooses degrees of freedom and factor so that the probabilities
//! of 1 % and of 0.01 % are right (the tail), and again for those of 10 % and 1 % (the bulk). The larger of both p-values
//! counts. For up to 14 nodes, the factor of the tail was then lowered so that 0.1 % is not exceeded either. Of few nodes, all
//! but one may be close together by chance and the last appear to be far away, so the tail is heavier than the bulk promises; of
//! four nodes, it alone is used. Between the entries, all are interpolated in 1 / N.

use manycore_stats::{student_critical, student_tail};

/// Least number of nodes from which a node of a kind can be judged.
pub const LEAST_NODES: usize = 4;

/// Degrees of freedom, and the factor by which a standardised value is multiplied.
type Student = (f64, f64);

/// Number of nodes, and two distributions: that of the tail and that of the bulk.
const TABLE: [(f64, Student, Student); 18] = [
    (4.0, (2.0, 1.23), (2.0, 1.23)),
    (5.0, (2.446, 2.57), (1_000.0, 1.059)),
    (6.0, (3.421, 1.797), (22.449, 1.097)),
    (7.0, (4.251, 1.565), (17.495, 1.106)),
    (8.0, (5.046, 1.455), (17.505, 1.099)),
    (9.0, (5.841, 1.372), (18.892, 1.089)),
    (10.0, (6.527, 1.324), (20.734, 1.08)),
    (11.0, (7.175, 1.282), (21.421, 1.075)),
    (12.0, (7.986, 1.253), (21.75, 1.073)),
    (14.0, (9.193, 1.22), (26.047, 1.059)),
    (16.0, (11.152, 1.184), (29.284, 1.053)),
    (20.0, (14.028, 1.139), (35.822, 1.041)),
    (25.0, (16.189, 1.117), (41.425, 1.034)),
    (30.0, (20.794, 1.09), (52.283, 1.028)),
    (50.0, (35.699, 1.048), (76.644, 1.018)),
    (100.0, (92.0, 1.016), (127.975, 1.01)),
    (200.0, (140.0, 1.012), (331.943, 1.004)),
    (1000.0, (1_000.0, 1.002), (1_000.0, 1.001)),
];

/// The distribution for a number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reference([Student; 2]);

impl Reference {
    /// Returns the distribution for `nodes` nodes, at least [`LEAST_NODES`].
    pub fn of(nodes: usize) -> Self {
        let inverse = 1.0 / (nodes.max(LEAST_NODES) as f64);
        let after = TABLE.partition_point(|(count, _, _)| 1.0 / count >= inverse);
        let (from, to) = (TABLE[after.saturating_sub(1)], TABLE[after.min(TABLE.len() - 1)]);
        let (a, b) = (1.0 / from.0, 1.0 / to.0);
        let share = if a > b { (a - inverse) / (a - b) } else { 0.0 };
        // The inverse of the degrees of freedom is nearly linear in that of the number.
        let between = |from: Student, to: Student| {
            (1.0 / ((1.0 - share) / from.0 + share / to.0), (1.0 - share) * from.1 + share * to.1)
        };
        Self([between(from.1, to.1), between(from.2, to.2)])
    }

    /// Returns the two-sided p-value of a standardised value. `combined` returns the degrees of freedom of its deviation from
    /// those of the deviation of a typical node.
    pub fn p(&self, standardised: f64, combined: impl Fn(f64) -> f64) -> f64 {
        let of = |(freedom, factor): Student| student_tail(factor * standardised, combined(freedom));
        self.0.map(of).into_iter().fold(0.0, f64::max)
    }

    /// Returns the absolute standardised value that has the p-value `p`, for a typical error.
    pub fn critical(&self, p: f64) -> f64 {
        self.0.map(|(freedom, factor)| student_critical(p, freedom) / factor).into_iter().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::standardised;

    /// Small numbers of nodes have the heaviest tails; even and odd ones differ.
    #[test]
    fn the_probabilities_are_those_of_healthy_fleets() {
        for (nodes, fleets) in
            [(4, 15_000), (5, 12_000), (6, 10_000), (10, 6_000), (13, 5_000), (40, 1_000), (300, 150)]
        {
            let reference = Reference::of(nodes);
            let values = standardised(nodes, fleets, 77);
            for (level, least, most) in [(0.05, 0.6, 1.2), (0.01, 0.6, 1.4), (0.001, 0.2, 2.2)] {
                let limit = reference.critical(level);
                let beyond = values.iter().filter(|value| **value > limit).count() as f64;
                let ratio = beyond / values.len() as f64 / level;
                assert!((least..most).contains(&ratio), "{nodes} nodes, level {level}: {ratio:.2} times");
            }
        }
    }

    #[test]
    fn the_distribution_becomes_normal() {
        let [few, many] = [LEAST_NODES, 10_000].map(Reference::of);
        assert_eq!(few, Reference([TABLE[0].1, TABLE[0].2]));
        assert!(
            (many.critical(0.05) - 1.96).abs() < 0.02 && (many.critical(1e-6) - 4.89).abs() < 0.1,
            "{many:?}"
        );
        assert!((many.p(1.96, |freedom| freedom) - 0.05).abs() < 0.002);
        // What comes from the node's own error has few degrees of freedom.
        assert!(many.p(4.0, |_| 5.0) > 10.0 * many.p(4.0, |freedom| freedom));
        assert_eq!(Reference::of(2), few);
    }
}
