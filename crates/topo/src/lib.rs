//! A machine and a plan as text and SVG.
#![forbid(unsafe_code)]

pub mod device_text;
pub mod layout;
pub mod node_table;
pub mod plan_text;
pub mod svg;
pub mod text;
pub mod trace_text;
pub mod worker_labels;
