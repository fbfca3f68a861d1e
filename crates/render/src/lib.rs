//! Tables, figures and charts as text, HTML and SVG.
#![forbid(unsafe_code)]

pub mod chart;
pub mod figure;
pub mod table;
