//! Instances as real processes, containers and virtual machines.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

#[path = "instances/common.rs"]
mod common;
#[path = "instances/container.rs"]
mod container;
#[path = "instances/domain.rs"]
mod domain;
#[path = "instances/groups.rs"]
mod groups;
#[path = "instances/killed.rs"]
mod killed;
#[path = "instances/processes.rs"]
mod processes;
