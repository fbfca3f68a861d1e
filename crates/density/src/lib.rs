//! How many instances of a service fit on a machine while its tail holds.
//!
//! The density is the largest number of instances at which a metric of an observed instance, such as the p99 of its
//! latency, is within a bound: for example at most 10 % above that of an instance which runs alone. [`search`] finds it from
//! noisy samples, with an interval.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod search;
