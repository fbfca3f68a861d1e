//! All integration tests of the crate as one test binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop anywhere")]

mod agreement;
mod agreement_perf;
mod bpf;
mod changes;
mod compared;
mod counting;
mod disturbed;
mod enclosed;
mod history;
mod invented;
mod kernel;
mod killed;
mod page;
mod pictures;
mod prometheus;
mod recording;
mod serve;
#[path = "../examples/serve/invented.rs"]
mod served;
mod shown;
mod view;
mod view_keys;
