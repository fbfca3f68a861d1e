//! When requests are to be sent.

use crate::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Arrivals {
    /// At random, independently of each other: as from many users.
    Poisson {
        /// Requests per second in the mean.
        per_second: f64,
    },
    /// At equal distances.
    Constant {
        /// Requests per second.
        per_second: f64,
    },
    /// A closed loop: each connection sends its next request after the reply. This finds the capacity of a server; its
    /// latencies say nothing about a server that gets requests at a rate.
    Closed,
}

impl Arrivals {
    /// Checks the rate.
    ///
    /// # Errors
    /// [`Error::Request`] if it is not above 0, or above 10⁸ per second.
    pub(crate) fn check(self) -> Result {
        match self.per_second() {
            Some(rate) if !(rate > 0.0 && rate <= 1e8) => Err(Error::Request(format!(
                "the rate is {rate} per second: it must be above 0 and at most 1e8"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the requests per second; `None` for a closed loop.
    pub fn per_second(self) -> Option<f64> {
        match self {
            Self::Poisson { per_second } | Self::Constant { per_second } => Some(per_second),
            Self::Closed => None,
        }
    }
}

/// How requests at a rate are distributed in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrivalPattern {
    /// As in [`Arrivals::Poisson`].
    #[default]
    Poisson,
    /// As in [`Arrivals::Constant`].
    Constant,
}

impl ArrivalPattern {
    /// Returns the arrivals at this rate.
    pub fn at(self, per_second: f64) -> Arrivals {
        match self {
            Self::Poisson => Arrivals::Poisson { per_second },
            Self::Constant => Arrivals::Constant { per_second },
        }
    }

    /// Returns its name: `poisson` or `constant`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
        }
    }
}

/// The intended times of requests before an end, in nanoseconds since the begin. None in a closed loop.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    /// Not rounded, so that no error adds up.
    at_ns: f64,
    end_ns: u64,
    random: Xoshiro256PlusPlus,
}

impl Schedule {
    pub(crate) fn new(arrivals: Arrivals, seed: u64, end_ns: u64) -> Self {
        Self { arrivals, at_ns: 0.0, end_ns, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.at_ns += match self.arrivals {
            Arrivals::Poisson { per_second } => -(1.0 - self.random.random::<f64>()).ln() * 1e9 / per_second,
            Arrivals::Constant { per_second } => 1e9 / per_second,
            Arrivals::Closed => return None,
        };
        Some(self.at_ns as u64).filter(|&at| at < self.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_arrivals_have_equal_distances_and_no_rounding_error() {
        let times: Vec<u64> =
            Schedule::new(Arrivals::Constant { per_second: 3.0 }, 1, 1_000_000_000_001).collect();
        assert_eq!((times[0], times[2], times[2999]), (333_333_333, 1_000_000_000, 1_000_000_000_000));
        assert_eq!((times.len(), Schedule::new(Arrivals::Closed, 1, u64::MAX).count()), (3000, 0));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_scatter_of_a_poisson_process() {
        let schedule = Schedule::new(Arrivals::Poisson { per_second: 1000.0 }, 7, u64::MAX);
        let seconds = 1000;
        let mut counts = vec![0f64; seconds];
        for time in schedule {
            match counts.get_mut(time as usize / 1_000_000_000) {
                Some(count) => *count += 1.0,
                None => break,
            }
        }
        let mean = counts.iter().sum::<f64>() / seconds as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (seconds - 1) as f64;
        assert!((mean - 1000.0).abs() < 5.0, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.2, "{variance}");
    }

    #[test]
    fn rates_must_be_possible() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(Arrivals::Poisson { per_second: rate }.check().is_err(), "{rate}");
        }
        assert!(Arrivals::Constant { per_second: 0.1 }.check().is_ok() && Arrivals::Closed.check().is_ok());
    }
}
