//! Tables, figures and charts as text, HTML and SVG. Nothing here has a meaning of its own: it is used by reports and
//! by every feature that prints.
//!
//! `figure` formats estimates with their intervals, `table` lays out columns for a terminal or a page, `chart` draws
//! SVG without scripts.
#![forbid(unsafe_code)]

pub mod chart;
pub mod figure;
pub mod table;
