//! Experiments in randomised blocks, and the records that they produce.
//!
//! ```text
//! ExperimentSpec, Subject -> engine -> blocks of samples -> Record
//! ```
//!
//! ```
//! use manycore_experiment::{
//!     engine::{self, Budget, ExperimentSpec, Subject},
//!     record::{Method, Sample, Treatment},
//! };
//! use std::convert::Infallible;
//!
//! /// A simulated machine: each sample takes 10 ms, and the second treatment does a tenth more work in it.
//! struct Simulated(u64);
//!
//! impl Subject for Simulated {
//!     type Error = Infallible;
//!
//!     fn measure(&mut self, treatment: usize) -> Result<Sample, Infallible> {
//!         let start_ns = self.0;
//!         self.0 += 10_000_000;
//!         Ok(Sample { start_ns, wall_ns: 10_000_000, work: [10.0, 11.0][treatment], ..Sample::default() })
//!     }
//!
//!     fn now_ns(&self) -> u64 {
//!         self.0
//!     }
//! }
//!
//! let treatment = |name: &str| Treatment { name: name.to_owned(), workers: 1, ..Treatment::default() };
//! let spec = ExperimentSpec {
//!     treatments: vec![treatment("old"), treatment("new")],
//!     budget: Budget::seconds(1.0),
//!     ..ExperimentSpec::new("example", Method::WholeRun, "events")
//! };
//! let (experiment, result) =
//!     engine::run(spec, &mut Simulated(0), &mut engine::rng(1), &mut |_| false, &mut |_| {});
//! assert!(result.is_ok());
//! // 50 blocks of 20 ms. Each block holds both treatments once, in random order.
//! assert_eq!(experiment.samples.len(), 100);
//! assert!(experiment.log_ratios(0, 1).iter().all(|ratio| (ratio.exp() - 1.1).abs() < 1e-9));
//! ```
//!
//! # Engine
//!
//! An experiment specification names treatments and a budget. A *subject* takes one sample under one treatment. The
//! engine (`engine`) makes blocks until the budget is spent. Each block holds every treatment once, in an order drawn
//! from the seed. The engine has no clock and no workers of its own: the subject provides both. So the engine is
//! tested on a simulated machine, and slices, whole commands and pairs of CPUs all run through the same blocks.
//!
//! Subjects that measure the real machine:
//!
//! | subject | what a sample is |
//! |---|---|
//! | `pool_subject` | a slice of time, or a whole piece of work, of our own workers |
//! | `ping_pong` | one visit of two threads to a pair of CPUs, between which they pass a cache line |
//! | Python (`evaluate`) | a script that runs to its end |
//! | `evaluate::peer_subject` | our workers and the other program (sysbench, stress-ng) in turns |
//! | `study::subject` | the user's command, run to its end, with a service beside it where there is one |
//!
//! A session (`session`) owns one run of a subcommand: the growing record, the seeded random order and the observer of
//! counters. It reports sections, remaining time, notes and finished parts to a `Listener`, and never prints.
//!
//! # Workers
//!
//! Workers are threads and processes that stay alive while treatments are switched. They are driven through a worker
//! control block (`control_block`): shared memory with one slot of atomics for each worker. The coordinator writes a target, increments
//! a futex word, and reads the worker's number of ticks at the start and the end of a slice. A worker does its load
//! in ticks, of about 5 µs for loads that are measured in slices. So a slice of 50 ms is counted to one part in ten
//! thousand, and a worker stops within one tick. Threads and processes run the same loop. A worker process that is
//! killed is detected and reported; no lock is held and nothing is left behind. Worker processes end when the
//! coordinator ends.
//!
//! Event times are counted in buckets within the slot, 64 for each doubling. A histogram library was not used because
//! threads and processes must both reach the buckets without a lock.
//!
//! Workers that share an object (`manycore_workload::contention`) are driven in the same way. Some members serve: the
//! process that answers through a pipe, the receiver of messages, the consumer of a queue. A serving member gets no
//! orders. It waits for input from the workers until the object is closed. So every tick of a worker ends, in
//! whatever order members are stopped, and no slice needs a signal. At the end of an experiment the object's own
//! count is compared with the sum of the workers' counts. System V objects would outlive all processes. They are
//! removed when the object is dropped, and by the cleanup process of `manycore_control` if this program is killed.
//!
//! Processes with memory of their own (`memory_loaders`) do the same work where each worker must be a task of its own, for
//! example to be a member of a control group.
//!
//! # Counters around a sample
//!
//! `counters` reads the kernel's counters directly before and after each sample: CPU time, run delay, migrations,
//! context switches, ticks and steal time of each CPU, throttling, frequency, thermal events, pressure (PSI). The CPU
//! time of workers comes from their CPU-time clocks. `schedstat` is not used for it, because it lags by up to one
//! tick.
//!
//! # Slices
//!
//! A slice lasts 50 ms; the first 10 ms after a switch are not counted. Where a CPU quota is smaller than the number
//! of CPUs, slices last three periods of the quota, and one whole period is thrown away after each switch. A shorter
//! slice would pay for CPU time that the previous one used up.
//!
//! # Ping-pong
//!
//! Each pair of CPUs is a treatment, and each visit to a pair is a sample. A round visits every pair once, in random
//! order. Pairs are visited one after the other, because two ping-pongs at the same time would share the mesh or ring
//! that they measure. These samples have no kernel counters, which would be larger than the sample (100 bytes of the
//! record). Evaluations that compare every treatment with every other skip this experiment, since their cost is
//! quadratic in thousands of pairs. A budget of 60 s holds at most 46,000 visits (10 MB). Beyond that,
//! `manycore_topology::pairs` selects the pairs.
//!
//! # Metrics of commands
//!
//! `metric` reads figures from the output of a command. The primary metric is stored as work per wall-clock second
//! (`work` of a sample), whatever direction is better. Verdicts, scaling laws and reports therefore handle rates
//! only. All metrics are also stored in their own units (`values`).
//!
//! # Light processes
//!
//! `spawning` holds the records of `spawn`, and the two functions of them that are needed before and after a run.
//!
//! - **Memory** is a linear function of the number of light processes. The slope is the median of the slopes between
//!   all pairs of counts. Each count contributes the growth of memory from before the first start to the moment at
//!   which all are held. A table that is allocated for the requested count therefore belongs to no single process.
//!   The memory is the charge of the runtime's control group where every run has one, because that is what a memory
//!   limit counts. Otherwise it is PSS with page tables and kernel stacks; the kernel stack of a thread is larger
//!   than its PSS and not part of it. With one or two counts there is no error of the slope, and none is shown. A run
//!   that was made to test the capacity is not used for the prediction that it tests.
//! - **The capacity** is the smaller of what memory holds and what each limit leaves. A limit is reported with its
//!   current use, the source of its value, and a command that raises it far enough for the requested count. Limits
//!   that do not apply to the user are left out: `RLIMIT_NPROC` does not bind root, but it binds root of a user
//!   namespace. The number of a runtime's schedulers is as it should be if it equals the number of CPUs, or the CPU
//!   quota rounded up.
#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod command;
mod control_block;
pub mod counters;
pub mod engine;
mod error;
pub mod interrupt;
pub mod memory_loaders;
pub mod metric;
mod new_record;
mod other_work;
pub mod ping_pong;
pub mod pool_subject;
pub mod record;
pub mod sampling;
pub mod session;
pub mod spawning;
pub mod speed;
pub mod tail_bound;
pub mod worker;
pub mod worker_pool;

pub use error::{Error, Result};
pub use record::Record;

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
