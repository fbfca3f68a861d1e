//! All integration tests of the crate as one test binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop anywhere")]

mod calibration;
mod instances;
mod session;
