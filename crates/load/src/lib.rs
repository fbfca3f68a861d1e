//! A load generator for redis and HTTP/1.1 that does not wait for slow answers.
//!
//! Requests have intended times, at a fixed rate with Poisson or constant arrivals, whatever the server does. The latency of
//! a request is the time from its intended start to the end of its reply. A request whose time has come while all
//! connections wait for replies is late by then, and that time counts. A generator that sends the next request only after a
//! reply (a closed loop) counts a stall of 100 ms once per connection, and not for each request that came meanwhile
//! (coordinated omission).
//!
//! A connection has one request at a time, or several with pipelining. All connections are driven by the calling thread.
//! [`batch`] runs several loads at the same time, also in a process on another host.
//!
//! ```no_run
//! use manycore_load::{Arrivals, LoadRequest, Template};
//! use std::time::Duration;
//!
//! let request = LoadRequest {
//!     address: "127.0.0.1:6379".parse().unwrap(),
//!     template: Template::redis(&["GET", "key:{random}"], 10_000_000)?,
//!     connections: 40,
//!     pipeline: 1,
//!     arrivals: Arrivals::Poisson { per_second: 5000.0 },
//!     warm_up: Duration::from_secs(1),
//!     duration: Duration::from_secs(10),
//!     seed: 1,
//!     polls: false,
//! };
//! let load = manycore_load::run(&request)?;
//! println!("p99: {} us", load.latency_ns(0.99) / 1000);
//! # Ok::<(), manycore_load::Error>(())
//! ```
#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

mod arrivals;
pub mod batch;
mod connection;
mod generator;
mod histogram;
mod protocol;
mod result;
mod run;
mod template;
mod timer;

pub use arrivals::{ArrivalPattern, Arrivals};
pub use generator::LoadRequest;
pub use result::LoadResult;
pub use run::{run, run_with_grace};
pub use template::Template;

use std::{io, net::SocketAddr};

/// Why a load could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not accept connections.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// The error of `connect(2)`.
        source: io::Error,
    },
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
    /// The process that generates loads has failed, or its reply is invalid.
    #[error("the load generator: {0}")]
    Reply(String),
    /// The thread of a load has panicked.
    #[error("the thread of a load has panicked")]
    Panicked,
    /// The load was stopped before its end.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// A result with the error of this crate.
pub type Result<T = ()> = std::result::Result<T, Error>;
