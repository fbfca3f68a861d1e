//! Scales and their ticks.

/// Ratio between the ends from which an axis is logarithmic.
const MIN_LOGARITHMIC: f64 = 3.0;

/// A scale from values to positions in the drawing.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// Returns a linear axis over `values` and `always`, with about `count` round ticks.
    pub fn linear(values: impl IntoIterator<Item = f64>, always: &[f64], count: f64) -> Self {
        let (low, high) = finite_range(values.into_iter().chain(always.iter().copied()));
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / count);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        let steps = ((high - low) / step).round() as usize;
        Self { low, high, logarithmic: false, ticks: (0..=steps).map(|n| low + step * n as f64).collect() }
    }

    /// Returns a logarithmic axis to base 2 over the positive `values`, with ticks at powers of two and
    /// some space beyond its ends.
    pub fn log2(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = positive_range(values);
        let (first, last) = match (low.log2().ceil() as i32, high.log2().floor() as i32) {
            // Fewer than two ticks would leave the scale undefined.
            (first, last) if first >= last => (low.log2().floor() as i32, high.log2().ceil() as i32),
            ends => ends,
        };
        let (low, high) = (low.min(f64::from(first).exp2()), high.max(f64::from(last).exp2()));
        let step = ((last - first) / 8 + 1).unsigned_abs() as usize;
        let ticks = (first..=last).step_by(step).map(f64::from).map(f64::exp2).collect();
        let room = (high / low).powf(0.1);
        Self { low: low / room, high: high * room, logarithmic: true, ticks }
    }

    /// Returns an axis over `values`: a logarithmic one where they are positive and far apart, otherwise a linear one with
    /// about `count` ticks.
    pub fn fitting(values: &[f64], count: f64) -> Self {
        let (low, high) = finite_range(values.iter().copied());
        if low > 0.0 && high / low > MIN_LOGARITHMIC {
            Self::log2(values.iter().copied())
        } else {
            Self::linear(values.iter().copied(), &[], count)
        }
    }

    /// Returns a logarithmic axis with the ticks `wanted` that are at least `apart` (a share of the axis)
    /// from each other. Earlier ticks take precedence.
    pub fn log2_at(values: &[f64], wanted: &[f64], apart: f64) -> Self {
        let (low, high) = positive_range(values.iter().copied());
        let mut axis = Self { low, high, logarithmic: true, ticks: Vec::new() };
        for &tick in wanted {
            let here = axis.position(tick);
            let clear = axis.ticks.iter().all(|&other| (axis.position(other) - here).abs() >= apart);
            if clear && (0.0..=1.0).contains(&here) {
                axis.ticks.push(tick);
            }
        }
        axis
    }

    /// Returns the position of `value`: 0 at the low end, 1 at the high end.
    pub fn position(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).log2() / (self.high / self.low).log2()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the ticks.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Formats the label of a tick, with enough digits to distinguish it from its neighbours.
    pub fn label(&self, tick: f64) -> String {
        let step = if self.logarithmic { tick } else { self.ticks.get(1).unwrap_or(&1.0) - self.low };
        // Longer labels would not fit beside the axis: ticks of logarithmic axes have many digits.
        let least = if self.logarithmic { 1e-3 } else { 1e-6 };
        if tick.abs() >= 1e6 || step < least {
            return format!("{tick:.1e}");
        }
        if self.logarithmic && tick >= 1.0 {
            return format!("{tick:.0}");
        }
        let digits = (-step.log10().floor()).max(0.0) as usize;
        if self.logarithmic {
            // A quarter needs one more digit than a half.
            return format!("{tick:.*}", digits + 1).trim_end_matches('0').to_owned();
        }
        format!("{tick:.digits$}")
    }
}

/// Returns the smallest and largest of the finite values; 0 and 1 where there are none.
fn finite_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Returns the smallest and largest of the positive values, which are made to differ.
fn positive_range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    match finite_range(values.into_iter().filter(|value| *value > 0.0)) {
        (low, _) if low <= 0.0 => (1.0, 2.0),
        (low, high) if high > low => (low, high),
        (low, _) => (low, low * 2.0),
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|&round| round >= step * 0.999)
        .unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_logarithmic_where_positive_values_are_far_apart() {
        assert_eq!(Axis::fitting(&[1.0, 8.0], 3.0).ticks(), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(Axis::fitting(&[1.0, 2.0], 3.0).ticks(), [1.0, 1.5, 2.0]);
        assert_eq!(Axis::fitting(&[0.0, 80.0], 5.0).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(Axis::fitting(&[], 2.0).ticks(), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn linear_ticks_are_round_and_cover_the_values() {
        let axis = Axis::linear([0.3, 97.2], &[0.0], 5.0);
        assert_eq!(axis.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let fine = Axis::linear([0.12, 0.31], &[0.0], 4.0);
        assert_eq!(
            fine.ticks().iter().map(|&tick| fine.label(tick)).collect::<Vec<_>>(),
            ["0.0", "0.1", "0.2", "0.3", "0.4"]
        );
    }

    #[test]
    fn ticks_that_would_overlap_give_way_to_those_named_first() {
        let counts = [1.0, 64.0, 128.0, 256.0, 320.0, 640.0];
        let axis = Axis::log2_at(&counts, &[1.0, 320.0, 640.0, 64.0, 128.0, 256.0], 0.07);
        assert_eq!(axis.ticks(), [1.0, 320.0, 640.0, 64.0, 128.0]);
    }

    #[test]
    fn a_narrow_logarithmic_axis_has_two_ticks() {
        assert_eq!(Axis::log2([0.26, 0.31]).ticks(), [0.25, 0.5]);
        assert_eq!(Axis::log2([1.0, 1.97]).ticks(), [1.0, 2.0]);
        let axis = Axis::log2([0.06, 0.6]);
        assert_eq!([0.5, 0.25, 0.125, 0.0625].map(|tick| axis.label(tick)), ["0.5", "0.25", "0.12", "0.062"]);
        let small = [2.0_f64.powi(-9), 2.0_f64.powi(-10), 2.0_f64.powi(-14)].map(|tick| axis.label(tick));
        assert_eq!(small, ["0.002", "9.8e-4", "6.1e-5"]);
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        for axis in [Axis::linear([], &[], 5.0), Axis::log2([f64::NAN]), Axis::log2([3.0])] {
            assert!(axis.position(1.0).is_finite());
        }
    }
}
