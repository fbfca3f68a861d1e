//! Virtual machines on this host: plans and checks of libvirt domains, and what running domains use.
//!
//! [`domain`] is pure: it edits the XML of a domain so that the guest sees the hardware it runs on, and compares a
//! description of the guest's hardware with what was found. [`planning`] and [`checking`] add what must be read
//! from the running system. [`monitor`] reads the domains that run on this host, whether or not libvirt started them.
#![forbid(unsafe_code)]

pub mod checking;
pub mod domain;
pub mod error;
mod libvirt;
pub mod monitor;
pub mod planning;
mod remedy;
pub mod text;
mod traffic;
pub mod usage;
pub mod usage_text;

pub use error::Error;
pub use remedy::{PlanNote, Remedy};
