//! Finds cache lines that threads share although they use different bytes of them (false sharing).
//!
//! ```text
//! command -> observe -> Observation -> Findings -> text
//!            emulator                  sharing     text
//!            memory_sampling
//!            symbols
//! ```
//!
//! [`observe()`] runs a command. Of its engines, [`emulator`] follows every memory access, and
//! `memory_sampling` has the CPU record some of them. `symbols` adds the names of code and data. [`sharing::Findings::of`] evaluates the
//! observation without any access to the system, and [`text`] renders the findings. [`shadow`] is the state
//! that the emulator's plugin keeps of a program.
#![deny(unsafe_code)]

mod cursor;
pub mod emulator;
mod error;
mod memory_sampling;
mod observe;
pub mod shadow;
pub mod sharing;
mod symbols;
pub mod text;

pub use error::{Error, Result};
pub use observe::{EngineChoice, Options, could_have_sampled, observe};
