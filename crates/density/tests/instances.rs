//! Instances as real processes, containers and virtual machines.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod common;
mod container;
mod domain;
mod groups;
mod killed;
mod processes;
