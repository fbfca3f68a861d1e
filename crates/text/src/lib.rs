//! Figures with units, and names that a terminal can show.
//!
//! This crate depends on no other one of this workspace, so every layer can use it. Names that other programs have chosen are hostile
//! input: `names` replaces control characters, characters that change the direction of text and characters without
//! width, and escapes them in JSON. It also suggests known names for a mistyped one.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod names;
pub mod units;
pub mod xml;
