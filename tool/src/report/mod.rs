//! Renders model types; measures and reads nothing.

pub mod topo_text;
