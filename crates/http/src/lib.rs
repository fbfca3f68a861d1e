//! A small HTTP server for metrics, pages and server-sent events.
//!
//! [`Server::start`] serves a [`Site`] from a thread of its own with few resources and low priority. The caller publishes
//! texts; nothing that a client does makes the caller wait.
//!
//! | limit | why |
//! |---|---|
//! | beyond [`MOST`] connections the oldest is closed for a new one | idle connections do not keep others out |
//! | 16 KiB for the head of a request, 5 s until it is complete | neither memory nor time without bound |
//! | 10 s for a whole connection; for events, 20 s without progress | clients that do not read are closed |
//! | [`Events`] have a queue of one event for each client | a slow client loses events, and costs no memory |
//!
//! Who may read is decided by [`Access`], before the site sees a request.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod access;
mod answer;
mod connection;
mod error;
mod events;
pub mod metrics;
mod server;

pub use access::{Access, Token};
pub use answer::{Answer, Query, Site};
pub use error::Error;
pub use events::Events;
pub use server::{MOST, Server};
