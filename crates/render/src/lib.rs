//! Tables, figures and charts as text, HTML and SVG. Nothing here has a meaning of its own: it is used by reports and
//! by every feature that prints.
//!
//! A feature describes what it prints as a [`document::Document`], without knowing where it is shown. `document` lays
//! it out for a [`terminal::Terminal`], or writes it as Markdown or CSV. `figure` formats estimates with their
//! intervals, `table` holds columns for all of these and for a page, `chart` draws SVG without scripts.
#![forbid(unsafe_code)]

pub mod chart;
pub mod document;
pub mod figure;
pub mod table;
pub mod terminal;
pub mod wrap;
