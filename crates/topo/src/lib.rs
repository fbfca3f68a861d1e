//! A machine and a plan as text and SVG.
//!
//! `topo`, `plan`, `run` and `pin` show machines and plans in the same way, so the drawing is not part of one of them.
//! The layout of a machine is computed once (`layout`) for pictures; a plan is drawn as labels on it (`worker_labels`).
#![forbid(unsafe_code)]

mod device_text;
mod layout;
mod node_table;
pub mod plan_text;
pub mod svg;
pub mod text;
pub mod trace_text;
mod worker_labels;
