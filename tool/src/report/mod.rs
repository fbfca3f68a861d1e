//! Renders model types; measures and reads nothing.

pub mod device_text;
pub mod layout;
pub mod node_table;
pub mod topo_svg;
pub mod topo_text;
