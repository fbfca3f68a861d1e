//! Instances as real processes, containers and virtual machines.

mod common;
mod container;
mod domain;
mod groups;
mod killed;
mod processes;
