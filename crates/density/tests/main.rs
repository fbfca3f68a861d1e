//! All integration tests of the crate as one test binary, so that it is linked once.

mod calibration;
mod instances;
mod session;
