//! What `manycore eval` and `bench` measure: one file for each section.
//!
//! A section has a name, a title, a share of the budget and a function that runs its experiments. Sections run in
//! order, on one session. A section whose requirements are missing (a program, a permission) is recorded as missed,
//! and the next one follows.
//!
//! Programs that are measured beside our loads (sysbench, stress-ng, UnixBench, Python) are optional. They alternate
//! with our loads within the same blocks, so their ratio has an interval.
#![forbid(unsafe_code)]

mod affinity;
pub mod bench;
mod contention;
pub mod error;
mod latency;
mod matrix;
mod modes;
mod noise;
mod peer_subject;
pub mod profile;
pub mod python;
mod scaling;
mod stream;
mod suite;
mod sysbench;

pub use contention::{LOADS, stress_ng_version};
pub use error::{Error, LoadOption, Result};
pub use stream::StreamOptions;
pub use suite::{Options, run};
pub use sysbench::version as sysbench_version;

use profile::Profile;
use std::{path::PathBuf, time::Duration};
use suite::{Suite, as_optional, parameters, pilot, treatment, unpinned_orders};

/// One section of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name on the command line.
    pub name: &'static str,
    /// Displayed title.
    pub title: &'static str,
    seconds: fn(&Profile) -> f64,
    run: fn(&mut Suite) -> Result,
}

/// All sections in the order in which they are measured.
pub const SECTIONS: [Section; 10] = [
    Section { name: "noise", title: "noise floor (A/A)", seconds: |p| p.noise, run: noise::measure },
    Section {
        name: "scaling",
        title: "scaling of prime events",
        seconds: |p| p.clock + p.scaling,
        run: scaling::measure,
    },
    Section { name: "modes", title: "threads and processes", seconds: |p| p.modes, run: modes::measure },
    Section {
        name: "python",
        title: "parallel modes of Python",
        seconds: |p| p.python,
        run: python::measure,
    },
    Section { name: "matrix", title: "matrix product", seconds: |p| p.matrix, run: matrix::measure },
    Section {
        name: "affinity",
        title: "unpinned against pinned",
        seconds: |p| p.affinity,
        run: affinity::measure,
    },
    Section { name: "latency", title: "core-to-core latency", seconds: |p| p.latency, run: latency::measure },
    Section {
        name: "stream",
        title: "memory bandwidth and latency",
        seconds: |p| p.stream,
        run: stream::measure,
    },
    Section {
        name: "contention",
        title: "contention on counters, pipes and locks",
        seconds: |p| p.contention,
        run: contention::section,
    },
    Section {
        name: "sysbench",
        title: "comparison with sysbench",
        seconds: |p| p.sysbench,
        run: sysbench::measure,
    },
];

/// Options of single loads.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Numbers of workers; if empty, the load's own.
    pub workers: Vec<usize>,
    /// Whether pipes are measured in as many passes of the same length as UnixBench's.
    pub unixbench: bool,
    /// Folder of UnixBench, if it is not found through PATH.
    pub unixbench_dir: Option<PathBuf>,
    /// Options of `stream`.
    pub stream: StreamOptions,
}

/// Returns the planned seconds of `sections`.
pub fn seconds(profile: &Profile, sections: &[Section]) -> f64 {
    sections.iter().map(|section| (section.seconds)(profile)).sum()
}

/// Returns the profile with which `sections` take `time` together. Sections that take none here, such as the latency between CPUs where
/// only one may be used, still take none.
pub fn scaled_to(profile: Profile, sections: &[Section], time: Duration) -> Profile {
    let planned = seconds(&profile, sections);
    if planned > 0.0 { profile.scaled(time.as_secs_f64() / planned) } else { profile }
}
