//! Placement of virtual machines: plans, checks and usage of libvirt domains.
#![forbid(unsafe_code)]

pub mod domain;
pub mod libvirt;
pub mod text;
pub mod top_text;
