//! A machine and a plan as text and SVG.
#![forbid(unsafe_code)]

mod device_text;
mod layout;
mod node_table;
pub mod plan_text;
pub mod svg;
pub mod text;
pub mod trace_text;
mod worker_labels;
