//! The dip statistic: how far a sample is from the nearest distribution with one mode.

/// Greatest convex minorants and least concave majorants of the empirical distribution function, as links from each point
/// to the next one of the hull.
struct Hulls<'a> {
    x: &'a [f64],
    minorant: Vec<usize>,
    majorant: Vec<usize>,
}

/// Returns the dip of values in ascending order: the largest distance between their distribution function and the nearest
/// unimodal one, from 1 / (2 n) to 1 / 4. By the algorithm of Hartigan (AS 217, Applied Statistics 1985), with the
/// correction by Maechler (2003).
pub fn dip(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n < 2 || sorted[0] >= sorted[n - 1] {
        return 0.5 / n.max(1) as f64;
    }
    let hulls = Hulls::new(sorted);
    let (mut low, mut high, mut dip) = (0, n - 1, 1.0_f64);
    loop {
        let lower = chain(&hulls.minorant, high, low);
        let upper = chain(&hulls.majorant, low, high);
        let (distance, from, to) = hulls.largest_distance(&lower, &upper);
        if distance < dip {
            break;
        }
        let inside = hulls.below(&lower[from..]).max(hulls.above(&upper[to..]));
        dip = dip.max(inside);
        if (low, high) == (lower[from], upper[to]) {
            break;
        }
        (low, high) = (lower[from], upper[to]);
    }
    dip / (2.0 * n as f64)
}

/// Returns the points of a hull from one point to another.
fn chain(next: &[usize], from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |&at| (at != to).then(|| next[at])).collect()
}

impl<'a> Hulls<'a> {
    fn new(x: &'a [f64]) -> Self {
        let n = x.len();
        let mut minorant = vec![0; n];
        for j in 1..n {
            minorant[j] = j - 1;
            loop {
                let near = minorant[j];
                let far = minorant[near];
                if near == 0
                    || (x[j] - x[near]) * ((near - far) as f64) < (x[near] - x[far]) * ((j - near) as f64)
                {
                    break;
                }
                minorant[j] = far;
            }
        }
        let mut majorant = vec![n - 1; n];
        for k in (0..n - 1).rev() {
            majorant[k] = k + 1;
            loop {
                let near = majorant[k];
                let far = majorant[near];
                if near == n - 1
                    || (x[near] - x[k]) * ((far - near) as f64) < (x[far] - x[near]) * ((near - k) as f64)
                {
                    break;
                }
                majorant[k] = far;
            }
        }
        Self { x, minorant, majorant }
    }

    /// Returns the largest distance between the two hulls, and where in them the modal interval then begins and ends.
    /// `lower` is in descending order, `upper` in ascending order.
    fn largest_distance(&self, lower: &[usize], upper: &[usize]) -> (f64, usize, usize) {
        if lower.len() == 2 && upper.len() == 2 {
            return (1.0, 1, 1);
        }
        let x = self.x;
        let (mut at_lower, mut at_upper) = (lower.len() - 2, 1);
        let (mut distance, mut from, mut to) = (0.0, lower.len() - 1, upper.len() - 1);
        loop {
            let (g, l) = (lower[at_lower], upper[at_upper]);
            if g > l {
                let before = lower[at_lower + 1];
                let slope = (g - before) as f64 / (x[g] - x[before]);
                let here = (l - before) as f64 + 1.0 - (x[l] - x[before]) * slope;
                at_upper += 1;
                if here >= distance {
                    (distance, from, to) = (here, at_lower + 1, at_upper - 1);
                }
            } else {
                let before = upper[at_upper - 1];
                let slope = (l - before) as f64 / (x[l] - x[before]);
                let here = (x[g] - x[before]) * slope - (g as f64 - before as f64 - 1.0);
                let this = at_lower;
                at_lower = at_lower.saturating_sub(1);
                if here >= distance {
                    (distance, from, to) = (here, this, at_upper);
                }
            }
            at_upper = at_upper.min(upper.len() - 1);
            if lower[at_lower] == upper[at_upper] {
                return (distance, from, to);
            }
        }
    }

    /// Returns the largest distance of the distribution function above the convex minorant, between its points.
    fn below(&self, hull: &[usize]) -> f64 {
        let x = self.x;
        hull.windows(2).fold(1.0, |most, pair| {
            let (to, from) = (pair[0], pair[1]);
            if to - from < 2 || x[to] <= x[from] {
                return most;
            }
            let slope = (to - from) as f64 / (x[to] - x[from]);
            (from..=to).fold(most, |most, at| most.max((at - from) as f64 + 1.0 - (x[at] - x[from]) * slope))
        })
    }

    /// Returns the largest distance of the distribution function below the concave majorant, between its points.
    fn above(&self, hull: &[usize]) -> f64 {
        let x = self.x;
        hull.windows(2).fold(1.0, |most, pair| {
            let (from, to) = (pair[0], pair[1]);
            if to - from < 2 || x[to] <= x[from] {
                return most;
            }
            let slope = (to - from) as f64 / (x[to] - x[from]);
            (from..=to)
                .fold(most, |most, at| most.max((x[at] - x[from]) * slope - (at as f64 - from as f64 - 1.0)))
        })
    }
}
