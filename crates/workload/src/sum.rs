//! The sum of an array that fits into a cache: the load of the affinity experiment.

use crate::Load;
use std::hint::black_box;

/// An array and its sum. One tick is one pass.
#[derive(Default)]
pub(crate) struct Sum {
    values: Vec<f64>,
}

impl Load for Sum {
    fn prepare(&mut self, bytes: u64) {
        let count = (bytes as usize / size_of::<f64>()).max(1);
        self.values = (0..count).map(|index| index as f64).collect();
    }

    fn ticks_per_event(&self) -> u64 {
        1
    }

    fn tick(&mut self) {
        black_box(sum(black_box(&self.values)));
    }
}

/// Computes four partial sums: with one sum, the latency of additions would hide that of the cache.
fn sum(values: &[f64]) -> f64 {
    let quads = values.chunks_exact(4);
    let rest: f64 = quads.remainder().iter().sum();
    let partial = quads.fold([0.0; 4], |s, v| [s[0] + v[0], s[1] + v[1], s[2] + v[2], s[3] + v[3]]);
    partial.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_right_at_every_length() {
        for count in 0..20_u32 {
            let values: Vec<f64> = (0..count).map(f64::from).collect();
            assert_eq!(sum(&values), f64::from(count * count.saturating_sub(1) / 2));
        }
    }
}
